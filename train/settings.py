"""The keys at a config's root: their types, their ranges, and that there are no others."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf

from train.annotations import mismatch, written
from train.config_tree import entries, raw_text
from train.nearest import hint
from train.sweep.options import ROOT, check_options

COMPONENTS = (
    "cluster",
    "parallel",
    "precision",
    "model",
    "objective",
    "data",
    "optimizer",
    "scheduler",
    "checkpoint",
    "logger",
)
"""The groups that a run is made of; each is a key at the root."""

OVERLAYS = ("experiment", "debug")
"""The groups that set keys of others: their files begin with `# @package _global_`."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How long and how big a run is: the root keys of conf/config.yaml beside the groups."""

    steps: int
    global_batch_size: int | None = None
    micro_batch_size: int | None = None
    accumulation: int | None = None
    clip_norm: float | None = 1.0
    compile: bool = False
    seed: int = 0
    deterministic: bool = False
    log_every: int = 10
    eval_every: int = 100
    patience: int | None = None
    on_nonfinite: Literal["stop", "skip"] = "stop"
    on_spike: Literal["warn", "skip", "stop"] | None = None
    spike_factor: float = 10.0
    spike_window: int = 50
    drift_every: int = 0
    memory_check: Literal["refuse", "warn"] | None = "refuse"
    resume: str | None = None
    resume_allow: list[str] = field(default_factory=list)
    allowed_targets: list[str] | None = None
    init_from: str | None = None
    init_strict: bool = True
    run_id: str | None = None
    dry_run: bool = False


KEYS = tuple(f.name for f in dataclasses.fields(Settings))


def _at_least(low: int, why: str) -> tuple[Callable[[Any], bool], str]:
    return (lambda value: value >= low), f"must be at least {low}: {why}"


RANGES = {
    "steps": _at_least(1, "a run takes one optimizer step or more"),
    "global_batch_size": _at_least(1, "samples of one step over all ranks"),
    "micro_batch_size": _at_least(1, "samples of one forward on one rank"),
    "accumulation": _at_least(1, "forwards of one step on one rank"),
    "clip_norm": (
        lambda value: 0 < value < float("inf"),
        "must be a positive number: the largest gradient norm, or null to leave it unclipped",
    ),
    "seed": (
        lambda value: 0 <= value < 2**32,
        "must lie between 0 and 4294967295, the range of every generator that it seeds",
    ),
    "log_every": _at_least(1, "steps between two records"),
    "eval_every": _at_least(0, "steps between evaluations, 0 for the last step only"),
    "patience": _at_least(1, "evaluations without a lower val/loss"),
    "spike_factor": (
        lambda value: 0 < value < float("inf"),
        "must be a positive number: so many times the scatter above the median is a spike",
    ),
    "spike_window": (
        (lambda value: 5 <= value <= 1_000_000),
        "must be 5 to 1,000,000: updates that a median and a scatter are taken of",
    ),
    "drift_every": _at_least(0, "steps between comparisons of replicas, 0 for none"),
}


def check_settings(config: DictConfig) -> list[str]:
    """What is wrong with the root keys of a composed config; empty if nothing is.

    A further key passes if an interpolation in the config reads it.
    """
    hints = typing.get_type_hints(Settings)
    problems = []
    for key in config:
        name = str(key)
        if name in KEYS:
            if OmegaConf.is_missing(config, name) or OmegaConf.is_interpolation(config, name):
                continue
            problems += _check_one(name, hints[name], config[name])
        elif name == ROOT:
            problems += check_options(config[name])
        elif name not in COMPONENTS and name != "hydra" and name not in _read(config):
            problems.append(_unread(name, config))
    return problems


def _check_one(key: str, annotation: Any, value: Any) -> list[str]:
    wrong = mismatch(annotation, value)
    if wrong is not None:
        return [f"{key}={written(value)}: {wrong}."]
    within, message = RANGES.get(key, (None, ""))
    if within is not None and value is not None and not within(value):
        return [f"{key}={written(value)}: {key} {message}."]
    return []


def _unread(key: str, config: DictConfig) -> str:
    if key in OVERLAYS:
        return (
            f"{key}: the chosen {key} file sets keys under {key}, where nobody reads them. "
            "Let its first line be `# @package _global_`."
        )
    names = [*KEYS, *COMPONENTS]
    keys_below = [full for full, _, _ in entries(config) if full.partition(".")[0] in names]
    value = "" if OmegaConf.is_dict(config._get_node(key)) else f"={raw_text(config, key)}"
    cure = hint(key, [*names, *keys_below]) or "Take it out"
    return f"{key}{value}: nobody reads a key {key} at the root. {cure}{'' if '?' in cure else '.'}"


def _read(config: DictConfig) -> set[str]:
    """The root keys that some interpolation names."""
    return {
        root
        for _, node, place in entries(config)
        if OmegaConf.is_interpolation(node, place)
        for root in re.findall(r"\$\{\s*([A-Za-z_]\w*)", raw_text(node, place))
    }
