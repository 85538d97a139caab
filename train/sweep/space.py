"""What a search searches: each key's values, as Hydra's grammar of overrides tells them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.types import IntervalSweep, RangeSweep

from components.errors import ConfigError
from train.hydra_api import Composer, Override
from train.problems import refuse

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

DIGITS = 6
"""Significant digits of a number that is searched: what tells runs apart, in a name that reads."""

INSIDE = 0.618
"""Where between its ends an interval is tried before the search begins."""


@dataclass(frozen=True)
class Listed:
    """`a,b,c`, `choice(a,b,c)` or `glob(...)`: one of these words.

    Attributes:
        words: as an override writes them.
    """

    words: tuple[str, ...]

    def written(self, value: Any) -> str:
        """A value of Optuna's as an override writes it."""
        return str(value)

    def probes(self) -> list[Any]:
        """Values that are held against the config before the search begins."""
        return list(self.words)

    def every(self) -> list[Any]:
        """All values there are; none where they cannot be listed."""
        return list(self.words)

    def distribution(self) -> BaseDistribution:
        """The same for Optuna."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.words)


@dataclass(frozen=True)
class Whole:
    """`range(a,b)` over whole numbers, or `int(interval(a,b))`: one from `low` to `high`.

    Attributes:
        step: between neighbours.
        log: whether the logarithm is what is spread evenly.
    """

    low: int
    high: int
    step: int = 1
    log: bool = False

    def written(self, value: Any) -> str:
        """A value of Optuna's as an override writes it."""
        return str(int(value))

    def probes(self) -> list[Any]:
        """Values that are held against the config before the search begins."""
        return [self.low, self.high]

    def every(self) -> list[Any]:
        """All values there are; none where they cannot be listed."""
        return list(range(self.low, self.high + 1, self.step))

    def distribution(self) -> BaseDistribution:
        """The same for Optuna."""
        from optuna.distributions import IntDistribution

        return IntDistribution(self.low, self.high, log=self.log, step=self.step)


@dataclass(frozen=True)
class Real:
    """`interval(a,b)`, or `range(a,b,step)` over fractions: a number from `low` to `high`.

    Attributes:
        step: between neighbours; None: none is like another.
        log: whether the logarithm is what is spread evenly.
    """

    low: float
    high: float
    step: float | None = None
    log: bool = False

    def written(self, value: Any) -> str:
        """A value of Optuna's as an override writes it, never one outside the ends."""
        rounded = float(f"{value:.{DIGITS}g}")
        return repr(min(max(rounded, self.low), self.high))

    def probes(self) -> list[Any]:
        """Values that are held against the config before the search begins."""
        if self.log:
            return [self.low * (self.high / self.low) ** INSIDE]
        return [self.low + (self.high - self.low) * INSIDE]

    def every(self) -> list[Any]:
        """All values there are; none where they cannot be listed."""
        if self.step is None:
            return []
        count = round((self.high - self.low) / self.step) + 1
        return [min(self.low + number * self.step, self.high) for number in range(count)]

    def distribution(self) -> BaseDistribution:
        """The same for Optuna."""
        from optuna.distributions import FloatDistribution

        return FloatDistribution(self.low, self.high, log=self.log, step=self.step)


Values = Listed | Whole | Real


@dataclass(frozen=True)
class Space:
    """The overrides of a search's jobs.

    Attributes:
        fixed: overrides that all jobs share.
        searched: by the key as an override begins (`optimizer.lr`, `+experiment`), its values.
    """

    fixed: list[str]
    searched: dict[str, Values]

    def overrides(self, point: Mapping[str, Any]) -> list[str]:
        """The overrides of the job at a point, which has a value for each searched key."""
        own = [f"{key}={values.written(point[key])}" for key, values in self.searched.items()]
        return [*self.fixed, *own]

    def probes(self) -> list[list[str]]:
        """Overrides of a few jobs that have each listed word, and each kind of number, once."""
        first = {key: values.probes()[0] for key, values in self.searched.items()}
        points = [first]
        for key, values in self.searched.items():
            points += [{**first, key: value} for value in values.probes()[1:]]
        return [self.overrides(point) for point in points]

    def grid(self) -> list[dict[str, Any]]:
        """Every point.

        Raises:
            ConfigError: when the values of a key cannot be listed.
        """
        columns = {key: values.every() for key, values in self.searched.items()}
        for key, values in columns.items():
            if not values:
                raise ConfigError(
                    f"hydra.sweeper.sampler=grid: an interval has no end of values. List them, "
                    f"as in {key}=1e-4,1e-3, or take sampler=tpe."
                )
        rows = itertools.product(*columns.values())
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def distributions(self) -> dict[str, BaseDistribution]:
        """The same for Optuna."""
        return {key: values.distribution() for key, values in self.searched.items()}


def read_space(composer: Composer, params: Mapping[str, Any], words: Iterable[str]) -> Space:
    """The space of a search.

    Args:
        params: of the sweeper, by key.
        words: overrides of the command line, which win.

    Raises:
        ConfigError: listing the keys whose values cannot be searched.
    """
    fixed: dict[str, str] = {}
    searched: dict[str, Values] = {}
    problems = []
    for override in composer.parse([*(f"{key}={value}" for key, value in params.items()), *words]):
        key = override.get_key_element()
        fixed.pop(key, None)
        searched.pop(key, None)
        if not override.is_sweep_override():
            fixed[key] = override.input_line or ""
            continue
        try:
            searched[key] = _values(composer, override)
        except ConfigError as problem:
            problems.append(f"{override.input_line}: {problem}")
    if not searched and not problems:
        problems.append(
            "A search needs values to search, as in "
            "'optimizer.lr=tag(log, interval(1e-4, 1e-2))' or precision=fp32,bf16."
        )
    refuse(problems)
    return Space(list(fixed.values()), searched)


def _values(composer: Composer, override: Override) -> Values:
    sweep: Any = override.value()
    tags: set[str] = getattr(sweep, "tags", set())  # glob(...) can have none
    log = "log" in tags
    if tags - {"log"}:
        raise ConfigError(f"no search knows the tag {min(tags - {'log'})}. There is log.")
    numbers = _RANGES.get(type(sweep))
    if numbers is None:
        if log:
            raise ConfigError("log is for intervals and ranges of numbers, not for a list.")
        return Listed(tuple(override.sweep_string_iterator()))
    if composer.is_group(override.key_or_group):
        options = ",".join(composer.options(override.key_or_group))
        raise ConfigError(f"the options of a group are words. List some of {options}.")
    low, high, step = numbers(override)
    if low > high or (low == high and step is None):
        raise ConfigError(f"{low:g} is to be below {high:g}.")
    if log and low <= 0:
        raise ConfigError(f"on a log scale all numbers are above 0, and {low:g} is not.")
    if log and step not in (None, 1):
        raise ConfigError("on a log scale there are no equal steps. Take an interval.")
    if all(type(number) is int for number in (low, high)) and type(step) is not float:
        return Whole(low, high, step or 1, log)
    return Real(float(low), float(high), None if step is None else float(step), log)


def _interval(override: Override) -> tuple[Any, Any, Any]:
    sweep: Any = override.value()
    return sweep.start, sweep.end, None


def _range(override: Override) -> tuple[Any, Any, Any]:
    """Its first, last and the step between: Hydra's `stop` is no member."""
    sweep: Any = override.value()
    values: list[Any] = list(override.sweep_iterator())
    if not values:
        raise ConfigError("there is no number in this range.")
    return min(values), max(values), abs(sweep.step)


_RANGES = {IntervalSweep: _interval, RangeSweep: _range}
