"""From the submission to the ends of all its runs: a line when one begins, waits again, or ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from train import status
from train.slurm import ends, queue
from train.slurm.queue import Standing, Unanswered
from train.slurm.submission import Submission
from train.sweep import job

POLL_S = 5.0
"""How often Slurm is asked."""

SETTLE_S = 10.0
"""How long after its job's end a run's last word may take to be seen here, over a network."""

PATIENCE = frozenset(
    {"None", "", "Priority", "Resources", "JobArrayTaskLimit", "BeginTime", "Cleaning"}
)
"""Reasons to wait that pass by themselves."""

UNSURE = frozenset({"PREEMPTED", "NODE_FAIL"})
"""States that Slurm may leave at once, by putting the job into the queue again."""


@dataclass
class Watched:
    """A run that is followed.

    Attributes:
        title: how lines name it.
        words: the same at its beginning: what it is.
        was: how its job stood when it was last looked at.
    """

    submission: Submission
    index: int
    title: str
    words: str
    was: Standing | None = None
    _doubts: int = 0

    @property
    def folder(self) -> Path:
        """The run's."""
        return self.submission.folder(self.index)

    @property
    def element(self) -> str:
        """Slurm's id."""
        return self.submission.element(self.index)

    def told(self) -> bool:
        """Whether the run has told its end."""
        return ends.told(self.folder, self.submission.runs[self.index].ended)

    def over(self, now: Standing | None) -> bool:
        """Whether nothing more is to come, asked once each time that Slurm has answered."""
        unsure = now is None or now.state in UNSURE
        self._doubts = self._doubts + 1 if unsure else 0
        return self._doubts > 1 if unsure else now is not None and now.over


@dataclass
class Follower:
    """Follows runs to their ends.

    Attributes:
        metric: that an end is told with; None is the validation's loss.
        stop_on_failure: whether what has not begun is taken out of the queue when a run fails.
    """

    watched: list[Watched]
    metric: str | None = None
    stop_on_failure: bool = False
    sleep: Callable[[float], None] = time.sleep
    _silent: bool = False
    _stopped: bool = False
    _reasons: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Until all have ended; each has a status then, unless it was stopped before it began."""
        left = list(self.watched)
        while left:
            known = self._ask({one.submission.job or "" for one in left})
            if known is not None:
                left = [one for one in left if not self._look(one, known.get(one.element))]
            if left:
                self.sleep(POLL_S)

    def _ask(self, jobs: set[str]) -> dict[str, Standing] | None:
        try:
            known = queue.standings(jobs)
        except Unanswered as error:
            if not self._silent:
                print(f"Slurm is asked again and again: {error}", file=sys.stderr, flush=True)
            self._silent = True
            return None
        self._silent = False
        return known

    def _look(self, one: Watched, now: Standing | None) -> bool:
        """Tell what has changed; whether the run has ended."""
        if one.over(now):
            self._end(one, now)
            return True
        if now is not None and not now.over:
            self._tell(one, now)
            one.was = now
        return False

    def _tell(self, one: Watched, now: Standing) -> None:
        was = "PENDING" if one.was is None else one.was.state
        if now.state == "RUNNING" and was != "RUNNING":
            print(f"begins: {one.words} ({one.element})", flush=True)
        elif now.state == "PENDING" and was not in ("PENDING", "CONFIGURING"):
            how = job.headline(one.folder, self.metric) if one.told() else now.words
            _say("again:  ", one.title, f"is in the queue again ({how})")
        if now.state != "PENDING" or now.reason in PATIENCE:
            self._reasons.pop(one.element, None)
        elif self._reasons.get(one.element) != now.reason:
            self._reasons[one.element] = now.reason
            _say("waits:  ", one.title, f"{now.reason} ({one.element})")

    def _end(self, one: Watched, now: Standing | None) -> None:
        if not self._never_began(one, now):
            self._settle(one)
        if not one.told():
            if self._stopped and self._never_began(one, now):
                return
            ends.record(one.folder, *ends.explain(one.submission, one.index, now))
        words = job.headline(one.folder, self.metric)
        plain = now is None or now.state in ("COMPLETED", "FAILED") or now.state in words
        slurm = "" if plain else f", {now.words} in Slurm" if now else ""
        _say("ended:  ", one.title, f"{words}{slurm}")
        if self.stop_on_failure and status.read(one.folder).get("status") == "failed":
            self._stop()

    @staticmethod
    def _never_began(one: Watched, now: Standing | None) -> bool:
        cancelled = now is not None and now.state == "CANCELLED"
        return cancelled and not ends.begun(one.submission, one.index)

    def _settle(self, one: Watched) -> None:
        waited = 0.0
        while not one.told() and waited < SETTLE_S:
            self.sleep(1.0)
            waited += 1.0

    def _stop(self) -> None:
        self._stopped = True
        try:
            queue.cancel_pending({one.submission.job or "" for one in self.watched})
        except Unanswered as error:
            print(f"not taken out of the queue: {error}", file=sys.stderr, flush=True)


def _say(what: str, title: str, words: str) -> None:
    print(f"{what}{title}: {words}", flush=True)
