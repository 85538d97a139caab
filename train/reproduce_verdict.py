"""Whether a run and its reproduction are equal: config, end, metrics."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from train import status
from train.changes import Change, changes
from train.config_hash import lasting
from train.files import read_json
from train.reproduce_compare import Spread, by_step, spreads, tolerance
from train.reproduce_environment import Difference, bits_expected

FROM_OUTSIDE = ("killed", "stopped", "preempted")
"""Kinds of ends that somebody or something else brought about: they are not the run's own."""


@dataclass(frozen=True)
class Verdict:
    """What came of a reproduction.

    Attributes:
        config: keys in which the resolved configs differ.
        ends: how the two ended, if differently.
        metrics: those that differ in some step.
        compared: steps on record that were compared.
        until: the step up to which, where the original was cut short.
        loose: why bits may differ; None when they may not.
        compute: the type in which the original computed; None if it is not known.
    """

    config: list[Change]
    ends: tuple[str, str] | None
    metrics: list[Spread]
    compared: int
    until: int | None
    loose: str | None
    compute: str | None

    def allowed(self, metric: str) -> float:
        """The relative difference of a metric that passes."""
        return 0.0 if self.loose is None else tolerance(self.compute, metric)

    @property
    def equal(self) -> bool:
        """Whether all of it is."""
        within = all(spread.relative <= self.allowed(spread.name) for spread in self.metrics)
        return not self.config and self.ends is None and within

    def lines(self) -> list[str]:
        """For the console."""
        config = [f"{key}: {then} -> {now}" for key, then, now in self.config]
        told = _section("config", "equal", config)
        told += _section("end", "the same", [f"{a} -> {b}" for a, b in filter(None, [self.ends])])
        until = "" if self.until is None else f", up to step {self.until}, where the original ends"
        told += _section(
            "metrics",
            f"equal to the last bit in {self.compared} steps on record{until}",
            [f"{spread}{self._verdict(spread)}" for spread in self.metrics],
        )
        if self.metrics:
            reason = "are expected" if self.loose is None else f"are not expected: {self.loose}"
            told.append(f"{'':<12}the same bits {reason}")
        return told

    def _verdict(self, spread: Spread) -> str:
        allowed = self.allowed(spread.name)
        within = "within" if spread.relative <= allowed else "beyond"
        return "" if self.loose is None else f", {within} the {allowed:g} that pass"

    def as_json(self) -> dict[str, Any]:
        """For reproduction.json."""
        return {
            "equal": self.equal,
            "config": [{"key": k, "then": then, "now": now} for k, then, now in self.config],
            "ends": None if self.ends is None else {"then": self.ends[0], "now": self.ends[1]},
            "steps_compared": self.compared,
            "until": self.until,
            "bits_may_differ": self.loose,
            "metrics": [
                {**asdict(spread), "allowed": self.allowed(spread.name)} for spread in self.metrics
            ],
        }


def judge(folder: Path, again: Path, pinned: Collection[str], around: list[Difference]) -> Verdict:
    """Compare a run with its reproduction in the folder `again`.

    Args:
        pinned: keys that stand for what `auto` meant; they differ by intention.
        around: what surroundings differ in.
    """
    then, now = by_step(folder), by_step(again)
    states = status.read(folder), status.read(again)
    until = max(then, default=0) if _cut_short(states[0]) else None
    if until is not None:
        now = {step: record for step, record in now.items() if step <= until}
        if until in now:  # it may have ended between a step's record and its evaluation
            now[until] = {key: now[until][key] for key in now[until] if key in then[until]}
    ends = _end(states[0]), _end(states[1])
    provenance = read_json(folder / "provenance.json")
    found = changes(_config(folder), _config(again))
    return Verdict(
        config=[change for change in found if change[0] not in pinned],
        ends=None if until is not None or ends[0] == ends[1] else ends,
        metrics=spreads(then, now),
        compared=len(then),
        until=until,
        loose=bits_expected(provenance, read_json(again / "provenance.json"), around),
        compute=provenance.get("dtypes", {}).get("compute"),
    )


def _cut_short(state: dict[str, Any]) -> bool:
    kind = (state.get("error") or {}).get("kind")
    return state.get("status") in ("running", "preempted") or kind in FROM_OUTSIDE


def _end(state: dict[str, Any]) -> str:
    kind = (state.get("error") or {}).get("kind")
    return f"{state.get('status')}{f' ({kind})' if kind else ''} after {state.get('steps')} steps"


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.yaml"
    if not path.exists():
        return {}  # it ended before its config was resolved
    loaded = OmegaConf.load(path)
    assert isinstance(loaded, DictConfig)
    return lasting(loaded)


def _section(name: str, equal: str, differences: list[str]) -> list[str]:
    first, *rest = differences or [equal]
    return [f"{name:<12}{first}", *(f"{'':<12}{line}" for line in rest)]
