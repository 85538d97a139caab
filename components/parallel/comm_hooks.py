"""Gradient compression for DDP: halve the bytes that travel, at the cost of their last bits.

Each is a hook for `DistributedDataParallel.register_comm_hook`; name one by its path,
`parallel.comm_hook=components.parallel.comm_hooks.bf16_compress`. torch's own
stateless hooks (`torch.distributed.algorithms.ddp_comm_hooks.default_hooks`) and
a user's are named in the same way.
"""

# No `from __future__ import annotations` here: DDP compares a hook's annotations as objects.

import torch
import torch.distributed as dist
from torch.futures import Future


def bf16_compress(group: dist.ProcessGroup | None, bucket: dist.GradBucket) -> Future[torch.Tensor]:
    """All-reduce the bucket as bfloat16. Unlike torch's own, it works with gloo on a CPU."""
    return _compress(group, bucket, torch.bfloat16)


def fp16_compress(group: dist.ProcessGroup | None, bucket: dist.GradBucket) -> Future[torch.Tensor]:
    """All-reduce the bucket as float16; mind its range when the loss is scaled."""
    return _compress(group, bucket, torch.float16)


def _compress(
    group: dist.ProcessGroup | None, bucket: dist.GradBucket, dtype: torch.dtype
) -> Future[torch.Tensor]:
    gradients = bucket.buffer()
    narrow = gradients.div(dist.get_world_size(group)).to(dtype)
    work = dist.all_reduce(narrow, group=group, async_op=True)
    return work.get_future().then(lambda _: gradients.copy_(narrow))
