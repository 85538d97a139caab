"""One run's folder as it reads offline, however the run ended."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.errors import ConfigError
from train import records, status
from train.compare.leader import led
from train.compare.yaml_files import read_yaml
from train.files import read_json

CRASHED = (
    "the process that led the run is gone, and it has told no end: killed, or the machine went "
    "down. Go on with: python -m train resume={folder}"
)


@dataclass(frozen=True)
class Result:
    """What one run left.

    Attributes:
        folder: the run's.
        name: the folder's own.
        status: that of status.json; `crashed` for one that says `running` and has no leader, and
            `damaged` where status.json cannot be read.
        error: None, or an object with at least `cause`: see docs/record.md.
        attempts: how often the run was started.
        started, ended: UTC, ISO 8601; `ended` is None while it runs and after a crash.
        overrides: what was typed or swept, a `key=value` each.
        config: the resolved config as plain containers; empty for a run that was refused.
        cell: `precision`, `parallel`, `cluster` and `world_size`, as far as they are known.
        summary: of a run that completed; else empty.
        provenance: of a run that was started; else empty.
        choices: Hydra's groups and the option taken in each, as in `model: gpt_nano`.
        chosen: the config before interpolations and derived numbers were filled in.
        steps: steps taken, as far as status.json or the summary say; 0 while it runs.
    """

    folder: Path
    name: str
    status: str
    error: dict[str, Any] | None = None
    attempts: int = 1
    started: str | None = None
    ended: str | None = None
    overrides: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    cell: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    choices: dict[str, Any] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)
    steps: int = 0

    def records(self) -> list[dict[str, Any]]:
        """All records of metrics.jsonl in order; read anew each time, as it may still grow.

        A line that a kill or a full disk has torn is left out.
        """
        try:
            content = (self.folder / records.FILE).read_bytes()
        except FileNotFoundError:
            return []
        whole = content[: content.rfind(b"\n") + 1].rstrip()
        try:  # as one array, in half the time that it takes line by line
            return list(json.loads(b"[" + whole.replace(b"\n", b",") + b"]"))
        except ValueError:
            found = map(as_record, whole.splitlines())
            return [record for record in found if record is not None]

    @property
    def log(self) -> Path | None:
        """Where its failure can be read: a traceback, else a rank's log; None if it left none.

        Relative to the folder.
        """
        error = self.error or {}
        rank = error.get("rank")
        names = [error.get("traceback_file"), f"logs/rank-{0 if rank is None else rank}.log"]
        paths = [Path(name) for name in names if name]
        return next((path for path in paths if (self.folder / path).is_file()), None)


def read_run(folder: Path) -> Result:
    """The run in `folder`. Files that are missing or damaged count as empty."""
    state, error = _state(folder)
    word = str(state.get("status", "running"))
    if error is not None:
        word = "damaged"
    elif word == "running" and not led(folder):
        word = "crashed"
        error = {"kind": word, "cause": CRASHED.format(folder=folder), "rank": None}
    summary, provenance = _json(folder / "summary.json"), _json(folder / "provenance.json")
    choices = _choices(folder)
    cell = {
        **{key: choices[key] for key in ("precision", "parallel") if choices.get(key)},
        **provenance.get("cell", {}),
        **summary.get("cell", {}),
    }
    return Result(
        folder=folder,
        name=folder.absolute().name,
        status=word,
        error=error or state.get("error"),
        attempts=int(state.get("attempts", 1)),
        started=state.get("started"),
        ended=state.get("ended"),
        overrides=[str(text) for text in read_yaml(folder / ".hydra" / "overrides.yaml") or []],
        config=_mapping(folder / "config.yaml"),
        cell=cell,
        summary=summary,
        provenance=provenance,
        choices=choices,
        chosen=_mapping(folder / ".hydra" / "config.yaml"),
        steps=int(summary.get("steps", 0) or state.get("steps", 0) or 0),
    )


def _state(folder: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    try:
        return status.read(folder), None
    except ConfigError as damaged:
        return {}, {"kind": "damaged", "cause": str(damaged), "rank": None}


def as_record(line: bytes) -> dict[str, Any] | None:
    """A line of metrics.jsonl; None for one that was torn."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "step" in record else None


def _json(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except (ValueError, TypeError):
        return {}


def _mapping(path: Path) -> dict[str, Any]:
    content = read_yaml(path)
    return content if isinstance(content, dict) else {}


def _choices(folder: Path) -> dict[str, Any]:
    hydra = _mapping(folder / ".hydra" / "hydra.yaml").get("hydra", {})
    return dict(hydra.get("runtime", {}).get("choices", {}))
