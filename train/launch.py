"""From a plan to an end state: claim the folder, start its attempts, tell how they ended."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from components.cluster.handshake import NoTicket, Ticket, all_heard, announce, node_store
from components.cluster.preemption import Notice
from components.cluster.signals import Interrupted
from components.errors import ConfigError
from train import failure, orders, status
from train.attempts import LAST_WORDS_S, Attempts
from train.elastic import ElasticAttempts, refuse_comers
from train.exit_codes import DONE, REFUSED, exit_code
from train.failure import Failure
from train.run_plan import Plan


def lead(plan: Plan, folder: Path, notice: Notice, again: bool = False) -> int:
    """Run a plan in its folder, from the process that decides; the exit code.

    Args:
        notice: takes a warning that comes while ranks run.
        again: the folder holds earlier attempts, which this one continues.

    Raises:
        ConfigError: when another run or process has the folder, or a rank refused its
            configuration.
        Interrupted: by the user; the gang is gone by then.
    """
    try:
        attempt = status.reopen(folder) if again else status.claim(folder)
    except ConfigError:
        refuse_nodes(plan)
        raise
    kind = ElasticAttempts if plan.cluster.elastic else Attempts
    attempts = kind(plan, folder, attempt, notice)
    try:
        first = attempts.run()
    except Interrupted as stop:
        first = orders.at_once(stop.signum, notice)
        attempts.over(first)
        if not stop.warning:
            status.finish(folder, "failed", failure.in_status(first), attempt=attempts.number)
            print(
                f"\nall ranks have ended; the run's folder: {folder}\n"
                f"from its last checkpoint: python -m train resume={folder}",
                file=sys.stderr,
            )
            raise
    except NoTicket as error:
        first = failure.of_controller(str(error))
    except Exception as error:
        first = failure.record(folder, None, error)
    return tell(folder, first, attempts.number)


def refuse_nodes(plan: Plan) -> None:
    """Let the other nodes' controllers know that there will be no run."""
    if plan.cluster.nnodes == 1:
        return
    with suppress(NoTicket):  # where nodes cannot meet, there is nobody to tell
        if plan.cluster.elastic:
            refuse_comers(plan)
            return
        store = node_store(plan.cluster)
        announce(store, Ticket(exit_code=REFUSED))
        all_heard(store, plan.cluster.nnodes - 1, LAST_WORDS_S)


def tell(folder: Path, first: Failure | None, attempt: int) -> int:
    """Write the end state and, for a failure, show the one that explains the others.

    Raises:
        ConfigError: when a rank refused its configuration.
    """
    if first is None:
        status.finish(folder, "completed", attempt=attempt)
        print(f"completed in {status.seconds(folder):.0f} s: {folder}", flush=True)
        return DONE
    ends: dict[str, status.State] = {"refused": "refused", "preempted": "preempted"}
    state = ends.get(first.kind, "failed")
    status.finish(folder, state, failure.in_status(first), attempt=attempt)
    if first.kind == "refused":
        raise ConfigError(first.cause)
    print(f"\n{failure.in_words(first, folder)}", file=sys.stderr)
    return exit_code(first)
