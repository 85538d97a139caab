"""FSDP2 (`fully_shard`): parameters, gradients and optimizer state are spread over the ranks.

Zhao et al., 2023, https://arxiv.org/abs/2304.11277; the per-parameter form of
https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from components.cluster.ranks import Ranks
from components.errors import ConfigError
from components.model.stack import blocks_of
from components.objective import Objective
from components.parallel.base import Cell, MakeOptimizer, NamedParameters, shared_buffers
from components.parallel.drift import Replica, constants
from components.parallel.elementwise import refuse_unless_elementwise
from components.parallel.half_parameters import compute_as_autocast
from components.parallel.parameters import refuse_parameters, refuse_sparse_gradients
from components.parallel.shard import Shard
from components.parallel.torch_strategy import TorchStrategy
from components.parallel.update import Shared
from components.precision import Precision


class FSDP(TorchStrategy):
    """Each rank keeps a shard of every parameter, and gathers a group of blocks to compute.

    Args:
        reshard_after_forward: drop the gathered parameters between forward and
            backward and gather them again (ZeRO-3's memory); False keeps them
            (ZeRO-2's communication).
        replicate: number of replicas of the sharded model (HSDP): shards lie over
            world size / replicate ranks, usually those of one node. 1 is plain FSDP.
        group_mb: consecutive blocks are gathered together up to this many MiB of
            fp32 parameters. Groups below it cost more in latency than they save in memory.
    """

    def __init__(
        self, reshard_after_forward: bool = True, replicate: int = 1, group_mb: float = 32.0
    ) -> None:
        self.name = "fsdp" if replicate == 1 else "hsdp"
        self.reshard_after_forward = reshard_after_forward
        self.replicate = replicate
        self.group_mb = group_mb

    def check(self, cell: Cell) -> None:
        if self.replicate < 1 or cell.world_size % self.replicate:
            divisors = [n for n in range(1, cell.world_size + 1) if cell.world_size % n == 0]
            nearest = min(divisors, key=lambda n: abs(n - self.replicate))
            raise ConfigError(
                f"parallel.replicate={self.replicate} must divide the world size "
                f"{cell.world_size} (replicas x shards = ranks). Nearest: "
                f"parallel.replicate={nearest}."
            )
        if not self.group_mb >= 0:  # nan is neither
            raise ConfigError(
                f"parallel.group_mb={self.group_mb} must be a number of MiB, 0 or more: blocks are "
                "gathered together up to this size. Take 0 to gather each on its own, or 32."
            )
        refuse_parameters(
            cell.model,
            self.name,
            lambda p: p.dim() == 0,
            "are scalars, which have no rows to shard",
            "Give them one dimension, as in nn.Parameter(torch.ones(1)), or take parallel=ddp.",
        )
        refuse_sparse_gradients(cell.model, self.name)

    def prepare(
        self,
        model: nn.Module,
        objective: Objective,
        make_optimizer: MakeOptimizer,
        precision: Precision,
        ranks: Ranks,
        clip_norm: float | None,
    ) -> None:
        super().prepare(model, objective, make_optimizer, precision, ranks, clip_norm)
        refuse_unless_elementwise(self.optimizer, self.name)

    def spread(self, model: nn.Module, precision: Precision) -> nn.Module:
        self.mesh = self._mesh()
        if precision.mixed:
            compute_as_autocast(model)
        policy = MixedPrecisionPolicy(
            # Only what travels and what is computed with is narrowed. Autocast, the same as
            # under every strategy, chooses the type of each operation.
            param_dtype=precision.compute if precision.mixed else None,
            reduce_dtype=torch.float32,
            cast_forward_inputs=False,
        )
        # A block in the list twice is one block that runs twice.
        for group in self._groups(list(dict.fromkeys(blocks_of(model)))):
            fully_shard(
                group,
                mesh=self.mesh,
                reshard_after_forward=self.reshard_after_forward,
                mp_policy=policy,
            )
        fully_shard(
            model,
            mesh=self.mesh,
            reshard_after_forward=self.reshard_after_forward,
            mp_policy=policy,
        )
        # Taken now: after a forward without gradients the module lists gathered parameters.
        self.sharded = [(name, p) for name, p in model.named_parameters()]
        self._places = {name: _place(p) for name, p in self.sharded}
        return model

    def _mesh(self) -> DeviceMesh:
        kind, world = self.ranks.device.type, self.ranks.world_size
        if self.replicate == 1:
            return init_device_mesh(kind, (world,), mesh_dim_names=("shard",))
        return init_device_mesh(
            kind, (self.replicate, world // self.replicate), mesh_dim_names=("replicate", "shard")
        )

    def _groups(self, blocks: list[nn.Module]) -> list[list[nn.Module]]:
        """Consecutive blocks, each group at most `group_mb` unless one block is larger."""
        limit = self.group_mb * 2**20
        groups: list[list[nn.Module]] = []
        size = 0.0
        for block in blocks:
            own = sum(p.numel() * 4 for p in block.parameters())
            if groups and size + own <= limit:
                groups[-1].append(block)
                size += own
            else:
                groups.append([block])
                size = own
        return groups

    def local_parameters(self) -> NamedParameters:
        # The optimizer runs on plain local tensors that share the shards' memory: the same
        # numbers as on DTensors without their dispatch, which costs more than a small step.
        local = []
        for name, p in self.sharded:
            assert isinstance(p, DTensor)
            shard = nn.Parameter(p.to_local().detach(), requires_grad=p.requires_grad)
            local.append((name, shard))
        return local

    def piece(self, name: str, local: Tensor) -> Shard:
        shape, first = self._places[name]
        return Shard.rows(local, shape, first)

    def shared(self) -> Shared:
        return Shared(world=dist.group.WORLD, shards=self.mesh["shard"].get_group())

    def sync(self, last: bool) -> AbstractContextManager[None]:
        assert isinstance(self.module, FSDPModule)
        self.module.set_requires_gradient_sync(last)
        return nullcontext()

    def gather_gradients(self) -> None:
        for (_, local), (_, p) in zip(self.named, self.sharded, strict=True):
            grad = p.grad
            local.grad = grad.to_local() if isinstance(grad, DTensor) else None
            p.grad = None

    def replicas(self) -> list[Replica]:
        found = [
            Replica(name, tensor, dist.group.WORLD)
            for name, tensor in constants(self.plain).items()
        ]
        if self.replicate > 1:
            group = self.mesh["replicate"].get_group()
            found += [Replica(name, shard, group) for name, shard in self.named]
        return found if self.dp_size > 1 else []

    def full_weights(self) -> dict[str, Tensor]:
        weights: dict[str, Tensor] = {}
        with shared_buffers(self.plain, self.dp_size):
            for name, tensor in self.plain.state_dict().items():
                # One parameter at a time: never a second whole model on a device.
                full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
                if self.ranks.main:
                    weights[name] = full.detach().to("cpu", copy=True)
        return weights

    def close(self) -> None:
        del self.sharded, self.mesh
        super().close()


def _place(p: Tensor) -> tuple[torch.Size, int]:
    """The whole shape of a sharded parameter, and the first row of it that is here."""
    assert isinstance(p, DTensor)
    _, offset = compute_local_shape_and_global_offset(p.shape, p.device_mesh, p.placements)
    return p.shape, offset[0]
