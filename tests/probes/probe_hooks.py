"""A user's communication hook."""

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.futures import Future

# No `from __future__ import annotations`: DDP compares a hook's annotations as objects.

calls = 0


def counting(group: dist.ProcessGroup, bucket: dist.GradBucket) -> Future[torch.Tensor]:
    """DDP's own average, counted."""
    global calls
    calls += 1
    return allreduce_hook(group, bucket)
