"""Command lines with a fault in them."""

from __future__ import annotations

import sys

SMALL = ("data=synthetic", "data.kind=features", "model=mlp", "global_batch_size=8")

FAULTY = (
    *SMALL,
    "model._target_=probe_faults.Faulty",
    "~model.width",
    "~model.layers",
    "log_every=1",
    "eval_every=0",
    "steps=4",
)
"""Four steps on two ranks, with `+model.fault=...` in the third on rank 1."""

ENDLESS = (*FAULTY, "steps=1000000", "+model.pace_s=0.05")

STALLED = (*ENDLESS, "+model.fault=stall", "cluster.preempt_grace_s=2")
"""Rank 1 stands still after two steps, and rank 0 waits for it in a collective."""

WORKERS = (
    *SMALL,
    "data._target_=probe_faults.SlowSamples",
    *(f"~data.{key}" for key in ("kind", "train_samples", "val_samples", "vocab_size", "seq_len")),
    *(f"~data.{key}" for key in ("masked_fraction", "seed", "epoch_end", "shuffle")),
    "+data.pace_s=0.02",
    "data.num_workers=2",
    "log_every=1",
    "eval_every=0",
    "steps=1000000",
    "logger=default",
)
"""Waits for its data most of the time, with two workers a rank and W&B's own process."""

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "-m", "train")
