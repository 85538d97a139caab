"""A sweep of eight jobs of which five go wrong, each in its own way; then gone on with."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.faults.words import FAULTY
from tests.runs import Outcome, Run, find_runs, run_train

CASES = {
    "good_0": "seed: 0",
    "good_1": "seed: 1",
    "good_2": "seed: 2",
    "raises": "model: {fault: raise}",
    "out_of_memory": "model: {fault: out_of_memory}",
    "killed": "model: {fault: kill}",
    "diverges": "model: {fault: nan}",
    "cannot_be": "accumulation: 3",
}
BAD = {
    "raises": ("failed", "error", "ValueError: the widget is upside down"),
    "out_of_memory": ("failed", "out_of_memory", "OutOfMemoryError: CUDA out of memory"),
    "killed": ("failed", "killed", "killed by SIGKILL"),
    "diverges": ("failed", "diverged", "nan"),
    "cannot_be": ("refused", "refused", "accumulation=3"),
}


def _conf(folder: Path) -> Path:
    """A group `case` with a file for each, whose faults happen once."""
    place = folder / "conf" / "case"
    place.mkdir(parents=True)
    for name, content in CASES.items():
        once = "" if "model" not in content else f", once: {folder / name}}}"
        content = content.replace("}", once) if once else content
        (place / f"{name}.yaml").write_text(f"# @package _global_\n{content}\n")
    return folder / "conf"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


def _words(conf: Path) -> tuple[str, ...]:
    return (
        "-m",
        f"--config-dir={conf}",
        *FAULTY,
        "checkpoint.every_steps=1",
        f"+case={','.join(CASES)}",
    )


@pytest.fixture(scope="module")
def first(folder: Path) -> Outcome:
    return run_train(folder, *_words(_conf(folder)))


def _run(runs: list[Run], case: str) -> Run:
    (run,) = [run for run in runs if run.overrides["case"] == case]
    return run


def test_the_others_complete_and_the_exit_code_tells(first: Outcome) -> None:
    assert first.code == 1
    ends = [_run(first.runs, case).status["status"] for case in CASES]
    assert ends == ["completed"] * 3 + ["failed"] * 4 + ["refused"]
    assert "3 of 8 jobs completed" in first.stderr


@pytest.mark.parametrize("case", BAD)
def test_each_is_recorded_with_its_cause(first: Outcome, case: str) -> None:
    end, kind, cause = BAD[case]
    run = _run(first.runs, case)
    assert run.status["status"] == end
    assert run.status["error"]["kind"] == kind
    assert cause in run.status["error"]["cause"]
    assert f"  {run.folder.name}: {end}: " in first.stderr


def test_the_table_has_them_all(first: Outcome) -> None:
    (table,) = {run.folder.parent / "results.csv" for run in first.runs}
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(row["run"] for row in rows) == sorted(run.folder.name for run in first.runs)
    for case, (end, _, cause) in BAD.items():
        (row,) = [row for row in rows if row["run"] == _run(first.runs, case).folder.name]
        assert (row["status"], cause in row["cause"]) == (end, True)


def test_going_on_runs_what_was_not_completed(first: Outcome, folder: Path) -> None:
    """Each fault is gone: those with a checkpoint go on from it, what is done is let be."""
    (sweep,) = {run.folder.parent for run in first.runs}
    done = {case: _run(first.runs, case).status for case in CASES if case.startswith("good")}
    again = run_train(folder, f"sweep.resume={sweep}")
    runs = find_runs(folder)
    assert again.code == 2, again.stdout + again.stderr
    assert len(runs) == 8
    assert "7 of 8 jobs completed" in again.stderr
    for case, before in done.items():
        assert _run(runs, case).status == before
    for case in ("raises", "out_of_memory", "killed", "diverges"):
        run = _run(runs, case)
        assert (run.status["status"], run.status["attempts"]) == ("completed", 2)
        assert [r["step"] for r in run.metrics if "train/loss" in r] == [1, 2, 3, 4]
        assert run.column("train/loss") == _run(runs, "good_0").column("train/loss")
    assert "3 completed already, 5 to go on" in again.stdout


def test_stopping_at_the_first(folder: Path) -> None:
    conf = folder / "conf"
    conf.is_dir() or _conf(folder)
    place = folder / "stop"
    place.mkdir()
    words = [word for word in _words(conf) if not word.startswith("+case")]
    (folder / "raises").unlink(missing_ok=True)
    cases = "+case=cannot_be,good_0,raises,good_1"
    ended = run_train(place, *words, cases, "sweep.on_error=stop")
    assert ended.code == 1
    assert [run.status["status"] for run in ended.runs] == ["refused", "completed", "failed"]
    assert "not started: 1 job" in ended.stderr
    assert "sweep.on_error=stop: no further job is started" in ended.stderr
