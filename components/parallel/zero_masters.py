"""The fp32 masters of a DeepSpeed engine by the plain module's names."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from components.parallel import zero_state
from components.parallel.shard import Shard
from components.parallel.state import OptimizerState, SavedScalars, SavedTensors

MASTERS = (
    "fp32_partitioned_groups_flat",
    "fp32_groups_flat_partition",
    "single_partition_of_fp32_groups",
)
"""Where DeepSpeed's ZeRO optimizers (stage 3, stage 1 in bf16, others) keep their masters."""

STAGE_3_GRADIENTS = "grad_partitions_flat_buffer"
BF16_GRADIENTS = "fp32_groups_gradients_flat"
REDUCED_GRADIENTS = "averaged_gradients"
"""Where the same three keep reduced gradients."""


class Masters:
    """The fp32 values behind the parameters of `model`, which DeepSpeed keeps cut and flat.

    Frozen parameters have no master: their fp32 values are kept on the main rank's CPU, since
    the engine narrows or spreads the parameter itself.

    Args:
        model: the plain module, fp32, before `deepspeed.initialize`.
        keep: keep all trainable values until `attach`: the engine will narrow them.
        main: whether this rank hands out the full weights.
    """

    def __init__(self, model: nn.Module, keep: bool, main: bool) -> None:
        self.model = model
        self.main = main
        self.frozen: dict[nn.Parameter, Tensor] = {}
        self.initial: dict[nn.Parameter, Tensor] = {}
        for p in model.parameters():
            if p.requires_grad and keep:
                self.initial[p] = p.detach().clone()
            elif not p.requires_grad:
                self.frozen[p] = p.detach().clone() if main else torch.empty(0)

    @torch.no_grad()
    def attach(self, zero_optimizer: Any) -> None:
        """Take over the engine's masters, and give them the values from before it narrowed them."""
        self.zero_optimizer = zero_optimizer
        for p, value in self.initial.items():
            _set_master(p, value)
        self.initial = {}

    def flat(self) -> list[Tensor]:
        """This rank's flat parts of the masters."""
        for attribute in MASTERS:
            if hasattr(self.zero_optimizer, attribute):
                return list(getattr(self.zero_optimizer, attribute))
        raise AttributeError(f"no masters in {type(self.zero_optimizer).__name__}")

    def pieces(self) -> list[zero_state.Fragment]:
        """This rank's runs of the trainable parameters."""
        return zero_state.fragments(self.model, self.zero_optimizer, self.flat())

    def weights(self) -> dict[str, Shard]:
        """This rank's pieces of the fp32 parameters; frozen ones on the main rank, whole."""
        frozen = {
            name: Shard.whole(self.frozen[p])
            for name, p in self.model.named_parameters()
            if p in self.frozen and self.main
        }
        return {**frozen, **{piece.name: piece.of(piece.flat) for piece in self.pieces()}}

    def optimizer_state(self) -> OptimizerState:
        """This rank's part of the optimizer's state, by parameter."""
        return zero_state.state_of(self._optimizer, self.pieces())

    def make_optimizer_state(self, tensors: SavedTensors, scalars: SavedScalars) -> None:
        """Give the optimizer state of the saved layout, to be filled."""
        zero_state.make_state(self._optimizer, self.pieces(), tensors, scalars)

    @property
    def _optimizer(self) -> Optimizer:
        optimizer: Optimizer = self.zero_optimizer.optimizer
        return optimizer

    def parameters(self) -> list[Tensor]:
        """The parameters that this rank holds: whole ones, or its parts of spread ones.

        At stage 3 small parameters are held whole besides their parts.
        """
        held: list[Tensor] = []
        for p in self.model.parameters():
            part = getattr(p, "ds_tensor", None)
            held += [t for t in (part, p.data) if t is not None and t.numel()]
        return held

    def gradient_shapes(self) -> list[Tensor]:
        """This rank's gradients between the last backward and the update, without their data."""
        spread = getattr(self.zero_optimizer, STAGE_3_GRADIENTS, None)
        if spread is not None:
            found = [spread]
        else:
            found = [p.grad for p in self.model.parameters() if p.grad is not None]
            found += getattr(self.zero_optimizer, BF16_GRADIENTS, [])
            for parts in getattr(self.zero_optimizer, REDUCED_GRADIENTS, {}).values():
                found += parts or []
        # With offload they stand on the masters already.
        found = found or [m.grad for m in self.flat() if m.grad is not None]
        return [torch.empty_like(t, device="meta") for t in found]

    def drop_skipped_gradients(self) -> None:
        """Forget the gradients of a skipped step.

        With optimizer offload DeepSpeed adds the next ones to them, and every later step
        is skipped with them; elsewhere it has dropped them already.
        """
        reduced = getattr(self.zero_optimizer, REDUCED_GRADIENTS, {})
        reduced.update(dict.fromkeys(reduced))

    @torch.no_grad()
    def full_weights(self) -> dict[str, Tensor]:
        """The plain state dict in fp32 on the CPU; complete on the main rank, empty elsewhere.

        Every name of a shared parameter is there. One parameter at a time is gathered.
        Call on all ranks.
        """
        from deepspeed.utils import safe_get_full_fp32_param

        weights: dict[str, Tensor] = {}
        for name, tensor in self.model.state_dict(keep_vars=True).items():
            if tensor in self.frozen:
                tensor = self.frozen[tensor]
            elif isinstance(tensor, nn.Parameter):
                tensor = safe_get_full_fp32_param(tensor)
            if self.main:
                weights[name] = tensor.detach().to("cpu", copy=True)
        return weights


def _set_master(p: nn.Parameter, value: Tensor) -> None:
    from deepspeed.utils import safe_set_full_fp32_param, safe_set_local_fp32_param

    if not hasattr(p, "ds_tensor"):
        safe_set_full_fp32_param(p, value)
        return
    # The setter of a whole spread parameter fails where its parts are padded, so cut it here.
    world, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    part = p.ds_tensor.numel()
    padded = value.new_zeros(part * world)
    padded[: value.numel()] = value.flatten()
    safe_set_local_fp32_param(p, padded[part * rank : part * (rank + 1)])
