"""The cut of a stack into pipeline stages: who holds what, and what passes between them.

Blocks are dealt out evenly by number, in order; those left over go to the first
stages, because the last one has the head and the loss besides, in most models
far more work than the stem.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import Tensor, nn

from components.cluster.ranks import Ranks
from components.errors import ConfigError
from components.model.stack import blocks_of
from components.parallel.outputs import checked_outputs

PARTS = ("stem", "blocks", "head")


def cut(blocks: int, stages: int) -> list[range]:
    """The blocks of each stage: contiguous, all at least one when `blocks >= stages`."""
    each, left = divmod(blocks, stages)
    starts = [stage * each + min(stage, left) for stage in range(stages + 1)]
    return [range(a, b) for a, b in pairwise(starts)]


def stage_of(name: str, blocks: int, stages: int) -> int:
    """The stage that holds the plain name `name`; what belongs to no part lies on stage 0."""
    part, _, rest = name.partition(".")
    if part == "head":
        return stages - 1
    if part == "blocks":
        index = int(rest.partition(".")[0])
        return next(stage for stage, own in enumerate(cut(blocks, stages)) if index in own)
    return 0


class Stage(nn.Module):
    """One stage's share of a stack, under the plain model's parameter names.

    The first stage has the stem, the last one the head; `blocks` is keyed by
    the block's number in the whole model.

    Args:
        model: the whole stack, whose modules are taken over as they are.
        stage, stages: this stage among all.
        autocast: entered around the forward.
    """

    def __init__(
        self, model: nn.Module, stage: int, stages: int, autocast: AbstractContextManager[None]
    ) -> None:
        super().__init__()
        blocks = blocks_of(model)
        own = cut(len(blocks), stages)[stage]
        self.stem = model.get_submodule("stem") if stage == 0 else None
        self.blocks = nn.ModuleDict({str(index): blocks[index] for index in own})
        self.head = model.get_submodule("head") if stage == stages - 1 else None
        self.autocast = autocast

    def forward(self, hidden: Tensor) -> Tensor:
        """Inputs or the last stage's hidden state to hidden state or outputs, in their own type."""
        with self.autocast:
            if self.stem is not None:
                hidden = self.stem(hidden)
            for block in self.blocks.values():
                hidden = block(hidden)
            if self.head is not None:
                hidden = self.head(hidden)
        if not torch.is_tensor(hidden):
            return hidden  # for `find_boundary` to refuse
        # Only contiguous tensors can be sent.
        return hidden.contiguous()


@dataclass(frozen=True)
class Weight:
    """A parameter, its first name in the plain model, and the stages that hold a copy of it."""

    name: str
    parameter: nn.Parameter
    stages: tuple[int, ...]


def weights_of(model: nn.Module, stages: int) -> list[Weight]:
    """All parameters of a stack; one that goes by names of several stages is on each of them."""
    blocks = len(blocks_of(model))
    holders: dict[nn.Parameter, set[int]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        holders.setdefault(parameter, set()).add(stage_of(name, blocks, stages))
    return [
        Weight(name, parameter, tuple(sorted(holders[parameter])))
        for name, parameter in model.named_parameters()
    ]


@dataclass(frozen=True)
class Entry:
    """One tensor of the plain model's state dict, and the stage that answers for it."""

    name: str
    stage: int
    shape: torch.Size
    dtype: torch.dtype


def entries_of(model: nn.Module, stages: int) -> list[Entry]:
    """The plain state dict's table of contents."""
    blocks = len(blocks_of(model))
    return [
        Entry(name, stage_of(name, blocks, stages), tensor.shape, tensor.dtype)
        for name, tensor in model.state_dict().items()
    ]


@dataclass(frozen=True, eq=False)
class Boundary:
    """What enters and what leaves a stage for one micro-batch, on the meta device."""

    entering: Tensor
    leaving: Tensor


def find_boundary(stage: Stage, ranks: Ranks, inputs: Tensor, model: nn.Module) -> Boundary:
    """Learn shapes, types and whether gradients flow, by one trial forward through all stages.

    Call on all ranks. `inputs`: (rows, ...) of a micro-batch; only the first stage's is read,
    the others try zeros. In evaluation mode, so that running statistics and random state
    stay as they are. `model`: the plain one, for messages.

    Raises:
        ConfigError: when a stage passes on, or the last one returns, something else than a tensor
            that fits.
    """
    rank, device = ranks.rank, ranks.device
    was_training = stage.training
    stage.eval()
    received = entering = leaving = inputs.detach()
    for turn in range(ranks.world_size):
        sent: list[tuple[torch.Size, torch.dtype, bool] | None] = [None]
        if turn == rank:
            entering = received.to(device) if rank == 0 else _zeros(received, device)
            with torch.enable_grad():
                leaving = stage(entering)
            if rank == ranks.world_size - 1:
                checked_outputs(leaving, len(inputs), model)
            elif not torch.is_tensor(leaving):
                raise ConfigError(
                    "parallel=pipeline passes one tensor from stage to stage, and a block of "
                    f"{type(model).__name__} returned a {type(leaving).__name__}. Return the "
                    "hidden state alone from stem and blocks, or take parallel=fsdp."
                )
            sent = [(leaving.shape, leaving.dtype, leaving.requires_grad)]
        dist.broadcast_object_list(sent, src=turn)
        assert sent[0] is not None
        shape, dtype, grad = sent[0]
        received = torch.empty(shape, dtype=dtype, device="meta", requires_grad=grad)
    stage.train(was_training)
    return Boundary(_meta(entering), _meta(leaving))


def _zeros(like: Tensor, device: torch.device) -> Tensor:
    return torch.zeros_like(like, device=device, requires_grad=like.requires_grad)


def _meta(like: Tensor) -> Tensor:
    return torch.empty_like(like, device="meta", requires_grad=like.requires_grad)
