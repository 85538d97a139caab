"""An evaluation looks, and changes nothing: not even running statistics."""

from __future__ import annotations

from functools import partial

import torch

from components.cluster.ranks import Ranks
from components.data.digits import Digits
from components.model.convnet import ConvNet
from tests.fit import Result, Task, fit
from tests.gang import run

TASK = Task(
    partial(ConvNet, channels=1, image_size=8, width=4, layers=2, classes=10),
    partial(Digits, image=True),
    global_batch=8,
    steps=4,
)


def often_and_seldom(ranks: Ranks, word: str) -> tuple[Result, Result]:
    return fit(ranks, word, TASK.but(eval_every=1)), fit(ranks, word, TASK.but(eval_every=0))


def test_statistics_that_differ_between_ranks_go_on_as_they_were() -> None:
    for word in ("ddp", "fsdp"):
        often, seldom = run(often_and_seldom, 2, word)[0]
        assert len(often.column("val/loss")) == 4
        assert often.column("val/loss")[-1:] == seldom.column("val/loss")
        for name, weight in often.weights.items():
            assert torch.equal(weight, seldom.weights[name]), name
