"""`python -m train.export`: a run's weights as safetensors, or as transformers loads them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from components.errors import ConfigError

# torch is imported by the functions that need it: --help and a mistake are told sooner.

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""Types of an export, by the words of `precision`; their own names will do too."""
FORMAT_NAMES = ("safetensors", "transformers")

EPILOG = """\
examples:
  python -m train.export outputs/<date>/<run>
  python -m train.export outputs/<date>/<run>/checkpoints/step-000200 --dtype bfloat16
  python -m train.export outputs/<date>/<run> --to gpt.safetensors
  python -m train.export outputs/<date>/<run of model=transformers> --to my-llama

Reads the newest whole checkpoint, every byte held against its checksum, in one process, whatever
strategy and number of ranks wrote it; without checkpoints, the weights.safetensors of a finished
run. No GPU is needed, nor memory for more than a few tensors. Names are those of the plain
module's state dict, a tied weight under each of its own.

exit codes: 0 exported; 1 could not be written, or holds nan or inf; 2 refused
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    words = _parser().parse_args(argv)
    from train.export_write import Failed

    try:
        print(
            export(
                words.origin,
                words.to,
                DTYPES.get(words.dtype, words.dtype),
                words.format,
                words.force,
            )
        )
    except ConfigError as refusal:
        print(f"refused: {refusal}", file=sys.stderr)
        return 2
    except Failed as failure:
        print(f"export failed: {failure}. Nothing of it is left.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: nothing of the export is left", file=sys.stderr)
        return 130
    return 0


def export(
    path: Path,
    to: Path | None = None,
    dtype: str | None = None,
    format: str | None = None,
    force: bool = False,
) -> str:
    """Export the weights of a run or checkpoint; what was written, in words.

    Args:
        to: a folder, or a file whose name ends in .safetensors; None is beside the weights.
        dtype: of floating-point tensors; None leaves them as they were saved.
        format: safetensors or transformers; None takes transformers where the model is one of it.
        force: replace an earlier export.

    Raises:
        ConfigError: when it cannot be.
        Failed: when it was begun and cannot be brought to its end.
    """
    import torch

    from train.export_formats import FORMATS, default_format
    from train.export_model import known_model
    from train.export_origin import origin_of
    from train.export_write import Content, target_of, write

    origin = origin_of(path)
    source = origin.source
    known = known_model(origin.config, source)
    form = FORMATS[format or default_format(known)](known, source)
    content = Content(
        source,
        form.names,
        dtype=getattr(torch, dtype) if dtype else None,
        infinite=known.buffers,
        metadata={} if origin.step is None else {"step": str(origin.step)},
    )
    written = write(
        content,
        target_of(to or origin.place, form.stem, form.beside),
        beside=form.beside,
        write_beside=form.write_beside,
        force=force,
    )
    type_name = str(content.main_dtype()).removeprefix("torch.")
    told = f"{len(form.names)} tensors, {known.count(source):,} parameters, {type_name}: {written}"
    if known.unknown:
        told += f"\nthe names are the checkpoint's, not held against the model: {known.unknown}"
    return told


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m train.export",
        description="Write the weights of a run, or of one of its checkpoints, for use elsewhere.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("origin", type=Path, metavar="run-or-checkpoint", help="its folder")
    parser.add_argument(
        "--to",
        type=Path,
        metavar="FOLDER_OR_FILE",
        help="a folder, or a file named *.safetensors; default: <run>/export/<checkpoint>",
    )
    parser.add_argument(
        "--dtype",
        choices=[*DTYPES, *DTYPES.values()],
        help="of floating-point tensors; default: as saved, float32",
    )
    parser.add_argument(
        "--format",
        choices=FORMAT_NAMES,
        help="transformers: a folder for AutoModelForCausalLM.from_pretrained, the default for "
        "model=transformers; safetensors: the default for all others",
    )
    parser.add_argument("--force", action="store_true", help="replace an earlier export")
    return parser


if __name__ == "__main__":
    sys.exit(main())
