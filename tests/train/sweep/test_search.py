"""Which jobs a search has, what Optuna is told of them, and how a search is gone on with."""

from __future__ import annotations

import importlib.util
import math
import os
import re
from pathlib import Path

import pytest

from components.errors import ConfigError
from tests.runs import run_train
from tests.train.sweep.searches import SMALL, Killed, Searches
from train import status
from train.files import read_json
from train.sweep import tell
from train.sweep.best import write_best

optuna = pytest.importorskip("optuna")

LR = "optimizer.lr=tag(log,interval(1e-5,1e-1))"


@pytest.fixture
def searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Searches:
    return Searches(tmp_path / "s", monkeypatch)


def trials(searches: Searches) -> list[optuna.trial.FrozenTrial]:
    """What the study in the sweep's folder holds."""
    storage = f"sqlite:///{searches.folder / 'study.db'}"
    return list(optuna.load_study(study_name="search", storage=storage).trials)


def states(searches: Searches) -> list[str]:
    return [trial.state.name for trial in trials(searches)]


def test_values_are_spread_over_the_log_scale(searches: Searches) -> None:
    searches.begin(lambda c: 1.0, LR, "hydra.sweeper.sampler=random", "hydra.sweeper.n_trials=8")
    rates = [config.optimizer.lr for config in searches.ran]
    assert len(rates) == 8
    assert all(1e-5 <= rate <= 1e-1 for rate in rates)
    # Half of the four decades lies below 1e-3: on a linear scale it would be one in a hundred.
    assert 2 <= sum(rate < 1e-3 for rate in rates) <= 6


def test_the_same_seed_gives_the_same_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rates(name: str, seed: int) -> list[float]:
        search = Searches(tmp_path / name, monkeypatch)
        search.begin(lambda c: 1.0, LR, f"hydra.sweeper.seed={seed}", "hydra.sweeper.n_trials=2")
        return [config.optimizer.lr for config in search.ran]

    assert rates("a", 1) == rates("b", 1) != rates("c", 2)


def test_a_grid_has_every_combination_once(
    searches: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    words = ("precision=fp32,bf16", "seed=range(3)", "hydra.sweeper.sampler=grid")
    searches.begin(lambda c: 1.0, *words, "sweep.slots=2", "cluster.nproc_per_node=1")
    found = {(c.precision.name, c.seed) for c in searches.ran}
    assert found == {(p, s) for p in ("fp32", "bf16") for s in range(3)}
    assert searches.together == [2, 2, 2]


def test_a_point_that_comes_again_is_not_run_again(searches: Searches) -> None:
    searches.begin(lambda c: float(c.seed), "seed=1,2", "hydra.sweeper.n_trials=6")
    assert sorted(config.seed for config in searches.ran) == [1, 2]
    assert states(searches) == ["COMPLETE"] * 6
    assert all(trial.value == float(trial.params["seed"]) for trial in trials(searches))


def test_jobs_that_fail_are_told_and_do_not_end_it(searches: Searches) -> None:
    def formula(config: object) -> float | None:
        return {0: None, 1: math.nan, 2: 5.0}[config.seed]  # type: ignore[attr-defined]

    searches.begin(formula, "seed=range(3)", "hydra.sweeper.sampler=grid")
    assert states(searches) == ["FAIL", "FAIL", "COMPLETE"]
    assert trials(searches)[2].value == 5.0


def test_a_job_that_does_not_compose_is_refused_alone(
    searches: Searches, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each word goes with the first of the other key; the last of both do not go together."""
    searches.small = ("logger=none",)
    sweep = searches.begin(
        lambda c: 1.0,
        "data=synthetic,python_source",
        "model=gpt_nano,mlp",
        "hydra.sweeper.sampler=grid",
    )
    assert states(searches) == ["COMPLETE", "COMPLETE", "COMPLETE", "FAIL"]
    told = status.read(sweep.cells[3].folder)
    assert told["status"] == "refused"
    assert "model.in_features" in told["error"]["cause"]
    assert tell.end(sweep) == 2
    assert "refused: model.in_features" in capsys.readouterr().err


def test_going_on_keeps_what_is_done_and_counts_on(searches: Searches) -> None:
    searches.begin(lambda c: 1.0, LR, "hydra.sweeper.n_trials=3")
    sweep = searches.go_on(lambda c: 2.0, "hydra.sweeper.n_trials=5")
    assert len(searches.ran) == 5
    assert len({config.optimizer.lr for config in searches.ran}) == 5
    assert [cell.number for cell in sweep.cells] == [0, 1, 2, 3, 4]
    assert [cell.folder.name.partition("_")[0] for cell in sweep.cells] == list("01234")
    assert [trial.value for trial in trials(searches)] == [1.0, 1.0, 1.0, 2.0, 2.0]


def test_going_on_takes_up_the_job_under_way_and_tries_failed_ones_again(
    searches: Searches,
) -> None:
    def before(config: object) -> float | None:
        if len(searches.ran) == 3:
            raise Killed
        return None if len(searches.ran) == 2 else 1.0

    with pytest.raises(Killed):
        searches.begin(before, LR, "hydra.sweeper.n_trials=4")
    assert states(searches) == ["COMPLETE", "FAIL", "RUNNING"]

    sweep = searches.go_on(lambda c: 2.0)
    rates = [config.optimizer.lr for config in searches.ran]
    assert rates[3] == rates[2]
    assert rates[4] == rates[1]
    assert len(rates) == 6
    assert states(searches) == ["COMPLETE", "FAIL", "COMPLETE", "COMPLETE", "COMPLETE"]
    assert [cell.number for cell in sweep.cells] == [0, 1, 2, 3]


def test_a_job_that_ended_before_it_was_told_of_is_told_of(searches: Searches) -> None:
    def before(config: object) -> float | None:
        from tests.train.sweep.jobs import ended
        from train.files import write_json
        from train.sweep.present import present

        folder = present().cells[0].folder  # type: ignore[union-attr]
        write_json(folder / "summary.json", {"last": {"val/loss": 7.0}})
        ended(folder, "completed")
        raise Killed

    with pytest.raises(Killed):
        searches.begin(before, LR, "hydra.sweeper.n_trials=1")
    searches.go_on(lambda c: 2.0)
    assert len(searches.ran) == 1
    assert [trial.value for trial in trials(searches)] == [7.0]


def test_other_values_are_another_search(searches: Searches) -> None:
    searches.begin(lambda c: 1.0, "seed=1,2", "hydra.sweeper.n_trials=1")
    with pytest.raises(ConfigError, match=r"other values of seed"):
        searches.go_on(lambda c: 1.0, "seed=1,2,3")
    with pytest.raises(ConfigError, match=r"sweep\.direction=maximize: the search .* other way"):
        searches.go_on(lambda c: 1.0, "sweep.direction=maximize")


def test_a_damaged_study_is_refused(searches: Searches) -> None:
    searches.begin(lambda c: 1.0, "seed=1,2", "hydra.sweeper.n_trials=1")
    (searches.folder / "study.db").write_bytes(b"no database")
    with pytest.raises(ConfigError, match=r"study\.db cannot be read"):
        searches.go_on(lambda c: 1.0)


def test_the_best_is_named(searches: Searches) -> None:
    words = ("seed=range(1,4)", "hydra.sweeper.sampler=grid", "sweep.direction=maximize")
    sweep = searches.begin(lambda c: {1: 0.5, 2: 0.9, 3: 0.7}[c.seed], *words)
    own = ["seed=1", "seed=2", "seed=3"]
    told, again = write_best(sweep, own).splitlines()
    assert told == "best: job 1 val/loss 0.9: seed=2"
    assert again.startswith("the same again: python -m train ")
    assert again.endswith(" seed=2")
    kept = read_json(searches.folder / "best.json")
    assert (kept["value"], kept["job"], kept["direction"]) == (0.9, 1, "maximize")
    assert "seed=2" in kept["overrides"]
    storage = f"sqlite:///{searches.folder / 'study.db'}"
    study = optuna.load_study(study_name="search", storage=storage)
    assert study.direction.name == "MAXIMIZE"


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("hydra.sweeper.n_trials=0", "hydra.sweeper.n_trials=0: one point is the least"),
        ("hydra.sweeper.sampler=bayes", "expects 'tpe' or 'random' or 'grid'"),
        ("+hydra.sweeper.jobs=3", "hydra.sweeper.jobs: a search has no such key"),
        ("hydra.sweeper.sampler=grid", "an interval has no end of values"),
    ],
)
def test_wrong_options_are_refused(searches: Searches, word: str, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        searches.begin(lambda c: 1.0, LR, word)
    assert not searches.folder.exists()


def test_without_optuna_there_is_one_refusal(
    searches: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'shardlab\[search\]'"):
        searches.begin(lambda c: 1.0, LR)


def test_a_real_search_and_its_end(tmp_path: Path) -> None:
    words = (*SMALL, "global_batch_size=8", "steps=2", "cluster.nproc_per_node=1")
    done = run_train(
        tmp_path,
        "sweep=search",
        "hydra.sweeper.n_trials=3",
        "hydra.sweep.dir=s",
        *words,
    ).completed()
    rates = [float(run.overrides["optimizer.lr"]) for run in done.runs]
    assert len(set(rates)) == 3
    assert all(1e-4 <= rate <= 1e-2 for rate in rates)
    losses = [run.summary["last"]["val/loss"] for run in done.runs]
    best = read_json(tmp_path / "s" / "best.json")
    assert best["value"] == min(losses)
    assert f"best: job {losses.index(min(losses))} val/loss" in done.stdout
    assert len(list((tmp_path / "s").glob("*_lr-*"))) == 3
