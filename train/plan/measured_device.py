"""A device as `python -m train.check --json` has measured it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from components.device import Device, Measured
from components.errors import ConfigError
from train.files import read_json

KINDS: dict[str, Literal["cpu", "cuda"]] = {"cpu": "cpu", "cuda": "cuda"}

TYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}

WRONG = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, ConfigError)
"""What comes of figures that are missing, or are none."""

NAMES = {"ring": "send"}
"""What the plan calls otherwise."""


def read_device(path: Path, key: str) -> Device:
    """The device of a check's file: of each figure the slowest rank's.

    Args:
        key: that names the file, for messages.

    Raises:
        ConfigError: for a file that is none of a check, or of a quick one.
    """
    try:
        report = read_json(path)
    except (OSError, ValueError, TypeError):  # a folder, no JSON, JSON of something else
        report = {}
    if not report.get("ranks") or "cluster" not in report:
        raise ConfigError(
            f"{key}={path}: this is no file of a check. Write one where the run will be: "
            f"python -m train.check --json {path.name}"
        )
    try:
        whole = not report.get("quick") and "attained" in report["ranks"][0]
        device = device_of(report, path.name) if whole else None
    except WRONG as error:
        raise ConfigError(
            f"{key}={path}: this is no whole file of a check ({type(error).__name__}: {error}). "
            f"Make it anew: python -m train.check --json {path.name}"
        ) from error
    if device is None:
        raise ConfigError(
            f"{key}={path}: this check has measured too little to tell times by. Make one without "
            f"--quick: python -m train.check --json {path.name}"
        )
    return device


def device_of(report: dict[str, Any], name: str) -> Device:
    """The device of a check's report."""
    ranks, cluster = report["ranks"], report["cluster"]
    per_node = cluster["nproc_per_node"]
    shared = cluster["device"] == "cpu"
    copied = min(rank["copy_bytes_per_s"] for rank in ranks)
    # One rank alone has no links: those within its memory are the bound.
    rates = {
        across: min(one["bytes_per_s"] for one in report["links"] if one["across"] is across)
        for across in {one["across"] for one in report["links"]}
    }
    inside = rates.get(False, rates.get(True, copied))
    return Device(
        name=f"{ranks[0]['device']} ({name})",
        memory_bytes=min(rank["memory_total_bytes"] for rank in ranks)
        / (per_node if shared else 1),
        flops={TYPES[key]: min(r["flops"][key] for r in ranks) for key in ranks[0]["flops"]},
        memory_bytes_per_s=2 * copied,  # a copy reads and writes
        link_bytes_per_s=inside,
        network_bytes_per_s=rates.get(True, inside),
        per_node=per_node,
        kind=KINDS[cluster["device"]],
        operation_s=max(rank["operation_s"] for rank in ranks),
        attained={TYPES[key]: min(r["attained"][key] for r in ranks) for key in ranks[0]["flops"]},
        collectives=_collectives(report["collectives"], cluster["world_size"]),
        shared=shared,
        knows_network=True in rates,
    )


def _collectives(entries: list[dict[str, Any]], ranks: int) -> dict[str, Measured]:
    if ranks == 1:
        return {}
    points: dict[str, list[tuple[float, float]]] = {}
    for entry in entries:
        if entry.get("bytes") is not None:
            name = NAMES.get(entry["name"], entry["name"])
            points.setdefault(name, []).append((entry["bytes"], entry["seconds"]))
    return {name: Measured(ranks, tuple(sorted(some))) for name, some in points.items()}
