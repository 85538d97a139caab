"""Which modules FSDP gathers together."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch.distributed as dist

from components.parallel.base import Parallel
from components.parallel.fsdp import FSDP
from components.parallel.single import Single
from tests.components.parallel.pipeline_cases import Tiny, batches
from tests.gang import alone, prepared


@pytest.fixture
def group_of_one() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def losses(strategy: Parallel) -> list[float]:
    """Three steps' with a first block that runs again as the third."""
    model = Tiny(blocks=3, statistics=False)
    model.blocks[2] = model.blocks[0]
    spread = prepared(strategy, model, alone())
    found = [float(spread.step(batches(step, 2)).loss) for step in range(3)]
    spread.close()
    return found


@pytest.mark.parametrize("group_mb", [0.0, 32.0])
def test_a_block_that_is_listed_twice_is_sharded_once(group_of_one: None, group_mb: float) -> None:
    assert losses(FSDP(group_mb=group_mb)) == pytest.approx(losses(Single()), rel=1e-6)
