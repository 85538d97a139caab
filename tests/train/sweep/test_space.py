"""What a search searches, out of Hydra's grammar."""

from __future__ import annotations

import re

import pytest

from components.errors import ConfigError
from train.hydra_api import Composer
from train.sweep.space import Listed, Real, Space, Values, Whole, read_space


@pytest.fixture(scope="module")
def composer() -> Composer:
    from train import run_names

    run_names.register()
    return Composer()


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("precision=fp32,bf16", Listed(("fp32", "bf16"))),
        ("precision=choice(fp32,bf16)", Listed(("fp32", "bf16"))),
        ("precision=glob(b*)", Listed(("bf16",))),
        ("optimizer.betas=[0.9,0.95],[0.9,0.99]", Listed(("[0.9,0.95]", "[0.9,0.99]"))),
        ("optimizer.lr=interval(1,2)", Real(1.0, 2.0)),
        ("optimizer.lr=tag(log,interval(1e-5,1e-2))", Real(1e-5, 1e-2, log=True)),
        ("model.width=int(interval(8,64))", Whole(8, 64)),
        ("model.width=tag(log,int(interval(8,64)))", Whole(8, 64, log=True)),
        ("seed=range(3)", Whole(0, 2)),
        ("model.width=range(8,64,8)", Whole(8, 56, step=8)),
        ("clip_norm=range(0.5,2,0.5)", Real(0.5, 1.5, step=0.5)),
    ],
)
def test_the_grammar(composer: Composer, word: str, values: Values) -> None:
    assert read_space(composer, {}, [word]).searched == {word.partition("=")[0]: values}


@pytest.mark.parametrize(
    ("word", "told"),
    [
        (
            "parallel=interval(1,2)",
            "parallel=interval(1,2): the options of a group are words.",
        ),
        ("seed=tag(log,choice(1,2))", "seed=tag(log,choice(1,2)): log is for intervals and ranges"),
        ("seed=tag(often,interval(1,2))", "no search knows the tag often"),
        ("seed=interval(2,1)", "2 is to be below 1"),
        ("seed=tag(log,interval(0,1))", "on a log scale all numbers are above 0, and 0 is not"),
        ("seed=tag(log,range(1,9,2))", "on a log scale there are no equal steps"),
        ("seed=range(3,3)", "there is no number in this range"),
        ("seed=3", "A search needs values to search"),
    ],
)
def test_what_cannot_be_searched(composer: Composer, word: str, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        read_space(composer, {}, [word])


def test_the_command_line_wins_over_the_config(composer: Composer) -> None:
    params = {"seed": "1,2", "optimizer.lr": "interval(0,1)"}
    space = read_space(composer, params, ["optimizer.lr=0.5", "seed=3,4", "steps=7"])
    assert space == Space(["optimizer.lr=0.5", "steps=7"], {"seed": Listed(("3", "4"))})


def test_numbers_are_written_short_and_inside_their_ends() -> None:
    assert Real(0.0, 1.0).written(0.123456789) == "0.123457"
    assert Real(1e-5, 1.0).written(1.23456789e-5) == "1.23457e-05"
    assert Real(0.0, 0.123456789).written(0.123456789) == "0.123456789"
    assert Real(0.0, 20.0).written(13.0) == "13.0"
    assert Whole(1, 9).written(7) == "7"


def test_each_word_is_probed_once_and_a_float_is_none_that_a_whole_number_could_be() -> None:
    space = Space(
        ["steps=7"],
        {"a": Listed(("x", "y", "z")), "b": Whole(1, 9), "c": Real(10.0, 20.0)},
    )
    c = "c=16.18"
    assert space.probes() == [
        ["steps=7", "a=x", "b=1", c],
        ["steps=7", "a=y", "b=1", c],
        ["steps=7", "a=z", "b=1", c],
        ["steps=7", "a=x", "b=9", c],
    ]


def test_a_grid_is_every_combination() -> None:
    space = Space([], {"a": Listed(("x", "y")), "b": Whole(2, 6, step=2)})
    assert [(p["a"], p["b"]) for p in space.grid()] == [
        ("x", 2),
        ("x", 4),
        ("x", 6),
        ("y", 2),
        ("y", 4),
        ("y", 6),
    ]
    assert Real(0.5, 1.5, step=0.5).every() == [0.5, 1.0, 1.5]
    with pytest.raises(ConfigError, match=r"sampler=grid: an interval has no end of values"):
        Space([], {"b": Real(1, 2)}).grid()
