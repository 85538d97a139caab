"""Whether ranks still hold the same where they should, asked every so many steps."""

from __future__ import annotations

import logging
from collections.abc import Callable

from components.cluster.ranks import Ranks
from components.parallel.base import Parallel
from components.parallel.drift import compare
from train.loop import Progress

log = logging.getLogger(__name__)


def comparison(
    parallel: Parallel, ranks: Ranks, progress: Progress, every: int
) -> Callable[[], None]:
    """What compares this run's replicas; call it on all ranks. Says at once what that is.

    Args:
        parallel: prepared.
        every: steps between comparisons; 0 says nothing.
    """
    if every and ranks.main:
        number = len(parallel.replicas())
        if number:
            log.info("drift_every=%d: ranks compare %d tensors that they hold alike", every, number)
        else:
            log.warning(
                "drift_every=%d compares nothing: under parallel=%s over %d rank%s nothing is held "
                "twice",
                every,
                parallel.name,
                ranks.world_size,
                "s" if ranks.world_size > 1 else "",
            )
    return lambda: compare(parallel.replicas(), ranks, progress.step)
