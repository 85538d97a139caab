"""A check whose ranks torchrun or srun has started."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from components.cluster.handshake import (
    NoTicket,
    Ticket,
    all_heard,
    announce,
    gang_store,
    receive,
)
from components.cluster.joined import Joined
from components.cluster.roll_call import here, in_words, missing, roll_call
from train import failure
from train.check.board import Board
from train.check.failed import CheckFailed, explained
from train.check.plan import CheckPlan
from train.check.rank import failure_of, take_part
from train.failure import Failure
from train.member import JOIN_TIMEOUT_S, WORD_S


def lead_gang(plan: CheckPlan, gang: Joined) -> list[dict[str, Any]]:
    """Rank 0: bring all ranks together and measure with them; what each found, by rank.

    Raises:
        CheckFailed: when they do not come, or one fails.
        ConfigError: when a rank refuses its configuration.
    """
    cluster, world_size = plan.cluster, gang.world_size
    store = gang_store(gang, cluster.start_timeout_s)
    board = Board(store)
    here(store, 0)
    told = roll_call(store, world_size, cluster.start_timeout_s)
    if absent := missing(told, world_size):
        announce(store, Ticket(exit_code=1))
        all_heard(store, len(told) - 1, WORD_S)
        raise CheckFailed(
            f"{in_words(absent)} did not come to {gang.host}:{gang.port} within "
            f"{cluster.start_timeout_s:g} s (cluster.start_timeout_s), though {gang.launcher} "
            "has started this rank: look for their messages."
        )
    announce(store, Ticket(config=OmegaConf.to_yaml(plan.config)))
    try:
        take_part(gang, plan.config, None)
    except Exception as error:
        own = failure_of(0, error)
        time.sleep(WORD_S)  # for the others to say why, if they can
        first = guilty([own, *board.failures(world_size)], world_size)
        raise explained(first, board.stages(world_size)) from error
    return board.results(world_size, cluster.timeout_s)


def guilty(told: Sequence[Failure], world_size: int) -> Failure:
    """What explains the failures: one of them, or that ranks said nothing where all are victims."""
    silent = sorted({*range(world_size)} - {one.rank for one in told})
    if silent and all(one.victim for one in told):
        return failure.killed(
            f"{in_words(silent)}: said nothing while others waited: killed, or it hangs"
        )
    first = failure.first(told)
    assert first is not None
    return first


def follow_rank(gang: Joined) -> int:
    """Any other rank; the exit code."""
    try:
        store = gang_store(gang, JOIN_TIMEOUT_S)
        here(store, gang.rank, host=platform.node())
        ticket = receive(store, JOIN_TIMEOUT_S)
    except NoTicket as error:
        print(f"rank {gang.rank}: {error}", file=sys.stderr)
        return 1
    if ticket.exit_code is not None:
        return ticket.exit_code
    config = OmegaConf.create(ticket.config)
    assert isinstance(config, DictConfig)
    try:
        take_part(gang, config, None)
    except Exception as error:
        own = failure_of(gang.rank, error)
        Board(store).fail(own)
        print(f"rank {gang.rank}: {own.cause}", file=sys.stderr, flush=True)
        time.sleep(2 * WORD_S)  # so that rank 0 tells before the launcher ends it
        return 1
    return 0
