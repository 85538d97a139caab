"""What went wrong on a rank, and which rank's failure explains the others."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from components.cluster.preemption import Preempted
from components.errors import ConfigError
from train import deterministic, status
from train.files import write_json

Kind = Literal[
    "refused",
    "error",
    "out_of_memory",
    "diverged",
    "drifted",
    "nondeterministic",
    "killed",
    "absent",
    "stalled",
    "collective",
    "stopped",
    "preempted",
]

GUILT: dict[str, int] = {
    "refused": 0,
    "error": 1,
    "out_of_memory": 1,
    "diverged": 1,
    "drifted": 1,
    "nondeterministic": 1,
    "killed": 2,
    "absent": 2,
    "stalled": 2,
    # A rank that lost its peers, or was told to end, is a victim of another's failure.
    "collective": 4,
    "stopped": 5,
    "preempted": 6,
}
"""Which kind of failure explains the others: the lowest comes first, then the earliest."""

ORDERED = 3
"""The guilt of an order to end everything at once: it explains what ranks say of their peers."""


@dataclass(frozen=True)
class Failure:
    """One rank's failure, or its controller's.

    Attributes:
        rank: None for the process that starts the ranks.
        cause: one line or paragraph for the user.
        traceback_file: relative to the run's folder; None when the process left none.
        step: steps that this rank had taken.
        ordered: somebody's signal ended all ranks at once.
    """

    rank: int | None
    kind: Kind
    cause: str
    time: float
    step: int = 0
    traceback_file: str | None = None
    ordered: bool = False

    @property
    def guilt(self) -> int:
        """Of several failures, that with the lowest explains the others."""
        return ORDERED if self.ordered else GUILT[self.kind]

    @property
    def agreed(self) -> bool:
        """Whether all ranks have saved and end together."""
        return self.kind == "preempted" and not self.ordered

    @property
    def victim(self) -> bool:
        """Whether it comes of something that happened elsewhere."""
        return self.guilt >= ORDERED


def kind_of(error: BaseException) -> Kind:
    """What sort of failure an exception is, or the ones that led to it."""
    import torch
    import torch.distributed as dist

    from components.cluster.roll_call import Absent
    from components.parallel.drift import Drifted
    from train.divergence import Diverged

    if isinstance(error, ConfigError):
        return "refused"
    if isinstance(error, Preempted):
        return "preempted"
    if isinstance(error, Diverged):
        return "diverged"
    if isinstance(error, Absent):
        return "absent"
    if isinstance(error, Drifted):
        return "drifted"
    for link in _chain(error):
        if deterministic.refusing_operation(link):
            return "nondeterministic"
        if isinstance(link, torch.OutOfMemoryError | MemoryError):
            return "out_of_memory"
        if isinstance(link, dist.DistError) or _from_gloo(link):
            return "collective"
    return "error"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and those it came of: libraries wrap what their callbacks raise."""
    while error is not None:
        yield error
        hidden = error.__suppress_context__
        error = error.__cause__ or (None if hidden else error.__context__)


def timed_out(failure: Failure) -> bool:
    """Whether a rank has waited too long for others in a collective, rather than lost one."""
    text = failure.cause.lower()
    return failure.kind == "collective" and ("timed out" in text or "timeout" in text)


def _from_gloo(error: BaseException) -> bool:
    # gloo raises plain RuntimeErrors; its source paths and words are all that marks them.
    text = str(error)
    return isinstance(error, RuntimeError) and (
        "gloo" in text or "Connection closed by peer" in text or "Connection reset by peer" in text
    )


def record(
    folder: Path,
    rank: int | None,
    error: BaseException,
    step: int = 0,
    advice: str = "",
    attempt: int | None = None,
) -> Failure:
    """Write a failure into the run's folder, with its traceback.

    Never raises: on a full disk it takes the room that was set aside, and what cannot be
    written at all goes to standard error.

    Args:
        attempt: to which the process belongs. Once another has begun nothing is written: the
            rank of this number is somebody else.
    """
    kind = kind_of(error)
    who = "controller" if rank is None else f"rank-{rank}"
    text = "".join(traceback.format_exception(error))
    expected = kind in ("refused", "preempted", "absent")
    file = None if expected else f"logs/{who}.traceback.txt"
    cause = str(error) if expected else _cause(error)
    guilty = getattr(error, "rank", None) if kind == "drifted" else rank
    failure = Failure(guilty, kind, cause + advice, time.time(), step, file)
    if attempt is not None and _over(folder, attempt):
        return failure

    def write() -> None:
        if file is not None:
            (folder / file).write_text(text)
        write_json(folder / "logs" / f"{who}.failure.json", asdict(failure))

    try:
        try:
            write()
        except OSError:
            status.make_room(folder)
            write()
    except OSError:
        print(text, file=sys.stderr)
    return failure


def _over(folder: Path, attempt: int) -> bool:
    try:
        return bool(status.read(folder).get("attempts", attempt) != attempt)
    except (OSError, ConfigError):
        return False


def _cause(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"sys.exit({error.code!r}) was called during training"
    for link in _chain(error):
        if operation := deterministic.refusing_operation(link):
            return deterministic.cure(operation)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def of_controller(cause: str) -> Failure:
    """A failure of the process that starts the ranks."""
    return Failure(None, "stopped", cause, time.time())


def killed(cause: str) -> Failure:
    """An end without a word, of no rank in particular."""
    return Failure(None, "killed", cause, time.time())


def in_status(failure: Failure) -> dict[str, Any]:
    """What status.json says of a failure."""
    if failure.kind == "preempted":  # by all ranks alike
        return {"kind": failure.kind, "cause": failure.cause, "step": failure.step}
    return {key: value for key, value in asdict(failure).items() if key not in ("time", "ordered")}


def write_down(folder: Path, failure: Failure) -> None:
    """Leave word of a rank's end in the run's folder. Never raises."""
    try:
        write_json(folder / "logs" / f"rank-{failure.rank}.failure.json", asdict(failure))
    except OSError as error:
        print(f"{failure.cause}, and it cannot be written down: {error}", file=sys.stderr)


def silent_node(node: int) -> Failure:
    """Of a node that says nothing where it should have said how it ended."""
    return killed(
        f"node {node} does not answer: it has ended without a word, or the network to it is cut"
    )


def first(failures: Sequence[Failure]) -> Failure | None:
    """The failure that explains the others; None when there is none."""
    return min(failures, key=lambda failure: (failure.guilt, failure.time), default=None)


def headline(failure: Failure) -> str:
    """A failure for the console, without where to read on."""
    preempted = failure.kind == "preempted"
    who = "the run" if failure.rank is None or preempted else f"rank {failure.rank}"
    when = f" after {failure.step} step{'s' if failure.step != 1 else ''}" if failure.step else ""
    return f"{who} {'was preempted' if preempted else 'failed'}{when}: {failure.cause}"


def in_words(failure: Failure, folder: Path, node_rank: int = 0) -> str:
    """A failure for the console of a node."""
    lines = [headline(failure)]
    if failure.traceback_file:
        lines.append(f"its traceback: {folder / failure.traceback_file}")
    lines.append(f"the run's folder: {folder}")
    if failure.kind in ("preempted", "stopped", "killed", "stalled", "collective"):
        # The run's own words are node 0's.
        other = f" cluster.node_rank={node_rank}" if node_rank else ""
        lines.append(f"go on with: python -m train resume={folder}{other}")
    return "\n".join(lines)
