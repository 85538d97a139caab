"""Replicas that should be equal to the last bit, compared by checksums.

What is held on several ranks stays equal because all apply the same update. A memory error, a
kernel that gives other results on one device, or code that acts on one rank alone ends that, and
no loss shows it at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from components.cluster.ranks import Ranks
from components.parallel.state import persistent_buffers

CHUNK = 1 << 18
"""Elements that are summed at a time: widened to eight bytes they still fit into a CPU's cache."""

MIX = 0x9E3779B1
"""Odd: what the sum so far is multiplied by, modulo 2^64, before the next chunk is added."""


@dataclass(frozen=True, eq=False)
class Replica:
    """A tensor of this rank's and the ranks that hold the same."""

    name: str
    tensor: Tensor
    group: ProcessGroup | None


class Drifted(Exception):
    """Ranks hold different values where they should hold the same.

    Args:
        rank: the one that differs from most; None where none can be told apart.
    """

    def __init__(self, message: str, rank: int | None) -> None:
        super().__init__(message)
        self.rank = rank


def constants(model: nn.Module) -> dict[str, Tensor]:
    """Buffers that no state dict holds, by plain name: tables, the same on all ranks.

    Those that are saved may be running statistics, of which each rank has its own.
    """
    kept = persistent_buffers(model)
    return {name: buffer for name, buffer in model.named_buffers() if name not in kept}


def compare(replicas: Sequence[Replica], ranks: Ranks, step: int) -> None:
    """Compare what all ranks hold. Call on all ranks.

    Raises:
        Drifted: naming ranks, the first tensor that differs, and by how much.
    """
    for group in dict.fromkeys(replica.group for replica in replicas):
        some = [replica for replica in replicas if replica.group is group]
        sums = torch.stack([checksum(replica.tensor) for replica in some]).to(ranks.device)
        both = torch.cat([sums, ~sums])  # the highest of ~x is the lowest of x
        dist.all_reduce(both, op=dist.ReduceOp.MAX, group=group)
        highest, lowest = both.chunk(2)
        if not torch.equal(highest, ~lowest):
            first = int((highest != ~lowest).nonzero()[0])
            raise _drifted(some[first], sums[first], step)


@torch.no_grad()
def checksum(tensor: Tensor) -> Tensor:
    """A 64-bit sum of a tensor's bytes, an int64 scalar on its device.

    Each element's bits count times an odd number of their own, modulo 2^64: a change of one
    element always shows.
    """
    flat = _real(tensor).contiguous().flatten()
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[flat.element_size()]
    bits = flat.view(words)
    odd = torch.arange(min(CHUNK, bits.numel()), device=flat.device) * 2 + 1
    total = torch.zeros((), dtype=torch.int64, device=flat.device)
    for start in range(0, bits.numel(), CHUNK):
        part = bits[start : start + CHUNK].long()
        total = total * MIX + part.mul_(odd[: part.numel()]).sum()
    return total


def _drifted(replica: Replica, own: Tensor, step: int) -> Drifted:
    """What to say of a tensor that differs. Call on all ranks of its group."""
    members = dist.get_process_group_ranks(replica.group or dist.group.WORLD)
    gathered = [torch.zeros_like(own) for _ in members]
    dist.all_gather(gathered, own, group=replica.group)
    sums = dict(zip(members, (int(one) for one in gathered), strict=True))
    odd = minority(sums)
    source = next(rank for rank in members if rank not in odd)
    values = _real(replica.tensor)
    other = values.clone().contiguous()
    dist.broadcast(other, src=source, group=replica.group)
    apart = (values.double() - other.double()).abs()
    # Of the ranks that differ, each has its own distance: the largest of all is told.
    told = torch.stack([apart.max(), (apart != 0).sum().double()])
    dist.all_reduce(told, op=dist.ReduceOp.MAX, group=replica.group)
    what = (
        f"{replica.name} differs, the first of what should be equal to the last bit: by up to "
        f"{float(told[0]):.3g}, in {int(told[1])} of {replica.tensor.numel()} elements"
    )
    if not odd:
        names = " and ".join(map(str, members))
        return Drifted(f"ranks {names} have drifted apart by step {step}: {what}", None)
    most = _in_words(rank for rank in members if rank not in odd)
    has = "has" if len(odd) == 1 else "have"
    return Drifted(f"{_in_words(odd)} {has} drifted from {most} by step {step}: {what}", odd[0])


def _real(tensor: Tensor) -> Tensor:
    """A view of real numbers, in a type that any collective takes."""
    tensor = tensor.detach()
    if tensor.is_complex():
        return torch.view_as_real(tensor)
    return tensor.view(torch.uint8) if tensor.dtype is torch.bool else tensor


def minority(sums: dict[int, int]) -> list[int]:
    """The ranks whose value is not that of more than half; empty when no value is."""
    value, count = Counter(sums.values()).most_common(1)[0]
    return [rank for rank in sums if sums[rank] != value] if 2 * count > len(sums) else []


def _in_words(ranks: Iterable[int]) -> str:
    some = [*ranks]
    return f"rank{'s' if len(some) > 1 else ''} {', '.join(map(str, some))}"
