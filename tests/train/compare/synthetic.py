"""Run folders written by hand: what a run leaves, without running it."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

CONFIG: dict[str, Any] = {
    "cluster": {"_target_": "components.cluster.cluster.Cluster", "nproc_per_node": 2, "nnodes": 1},
    "parallel": {"_target_": "components.parallel.ddp.DDP"},
    "precision": {"_target_": "components.precision.Precision", "name": "fp32"},
    "model": {"_target_": "components.model.gpt.GPT", "layers": 4, "width": 96},
    "data": {"_target_": "components.data.python_source.PythonSource", "seq_len": 128},
    "optimizer": {"_target_": "torch.optim.AdamW", "_partial_": True, "lr": 0.001},
    "logger": {},
    "steps": 3,
    "global_batch_size": 32,
    "micro_batch_size": 16,
    "accumulation": 1,
    "seed": 0,
    "resume": None,
}
CHOICES = {
    "cluster": "single_node",
    "model": "gpt_nano",
    "data": "python_source",
    "optimizer": "adamw",
    "logger": "none",
}
DERIVED = ("micro_batch_size", "accumulation", "cluster.nproc_per_node", "cluster.nnodes")
"""What a user leaves open, and the run's config.yaml has filled in."""

BEGAN = 1_795_988_313.0
"""Seconds since 1970 of each run's start: 2026-11-29T21:38:33+00:00."""


def train_record(step: int, loss: float | None, **more: Any) -> dict[str, Any]:
    """One training record: 0.5 s a step, 32 samples of 128 tokens each."""
    return {
        "step": step,
        "time": BEGAN + step,
        "train/loss": loss,
        "train/grad_norm": 1.0,
        "lr": 0.001,
        "loss_scale": 1.0,
        "skipped_steps": 0,
        "samples": 32 * step,
        "samples_per_s": 64.0,
        "tokens_per_s": 8192.0,
        "step_time_s": 0.5,
        "data_wait_share": 0.25,
        **more,
    }


def val_record(step: int, loss: float | None, **more: Any) -> dict[str, Any]:
    """One evaluation record."""
    return {"step": step, "time": BEGAN + step + 0.5, "val/loss": loss, "val/time_s": 0.5, **more}


def curve(train: Sequence[float | None], val: Mapping[int, float | None]) -> list[dict[str, Any]]:
    """Records of the steps 1, 2, ... with these losses, and evaluations at some of them."""
    records = []
    for step, loss in enumerate(train, start=1):
        records.append(train_record(step, loss))
        if step in val:
            records.append(val_record(step, val[step]))
    return records


def write_run(
    folder: Path,
    *,
    parallel: str = "ddp",
    precision: str = "fp32",
    world_size: int = 2,
    seed: int = 0,
    status: str = "completed",
    error: Mapping[str, Any] | None = None,
    records: Sequence[Mapping[str, Any]] | None = None,
    config: Mapping[str, Any] | None = None,
    choices: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    throughput: Mapping[str, Any] | None = None,
    peak_memory_bytes: Sequence[int] = (1024, 2048),
    summary: Mapping[str, Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
    attempts: int = 1,
) -> Path:
    """Write a run's folder; the folder.

    Args:
        folder: of the run; made, with its parents.
        status: as in status.json. Only `completed` leaves a summary; `refused` leaves neither
            config.yaml, provenance.json nor records.
        records: of metrics.jsonl; None is three steps with losses 4, 3, 2 and a validation of 2.5.
        config: values by dotted key that differ from `CONFIG`. They count as set by the user.
        choices: Hydra's groups that differ from `CHOICES`.
        overrides: what was typed, but for `parallel=`, `precision=` and `seed=`.
        throughput: of the summary; None is 64 samples a second.
        summary, provenance: further keys of these files.
    """
    lines = list(curve([4.0, 3.0, 2.0], {3: 2.5}) if records is None else records)
    resolved, chosen = _configs(parallel, precision, world_size, seed, dict(config or {}))
    words = [f"parallel={parallel}", f"precision={precision}", f"seed={seed}", *overrides]
    taken = {**CHOICES, "parallel": parallel, "precision": precision, **dict(choices or {})}
    cell = {
        "precision": precision,
        "parallel": parallel,
        "cluster": f"1x{world_size}-cpu",
        "world_size": world_size,
    }
    (folder / ".hydra").mkdir(parents=True)
    (folder / "logs").mkdir()
    _yaml(folder / ".hydra" / "overrides.yaml", words)
    _yaml(folder / ".hydra" / "config.yaml", chosen)
    _yaml(folder / ".hydra" / "hydra.yaml", {"hydra": {"runtime": {"choices": taken}}})
    steps = max((line["step"] for line in lines), default=0) if status != "refused" else 0
    ended = None if status == "running" else "2026-11-29T21:38:43.000+00:00"
    told = {
        "status": status,
        "attempts": attempts,
        "error": None if error is None else dict(error),
        "started": "2026-11-29T21:38:33.000+00:00",
        "ended": ended,
        "steps": 0 if status == "running" else steps,
    }
    _json(folder / "status.json", told)
    if status == "refused":
        return folder
    (folder / "logs" / "rank-0.log").write_text("2026-11-29 INFO a line of the log\n")
    _yaml(folder / "config.yaml", resolved)
    run = {"id": "0123456789ab", "folder": str(folder)}
    origin = {
        "command": "python -m train " + " ".join(words),
        "python": "3.11.7",
        "packages": {"torch": "2.13.0"},
        "machine": {"host": "host", "cores": 2, "memory_bytes": 25_000_000_000},
        "git": {"commit": "39da858b02a9537c36b3f4d0648be48990eb1d6e", "dirty": False},
        "cell": cell,
        "seed": seed,
        "run": run,
        "data": {"fingerprint": "sha256:00"},
        **dict(provenance or {}),
    }
    _json(folder / "provenance.json", origin)
    with (folder / "metrics.jsonl").open("w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    if status == "completed":
        rates = {"step_time_s": 0.5, "samples_per_s": 64.0, "tokens_per_s": 8192.0}
        content = {
            "steps": steps,
            "updates": steps,
            "skipped_steps": 0,
            "last": _last(lines),
            "throughput": rates if throughput is None else dict(throughput),
            "peak_memory_bytes": list(peak_memory_bytes),
            "cell": cell,
            **dict(summary or {}),
        }
        _json(folder / "summary.json", content)
    return folder


def _configs(
    parallel: str, precision: str, world_size: int, seed: int, different: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The resolved config, and the composed one in which derived numbers stand open."""
    set_here = {
        "parallel._target_": f"components.parallel.{parallel}.{parallel.capitalize()}",
        "precision.name": precision,
        "seed": seed,
        **different,
    }
    resolved = copy.deepcopy(CONFIG)
    resolved["cluster"]["nproc_per_node"] = world_size
    resolved["micro_batch_size"] = 32 // world_size
    chosen = copy.deepcopy(CONFIG)
    for key in DERIVED:
        _set(chosen, key, None)
    for key, value in set_here.items():
        _set(resolved, key, value)
        _set(chosen, key, value)
    return resolved, chosen


def _set(config: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    for parent in parents:
        config = config.setdefault(parent, {})
    config[last] = value


def _last(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    kinds = ("train/", "val/")
    last: dict[str, Any] = {}
    for line in lines:
        found = {k: v for k, v in line.items() if k.startswith(kinds) and v is not None}
        last.update(found)
    return last


def _json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def _yaml(path: Path, content: Any) -> None:
    OmegaConf.save(OmegaConf.create(content), path)
