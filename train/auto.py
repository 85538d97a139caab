"""`parallel=auto`: the fastest strategy that fits, by the plan, before anything starts."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from components.cluster.cluster import Cluster
from components.cluster.device_memory import rank_memory
from components.cluster.joined import Joined
from components.device import Device
from components.errors import ConfigError
from components.parallel.auto import Auto
from train.check.table import duration
from train.files import read_json
from train.forecast import TRACES
from train.hydra_api import Composer
from train.kinds import AUTO, build_kind, build_parallel
from train.memory_check import with_words
from train.placement import placed
from train.plan.cells import PlannedCell, marked, peak
from train.plan.named_device import device_here, device_named
from train.plan.place import Place
from train.plan.plan import plan
from train.targets import build
from train.units import said


@dataclass(frozen=True)
class Choice:
    """What was chosen for `parallel=auto`.

    Attributes:
        parallel: the word.
        reason: why.
        times: of whose figures they are.
        considered: of each strategy its `parallel`, `total_peak` in bytes and `step_time_s`, or
            why it is `refused`.
        kept: whether that was when the run began, which goes on.
    """

    parallel: str
    reason: str
    times: str
    considered: tuple[dict[str, Any], ...]
    kept: bool = False

    def lines(self) -> list[str]:
        """In words, for the plan of a run: what was taken and why, then the others."""
        if self.kept:
            return [f"parallel={self.parallel}, which was chosen when the run began"]
        mine = next(one for one in self.considered if one["parallel"] == self.parallel)
        others = [one for one in self.considered if one is not mine]
        able = [_told(one) for one in others if "refused" not in one]
        return [
            f"parallel={_told(mine)}: {self.reason}; times of {self.times}",
            *(["others: " + "; ".join(able)] if able else []),
            *(
                f"{one['parallel']} cannot be here: {_first_sentence(one['refused'])}"
                for one in others
                if "refused" in one
            ),
        ]


def _told(one: dict[str, Any]) -> str:
    time = "" if one["step_time_s"] is None else f", {duration(one['step_time_s'])} a step"
    return f"{one['parallel']} {said(one['total_peak'])}{time}"


def _first_sentence(text: str) -> str:
    """Up to the first full stop that ends one; numbers and file names have some too."""
    return text.split(". ")[0].removesuffix(".")


_SETTLED: dict[str, tuple[DictConfig, Choice]] = {}
"""By config: a command asks twice for its run."""


def settled(
    config: DictConfig, joined: Joined | None, folder: Path
) -> tuple[DictConfig, Choice | None]:
    """The config with a strategy in the place of `auto`; as it is where one is given.

    Args:
        config: resolved, every `_target_` checked already.
        joined: the gang that an outside launcher has started; None when we start it.
        folder: the run's. One that goes on there keeps what was chosen for it.

    Raises:
        ConfigError: when none of the strategies can be, or none has room.
    """
    if config.parallel._target_ != AUTO:
        return config, None
    auto: Auto = build(config.parallel, "parallel")
    composer = Composer()
    _check_strategies(auto, composer)
    before = read_json(folder / "provenance.json").get("auto")
    if before and before["parallel"] in auto.among:
        if not auto.device.endswith(".json"):  # the file of its day need not be there
            _named_device(auto, composer)
        told = {**before, "considered": tuple(before["considered"]), "kept": True}
        choice = Choice(**told)
        return with_words(config, [f"parallel={choice.parallel}"]), choice
    key = repr((config, joined))
    if key not in _SETTLED:
        _SETTLED[key] = _settle(config, auto, composer, joined)
    return _SETTLED[key]


def _check_strategies(auto: Auto, composer: Composer) -> None:
    for word in auto.among:
        if not composer.has_option("parallel", word):
            raise ConfigError(
                f"parallel.among: {word} is no strategy of the project's own, among which auto "
                f"chooses; there are {', '.join(composer.options('parallel'))}."
            )


def _named_device(auto: Auto, composer: Composer) -> Device | None:
    """The device whose times are to be taken, where it is named."""
    if auto.device == "auto":
        return None
    return device_named(composer, auto.device, "parallel.device", here="auto, for this machine")


def _settle(
    config: DictConfig, auto: Auto, composer: Composer, joined: Joined | None
) -> tuple[DictConfig, Choice]:
    cluster: Cluster = build_kind(Cluster, config.cluster, "cluster")
    here = cluster.device_type()
    named = _named_device(auto, composer)
    cells, configs, devices, places = [], {}, {}, {}
    for word in auto.among:
        other = configs[word] = with_words(config, [f"parallel={word}"])
        try:
            parallel = build_parallel(other)
            own, local, world = placed(cluster, other.cluster, parallel.one_process, joined)
            if named is not None:
                device: Device | None = named.among(local)
            else:
                threads = min(own.threads(local), len(os.sched_getaffinity(0)) / local)
                device = device_here(composer, here, threads)
            devices[word] = device.name if device else "nobody's: the device is not known"
            memory = rank_memory(here, local)
            place = places[word] = Place(world // local, local, here, device, memory, True)
            cells.append(PlannedCell((word,), plan(other, place, TRACES, largest=False)))
        except ConfigError as refusal:
            cells.append(PlannedCell((word,), None, str(refusal)))
    found = marked(cells, auto.margin)
    best = next((cell for cell in found if cell.best), None)
    if best is None:
        planned = [cell for cell in found if cell.plan is not None]
        if not planned:
            raise ConfigError(_none_can(found))
        least = min(planned, key=peak)
        if config.memory_check == "refuse":
            word = least.overrides[0]
            raise ConfigError(_none_fits(auto, word, configs[word], places[word]))
        reason = f"none leaves {auto.margin:.0%} of the device free: the least memory"
        best = replace(least, reason=reason)
    word = best.overrides[0]
    considered = tuple(_considered(cell) for cell in found)
    return configs[word], Choice(word, best.reason, devices[word], considered)


def _considered(cell: PlannedCell) -> dict[str, Any]:
    word = cell.overrides[0]
    if cell.plan is None:
        return {"parallel": word, "refused": cell.refused}
    peak, seconds = cell.plan.per_rank["total_peak"], cell.plan.step_time_s
    return {"parallel": word, "total_peak": peak, "step_time_s": seconds}


def _none_can(cells: list[PlannedCell]) -> str:
    by_reason: dict[str, list[str]] = {}
    for cell in cells:
        by_reason.setdefault(cell.refused, []).append(cell.overrides[0])
    reasons = "\n  ".join(f"{', '.join(who)}: {why}" for why, who in by_reason.items())
    return (
        f"parallel=auto: none of its strategies can be here:\n  {reasons}\nName one, as in "
        "parallel=ddp: where a model cannot be planned for, its memory is not known, and it is "
        "tried."
    )


def _none_fits(auto: Auto, word: str, config: DictConfig, place: Place) -> str:
    """For the strategy that needs the least: how much, and the micro-batch that would fit."""
    assert place.memory_bytes is not None
    room = int((1 - auto.margin) * place.memory_bytes)
    least = plan(config, replace(place, memory_bytes=room), TRACES)
    most = least.largest_micro_batch
    smaller = f"micro_batch_size={most} or less, " if most else ""
    return (
        f"parallel=auto: no strategy leaves parallel.margin={auto.margin:g} of a rank's "
        f"{said(place.memory_bytes)} free. The least takes parallel={word}, "
        f"{said(least.per_rank['total_peak'])} ({least.moment}). Take {smaller}"
        "model.checkpointing=full, more ranks, or another parallel.margin."
    )
