"""What a resumed run may do otherwise, and what would make another curve of it."""

from __future__ import annotations

from typing import Any

import pytest

from components.errors import ConfigError
from train.changes import changes, check_allowed, in_words, refuse_changes

BEFORE: dict[str, Any] = {
    "steps": 4,
    "seed": 0,
    "global_batch_size": 8,
    "data": {"_target_": "d.A", "path": "x", "num_workers": 0, "size": 3},
    "optimizer": {"_target_": "o.A", "lr": 0.1, "betas": [0.9, 0.95]},
    "parallel": {"_target_": "p.A", "stage": 2},
    "nccl": {},
}


def now(**values: Any) -> dict[str, Any]:
    """The same with other values; `__` stands for the dot in a key."""
    new = {k: dict(v) if isinstance(v, dict) else v for k, v in BEFORE.items()}
    for key, value in values.items():
        root, _, leaf = key.partition("__")
        if leaf:
            new[root][leaf] = value
        else:
            new[root] = value
    return new


def test_none() -> None:
    assert changes(BEFORE, now()) == []


def test_leaves_that_come_change_and_go() -> None:
    new = now(steps=6, optimizer__betas=[0.9, 0.99], nccl={"debug": "INFO"})
    del new["parallel"]["stage"]
    assert changes(BEFORE, new) == [
        ("steps", 4, 6),
        ("optimizer.betas", [0.9, 0.95], [0.9, 0.99]),
        ("nccl.debug", None, "INFO"),
        ("parallel.stage", 2, None),
    ]


def test_a_component_that_was_swapped_is_named_alone() -> None:
    new = now(parallel={"_target_": "p.B", "depth": 1}, steps=6)
    found = changes(BEFORE, new)
    assert in_words(found, {}, {}) == ["steps: 4 -> 6", "parallel._target_: p.A -> p.B"]
    words = in_words(
        found, {"parallel": "a", "precision": "x"}, {"parallel": "b", "precision": "x"}
    )
    assert words == ["parallel: a -> b", "steps: 4 -> 6"]


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 9},
        {"optimizer__lr": 0.2},
        {"parallel__stage": 3},
        {"data__num_workers": 2},
        {"data__path": "y"},
    ],
)
def test_what_may_change(change: dict[str, Any]) -> None:
    refuse_changes(changes(BEFORE, now(**change)), [], "run")


@pytest.mark.parametrize(
    ("change", "key", "allow"),
    [
        ({"seed": 1}, "seed=1, and the run so far had 0", "seed"),
        ({"global_batch_size": 16}, "global_batch_size=16", "global_batch_size"),
        ({"data__size": 4}, "data.size=4", "data"),
        ({"data__path_of_more": 4}, "data.path_of_more=4", "data"),
        ({"data__shuffle": True}, "data.shuffle=True", "data"),
        ({"data__prompt": None, "data__size": None}, "data.size=None", "data"),
    ],
)
def test_what_may_not_unless_allowed(change: dict[str, Any], key: str, allow: str) -> None:
    found = changes(BEFORE, now(**change))
    with pytest.raises(ConfigError) as refused:
        refuse_changes(found, [], "run")
    for word in (key, f"resume_allow=[{allow}]", "init_from=run"):
        assert word in str(refused.value)
    refuse_changes(found, [allow], "run")


def test_all_of_them_are_told_at_once() -> None:
    found = changes(BEFORE, now(seed=1, data__size=4))
    with pytest.raises(ConfigError, match=r"data\.size=4"):
        refuse_changes(found, ["seed"], "run")
    with pytest.raises(ConfigError, match=r"(?s)seed=1.*data\.size=4"):
        refuse_changes(found, [], "run")


def test_other_data_are_named_without_their_options() -> None:
    found = changes(BEFORE, now(data={"_target_": "d.B", "width": 3}))
    with pytest.raises(ConfigError) as refused:
        refuse_changes(found, [], "run")
    assert "data._target_=d.B" in str(refused.value)
    assert "data.width" not in str(refused.value)
    assert "data.size" not in str(refused.value)


def test_another_optimizer_cannot_be_allowed() -> None:
    found = changes(BEFORE, now(optimizer__sub=1, optimizer___target_="o.B"))
    with pytest.raises(ConfigError) as refused:
        refuse_changes(found, ["seed", "data", "global_batch_size"], "run")
    assert "optimizer._target_=o.B" in str(refused.value)
    assert "resume_allow" not in str(refused.value)


@pytest.mark.parametrize("name", ["sead", "optimizer._target_", "optimizer", "steps", ""])
def test_names_that_allow_nothing(name: str) -> None:
    with pytest.raises(ConfigError, match=r"is not one of global_batch_size, seed, data\."):
        check_allowed(["seed", name])
    check_allowed(["seed", "data", "global_batch_size"])


def test_another_place_of_the_nodes_is_no_change() -> None:
    new = now(cluster={"rdzv_endpoint": "b:2", "node_rank": 0, "nnodes": 2})
    assert changes(BEFORE, new) == [("cluster.nnodes", None, 2)]
