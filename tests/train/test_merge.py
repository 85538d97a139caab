"""The overrides of a run that goes on, and further ones beside `resume`."""

from __future__ import annotations

import pytest

from train.merge import key_of, merged

GROUPS = ("model", "parallel", "data", "experiment")


@pytest.mark.parametrize(
    ("before", "given", "expected"),
    [
        (["a=1"], ["resume=x"], ["a=1"]),
        (["a=1", "b=2"], ["resume=x", "b=3"], ["a=1", "b=3"]),
        (["+a.b=1"], ["++a.b=2"], ["++a.b=2"]),
        (["a=1"], ["~a"], ["~a"]),
        (["~a"], ["+a=2"], ["+a=2"]),
        # A group chosen anew takes what was set below it along, and nothing else.
        (
            [
                "parallel=fsdp",
                "parallel.replicate=2",
                "~parallel.x",
                "model.width=8",
                "parallels=1",
            ],
            ["parallel=ddp"],
            ["model.width=8", "parallels=1", "parallel=ddp"],
        ),
        (["parallel.stage=2"], ["+parallel=zero"], ["+parallel=zero"]),
        (["model=mlp", "model.width=8"], ["model.width=9"], ["model=mlp", "model.width=9"]),
        # How the first command was started is not handed on; how this one is, stays.
        (
            ["resume=y", "run_id=n", "resume_allow=[seed]", "dry_run=true", "init_from=z"],
            ["dry_run=false"],
            ["init_from=z", "dry_run=false"],
        ),
        (["a='x=y,z'"], ["b=1"], ["a='x=y,z'", "b=1"]),
    ],
)
def test_the_new_ones_win(before: list[str], given: list[str], expected: list[str]) -> None:
    assert merged(before, given, GROUPS) == expected


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("a.b=c=d", "a.b"),
        ("+a=", "a"),
        ("++a.b=1", "a.b"),
        ("~a", "a"),
        ("~a=b", "a"),
        ("model@other=mlp", "model"),
        ("a = 1", "a"),
    ],
)
def test_the_key(override: str, key: str) -> None:
    assert key_of(override) == key
