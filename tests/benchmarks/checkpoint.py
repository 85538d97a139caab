"""What a checkpoint of GPT-2 (124M parameters) costs: `python -m tests.benchmarks.checkpoint`.

AdamW's state of fp32 masters and two moments, 1.5 GB, spread over two processes by fsdp and by
zero3, beside plain `torch.save` of the same by one process. Prints seconds, ratios to
`torch.save`, and by how much the resident memory of a rank rises. Times include the way to
the disk (fsync) and, for ours, the checksums.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from components.checkpoint.manifest import verify
from components.checkpoint.saver import Saver
from components.checkpoint.snapshot import (
    Snapshot,
    contents,
    load_plain,
    read_optimizer,
    read_weights,
)
from components.checkpoint.sources import plain_tensors
from components.cluster.control import Control
from components.cluster.ranks import Ranks
from components.data.batch import Batch
from components.model.gpt import GPT
from tests.gang import STRATEGIES, adamw, alone, prepared, run
from tests.resume.stop_and_go import blank_manifest

TOKENS = 16


def gpt2() -> GPT:
    return GPT(
        vocab_size=50257,
        seq_len=1024,
        layers=12,
        heads=12,
        width=768,
        dropout=0.0,
        positions="learned",
        bias=True,
        tied_embeddings=True,
    )


def batch() -> Batch:
    ids = torch.randint(50257, (1, TOKENS), generator=torch.Generator().manual_seed(0))
    return Batch(ids, ids.roll(-1, 1), 1)


def risen(act: Callable[[], Any]) -> tuple[float, float]:
    """Seconds that `act` takes, and MiB by which the peak of resident memory rises meanwhile."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _resident("VmRSS")
    start = time.perf_counter()
    act()
    seconds = time.perf_counter() - start
    return seconds, (_resident("VmHWM") - before) / 1024


def _resident(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(field))


def ours(ranks: Ranks, word: str, folder: Path) -> dict[str, Any]:
    """One strategy's costs on this rank."""
    torch.manual_seed(0)
    strategy = prepared(STRATEGIES[word](), gpt2(), ranks, make_optimizer=adamw)
    strategy.step([batch()])
    control = Control(ranks, 600.0)

    def make() -> Snapshot:
        state = strategy.optimizer_state()
        return Snapshot(
            strategy.weights(), state.tensors, state.scalars, {}, {}, "", blank_manifest(1, word)
        )

    def saver(background: bool) -> Saver:
        return Saver(
            folder / f"{background}",
            Control(ranks, 600.0) if background else control,
            every_steps=None,
            every_minutes=None,
            keep_last=1,
            keep_best=0,
            best_metric="val/loss",
            lowest=True,
            background=background,
            may_commit=lambda: None,
        )

    foreground, beside = saver(False), saver(True)
    out: dict[str, Any] = {"save": risen(lambda: foreground.save(make, 1, {}))}
    out["copy"] = risen(lambda: beside.save(make, 1, {}))
    out["beside"] = risen(beside.wait)
    checkpoint = folder / "False" / "checkpoints" / "step-000001"
    out["verify"] = risen(lambda: verify(checkpoint)) if ranks.main else (0.0, 0.0)
    strategy.close()

    fresh = gpt2()
    out["weights"] = risen(lambda: read_weights(checkpoint, plain_tensors(fresh)))
    strategy = prepared(STRATEGIES[word](), fresh, ranks, make_optimizer=adamw)

    def restore() -> None:
        scalars = load_plain(checkpoint / "training.pt")["optimizer"]
        strategy.make_optimizer_state(contents(checkpoint).optimizer, scalars)
        read_optimizer(checkpoint, strategy.optimizer_state().tensors)

    out["optimizer"] = risen(restore)
    strategy.close()
    return out


def plain(folder: Path) -> dict[str, Any]:
    """`torch.save` and `torch.load` of the same state by one process."""
    torch.manual_seed(0)
    model = gpt2()
    strategy = prepared(STRATEGIES["single"](), model, alone(), make_optimizer=adamw)
    strategy.step([batch()])
    path = folder / "plain.pt"

    def save() -> None:
        state = {"model": model.state_dict(), "optimizer": strategy.optimizer.state_dict()}
        with path.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())

    def load() -> None:
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        strategy.optimizer.load_state_dict(state["optimizer"])

    return {"save": risen(save), "load": risen(load)}


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        reference = plain(folder)
        size = (folder / "plain.pt").stat().st_size / 2**20
        (folder / "plain.pt").unlink()
        for key, (seconds, rise) in reference.items():
            print(
                f"torch.{key:<22} {seconds:6.2f} s         rises by {rise:6.0f} MiB of {size:.0f}"
            )
        for word in ("fsdp", "zero3"):
            rank = run(ours, 2, word, folder / word)[0]
            for key, (seconds, rise) in rank.items():
                base = reference["save" if key in ("save", "copy", "beside") else "load"][0]
                print(
                    f"{word} x2 {key:<20} {seconds:6.2f} s {seconds / base:5.2f} x "
                    f"rises by {rise:6.0f} MiB on rank 0"
                )


if __name__ == "__main__":
    main()
