"""`python -m train.replay`: one W&B run from a run's record, each step once."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args
from uuid import uuid4

from omegaconf import DictConfig, OmegaConf

from components.errors import ConfigError
from components.logger.base import RunInfo
from components.logger.wandb import Mode, WandbLogger
from train import records, status
from train.files import read_json
from train.run_title import sweep_of, title
from train.wandb_node import wandb_options

PLACE = "replay"
"""Beside the segments of the attempts, so that `wandb sync` of one place sends one of the two."""

FINISH_S = 3600.0
"""Seconds that an upload may take: nothing waits for it but the command itself."""

EPILOG = """\
W&B cannot continue an offline run: each attempt of a run that was stopped and resumed leaves a
segment of its own. This command makes one run of metrics.jsonl, config.yaml and summary.json,
whatever the number of attempts, under a new id, so that nothing there is replaced.

examples:
  python -m train.replay outputs/<date>/<run>                  then `wandb sync` of what it names
  python -m train.replay outputs/<date>/<run> --mode online    sent at once

exit codes: 0 done; 1 W&B failed, or could not go online; 2 refused
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    words = _parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        told, code = replay(words.run, words.mode, words.project, words.entity)
    except ConfigError as refusal:
        print(f"refused: {refusal}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    print(told)
    return code


def replay(
    folder: Path, mode: Mode = "offline", project: str | None = None, entity: str | None = None
) -> tuple[str, int]:
    """Rebuild one W&B run; what came of it in words, and the exit code.

    Args:
        folder: of a run.
        project, entity: None takes those of the run's own W&B logger.

    Raises:
        ConfigError: when there is no record of a run.
    """
    steps = by_step(folder)
    config = _config(folder)
    keys = ("project", "entity", "group", "tags")
    own = {key: value for key, value in wandb_options(config).items() if key in keys}
    own |= {key: value for key, value in (("project", project), ("entity", entity)) if value}
    sink = WandbLogger(mode=mode, finish_timeout_s=FINISH_S, **own)
    info = _info(folder, config)
    info.folder.mkdir(exist_ok=True)
    state = status.read(folder).get("status", "failed")
    try:
        sink.start(info)
        for record in steps:
            # W&B's own clock is set to when it happened.
            sink.log_patiently({**record, "_timestamp": record["time"]})
        sink.finish(state, read_json(folder / "summary.json"))
    except Exception as error:  # whatever the client throws
        return f"W&B failed ({type(error).__name__}: {error}); the record is as it was", 1
    where = next(iter(info.folder.glob(f"wandb/*run-*-{info.run_id}")), info.folder)
    told = (
        f"{len(steps)} steps on record, up to step {steps[-1]['step']}, of {info.name} as W&B run "
        f"{info.run_id}: {where}"
    )
    if state == "running":
        told += "\nthe run has not ended: these are its steps so far"
    if where.name.startswith("offline-"):
        told += f"\nupload it with: wandb sync {where}"
    return told, int(mode == "online" and where.name.startswith("offline-"))


def by_step(folder: Path) -> list[dict[str, Any]]:
    """The record of a run, what belongs to one step in one piece.

    Raises:
        ConfigError: when there is none.
    """
    path = folder / records.FILE
    if not path.is_file():
        raise ConfigError(f"{folder} has no {records.FILE}. Give the folder of a run.")
    steps: dict[int, dict[str, Any]] = {}
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):  # the last of a run that was killed may be torn
            record = json.loads(line)
            steps.setdefault(record["step"], {}).update(record)
    if not steps:
        raise ConfigError(f"{path} has no record yet.")
    return [steps[step] for step in sorted(steps)]


def _config(folder: Path) -> DictConfig:
    path = folder / "config.yaml"
    if not path.is_file():
        raise ConfigError(f"{path} is missing. Give the folder of a run.")
    loaded = OmegaConf.load(path)
    assert isinstance(loaded, DictConfig)
    return loaded


def _info(folder: Path, config: DictConfig) -> RunInfo:
    provenance = read_json(folder / "provenance.json")
    if "cell" not in provenance:
        raise ConfigError(f"{folder} has no provenance.json of a run that was started.")
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    original = provenance.get("run", {}).get("id")
    return RunInfo(
        folder=folder / PLACE,
        run_id=uuid4().hex[:12],
        name=title(folder),
        config={**{str(key): value for key, value in plain.items()}, "replay_of": original},
        cell=provenance["cell"],
        group=sweep_of(folder),
        steps=int(config.steps),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m train.replay",
        description="Rebuild one W&B run, each step once, from the record of a run.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument(
        "--mode",
        choices=[mode for mode in get_args(Mode) if mode != "disabled"],
        default="offline",
        help="offline (default): into <run>/replay/wandb, for `wandb sync`; online: sent at once",
    )
    parser.add_argument("--project", help="default: the run's own, else shardlab")
    parser.add_argument("--entity", help="default: the run's own")
    return parser


if __name__ == "__main__":
    sys.exit(main())
