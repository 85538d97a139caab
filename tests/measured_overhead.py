"""What a rank's step really copies and sends besides what the model computes, by operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from components.cluster.ranks import Ranks
from components.optimizer import build_optimizer
from components.parallel.activation_checkpointing import checkpoint_blocks
from tests.gang import STRATEGIES, prepared
from tests.measured_memory import ADAMW, STEPS, Case, batch_of, nano
from train.plan.costs import Costs

aten, fsdp = torch.ops.aten, torch.ops.fsdp

NAMES = {
    "allreduce_": "all-reduce",
    "_allgather_base_": "all-gather",
    "_reduce_scatter_base_": "reduce-scatter",
    "broadcast_": "all-reduce",  # a pipeline's loss, which counts as one
}

UPDATE = (
    aten._fused_adamw_,
    aten._foreach_norm,
    aten._foreach_mul_,
    aten.linalg_vector_norm,
    aten._amp_foreach_non_finite_check_and_unscale_,
)
"""Of the optimizer, the gradient's norm and its clipping, wherever the gradient lies."""

VIEWS = (aten.zeros,)
"""What looks at memory, or takes some, without a copy."""


class Counting(TorchDispatchMode):
    """Counts.

    Attributes:
        passed: bytes that operations read and write, but for the update.
        messages: collectives of tensors.
        scalars: those of one number.
    """

    def __init__(self) -> None:
        super().__init__()
        self.costs = Costs()
        self.passed = 0.0
        self.messages: Counter[str] = Counter()
        self.scalars = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func._schema.name.partition("::")[2]
        if func.namespace == "c10d" and name in NAMES:
            if _largest(args) > 1:
                self.messages[NAMES[name]] += 1
            else:
                self.scalars += 1
        elif func.namespace != "c10d" and func._overloadpacket not in (*UPDATE, *VIEWS):
            self.passed += self.bytes_of(func, args, kwargs, result)
        return result

    def bytes_of(self, func: Any, args: Any, kwargs: Any, result: Any) -> float:
        """As `Costs`."""
        packet = func._overloadpacket
        if packet is fsdp.all_gather_copy_in:  # of the output only its own part is written
            return 2.0 * sum(t.nbytes for t in args[0])
        cost = self.costs.of(func, args, kwargs, result)
        if cost is None:
            return 0.0
        if packet in (fsdp.split_with_sizes_copy, fsdp.chunk_cat):  # they return nothing
            out = kwargs["out"]
            return cost[1] + sum(t.nbytes for t in ([out] if isinstance(out, Tensor) else out))
        return cost[1]


def _largest(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.numel()
    if isinstance(value, (tuple, list)):
        return max(map(_largest, value), default=0)
    return 0


@dataclass(frozen=True)
class Counted:
    """Of a step, as `Counting` has them."""

    passed: float
    messages: dict[str, int]
    scalars: int


def counted(ranks: Ranks, cases: Sequence[Case]) -> list[Counted]:
    """The third step of each case on this rank."""
    return [_counted(ranks, case) for case in cases]


def _counted(ranks: Ranks, case: Case) -> Counted:
    torch.manual_seed(0)
    model = nano(**case.sizes)
    checkpoint_blocks(model, case.checkpointing)
    vocab, length = model.head.projection.out_features, case.tokens or model.seq_len
    make = partial(build_optimizer, ADAMW)
    strategy = prepared(STRATEGIES[case.word](), model, ranks, make, case.precision, 1.0)
    for _ in range(STEPS):
        with Counting() as counting:
            strategy.step([batch_of(case.rows, length, vocab) for _ in range(case.accumulation)])
    strategy.close()
    return Counted(counting.passed, dict(counting.messages), counting.scalars)
