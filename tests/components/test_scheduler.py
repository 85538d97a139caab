from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from components.errors import ConfigError
from components.scheduler import Factor, constant, warmup_cosine, warmup_stable_decay

CONF = str(Path(__file__).parents[2] / "conf")


def sgd() -> SGD:
    return SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)


def rates(schedule: Any, updates: int) -> list[float]:
    """The learning rate of each update."""
    found = []
    for _ in range(updates):
        found.append(schedule.get_last_lr()[0])
        schedule.optimizer.step()
        schedule.step()
    return found


def test_cosine() -> None:
    factor = warmup_cosine(total_steps=6, warmup_steps=2, final_ratio=0.1)
    # 0.1 + 0.45 (1 + cos(pi / 4 x 1, 2, 3, 4)) after the warm-up; then it stays.
    expected = [1.0, 2.0, 1.7363961, 1.1, 0.4636039, 0.2, 0.2]
    assert rates(LambdaLR(sgd(), factor), 7) == pytest.approx(expected)


def test_stable_decay() -> None:
    factor = warmup_stable_decay(total_steps=10, warmup_steps=2, decay_steps=4)
    expected = [0.5, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0, 0]
    assert [factor(done) for done in range(11)] == pytest.approx(expected)


def test_constant() -> None:
    assert [constant(total_steps=4)(done) for done in range(4)] == [1, 1, 1, 1]
    warm = constant(total_steps=8, warmup_steps=4)
    assert [warm(done) for done in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]


def test_a_share_of_the_run_is_as_good_as_a_count() -> None:
    share = warmup_stable_decay(total_steps=40, warmup_steps=0.1, decay_steps=0.25)
    count = warmup_stable_decay(total_steps=40, warmup_steps=4, decay_steps=10)
    assert [share(done) for done in range(41)] == [count(done) for done in range(41)]


@pytest.mark.parametrize(
    "factor",
    [
        warmup_cosine(total_steps=3, warmup_steps=3, final_ratio=0.1),
        warmup_stable_decay(total_steps=3, warmup_steps=3, decay_steps=0),
    ],
)
def test_a_warm_up_may_fill_the_run(factor: Factor) -> None:
    assert [factor(done) for done in range(3)] == pytest.approx([1 / 3, 2 / 3, 1])


def test_a_resumed_run_follows_its_own_length() -> None:
    old = LambdaLR(sgd(), warmup_stable_decay(total_steps=4, warmup_steps=0, decay_steps=4))
    rates(old, 2)
    new = LambdaLR(sgd(), warmup_stable_decay(total_steps=8, warmup_steps=0, decay_steps=4))
    new.load_state_dict(old.state_dict())
    rates(new, 1)  # the third update; its rate stands in the optimizer's state
    assert rates(new, 3) == pytest.approx([2.0, 1.5, 1.0])


@pytest.mark.parametrize(
    ("make", "arguments", "words"),
    [
        (warmup_cosine, {"warmup_steps": 11}, r"warmup_steps=11 exceeds steps=10"),
        (constant, {"warmup_steps": 11}, r"warmup_steps=11 exceeds steps=10"),
        (warmup_cosine, {"warmup_steps": -1}, r"warmup_steps=-1"),
        (warmup_cosine, {"warmup_steps": 1.5}, r"warmup_steps=1\.5"),
        (warmup_cosine, {"warmup_steps": 0, "final_ratio": 1.1}, r"final_ratio=1\.1"),
        (
            warmup_stable_decay,
            {"warmup_steps": 6, "decay_steps": 0.5},
            r"warmup_steps=6 and decay_steps=5 .* steps=10",
        ),
    ],
)
def test_refuses_what_does_not_fit(make: Any, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make(total_steps=10, **arguments)


def composed(*overrides: str) -> Any:
    with initialize_config_dir(CONF, version_base="1.3"):
        config = compose(overrides=["+steps=20", *overrides])
    return instantiate(config.scheduler)(sgd())


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [("constant", 2.0, 2.0), ("warmup_cosine", 1.0, 0.2), ("warmup_stable_decay", 1.0, 0.2)],
)
def test_configs_take_the_runs_length(name: str, first: float, last: float) -> None:
    found = rates(composed(f"+scheduler={name}"), 20)
    assert (found[0], found[-1]) == pytest.approx((first, last))


def test_any_torch_scheduler_fits() -> None:
    schedule = composed(
        "+scheduler=warmup_cosine",
        "scheduler._target_=torch.optim.lr_scheduler.ExponentialLR",
        "~scheduler.lr_lambda",
        "+scheduler.gamma=0.5",
    )
    assert rates(schedule, 3) == [2.0, 1.0, 0.5]
