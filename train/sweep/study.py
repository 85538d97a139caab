"""The Optuna study of a search, in its sweep's folder: its points and what came of them."""

from __future__ import annotations

import math
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import ConfigError
from train.sweep.options import Direction, SweepOptions
from train.sweep.search_options import SearchOptions
from train.sweep.space import Space

if TYPE_CHECKING:
    import optuna

FILE = "study.db"
NAME = "search"
AGAIN = "again"
"""Marks a trial that takes the point of one that failed; such a one counts once."""


class Study:
    """Asks Optuna for points and tells it what came of them.

    A study that was left is gone on with: completed trials stay, those that were under way come
    first, and those that failed are tried again.
    """

    def __init__(
        self, folder: Path, space: Space, options: SearchOptions, direction: Direction
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(
            storage=_storage(folder), study_name=NAME, direction=direction, load_if_exists=True
        )
        self._distributions = space.distributions()
        tried = self._whole(self._study.trials)
        # Another seed than before: the sampler would propose its first points once more.
        self._study.sampler = _sampler(options, options.seed + len(tried))
        states = optuna.trial.TrialState
        self._under_way = deque(
            optuna.Trial(self._study, trial._trial_id)
            for trial in tried
            if trial.state == states.RUNNING
        )
        self._queue_failed(tried)
        if options.sampler == "grid":
            self._queue_grid(space, tried)
            self._left = 0
        else:
            first = [trial for trial in tried if AGAIN not in trial.user_attrs]
            self._left = max(0, options.n_trials - len(first))
        self._left += len(self._study.get_trials(deepcopy=False, states=(states.WAITING,)))

    def ask(self, count: int) -> list[optuna.Trial]:
        """The next points, at most `count`; none when the search is over."""
        trials: list[optuna.Trial] = []
        while len(trials) < count and (self._under_way or self._left):
            if self._under_way:
                trials.append(self._under_way.popleft())
                continue
            self._left -= 1
            trials.append(self._study.ask(self._distributions))
        return trials

    def tell(self, trial: optuna.Trial, value: float | None) -> None:
        """What came of a point; None and what is no number: its job failed."""
        from optuna.trial import TrialState

        if value is None or not math.isfinite(value):
            self._study.tell(trial, state=TrialState.FAIL)
        else:
            self._study.tell(trial, value)

    def _whole(self, trials: list[optuna.trial.FrozenTrial]) -> list[optuna.trial.FrozenTrial]:
        """Those that have a point; the command may have been killed while it asked for one."""
        from optuna.trial import TrialState

        whole = []
        for trial in trials:
            if trial.state == TrialState.WAITING or trial.distributions == self._distributions:
                whole.append(trial)
            elif trial.state == TrialState.RUNNING:
                self._study.tell(trial.number, state=TrialState.FAIL)
        return whole

    def _queue_failed(self, tried: list[optuna.trial.FrozenTrial]) -> None:
        from optuna.trial import TrialState

        last = {str(_point(trial)): trial for trial in tried}
        for trial in last.values():
            if trial.state == TrialState.FAIL:
                self._study.enqueue_trial(trial.params, user_attrs={AGAIN: True})

    def _queue_grid(self, space: Space, tried: list[optuna.trial.FrozenTrial]) -> None:
        known = [_point(trial) for trial in tried]
        for point in space.grid():
            if point not in known:
                self._study.enqueue_trial(point)


def _point(trial: optuna.trial.FrozenTrial) -> dict[str, Any]:
    """A trial's point; one that waits has it in another place."""
    return trial.params or trial.system_attrs["fixed_params"]


def check_study(folder: Path, space: Space, options: SweepOptions) -> None:
    """Hold a search that is gone on with against the study that it left, if it left one.

    Raises:
        ConfigError: when the study cannot be read, or was over other values.
    """
    if not (folder / FILE).exists():
        return
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.load_study(study_name=NAME, storage=_storage(folder))
        trials = study.get_trials(deepcopy=False)
    except Exception as error:  # of sqlite, or of what Optuna takes to be in there
        raise ConfigError(
            f"{folder / FILE} cannot be read ({type(error).__name__}): put back a copy of it, or "
            "move it away: then the search begins anew and keeps what its jobs came to."
        ) from error
    now = space.distributions()
    for trial in trials:
        other = [
            k for k in {*now, *trial.distributions} if now.get(k) != trial.distributions.get(k)
        ]
        if trial.distributions and trial.state.is_finished() and other:
            raise ConfigError(
                f"sweep.resume={folder}: that search was over other values of "
                f"{', '.join(sorted(other))}. Leave them as they were, or begin another search."
            )
    if study.direction.name.lower() != options.direction:
        raise ConfigError(
            f"sweep.direction={options.direction}: the search in {folder} goes the other way. "
            "Begin another."
        )


def _storage(folder: Path) -> str:
    return f"sqlite:///{folder / FILE}"


def _sampler(options: SearchOptions, seed: int) -> optuna.samplers.BaseSampler:
    from optuna import samplers

    if options.sampler == "tpe":
        # What runs at the same time counts as poor, or all slots would try the same spot.
        return samplers.TPESampler(seed=seed, constant_liar=True)
    return samplers.RandomSampler(seed=seed)
