"""A run, a sweep or outputs/ name the runs in them, each once and in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import ConfigError
from tests.train.compare.synthetic import write_run
from train.compare.find import find_runs


def _outputs(folder: Path) -> Path:
    """Two single runs and a sweep of three jobs between them."""
    for name in ("day/09_a", "day/10-00_sweep/10_x", "day/10-00_sweep/2_x", "day/10-00_sweep/2_w"):
        write_run(folder / "outputs" / name)
    write_run(folder / "outputs" / "mine")
    return folder / "outputs"


def test_jobs_come_by_number_then_by_name(tmp_path: Path) -> None:
    sweep = _outputs(tmp_path) / "day" / "10-00_sweep"
    assert [run.name for run in find_runs([sweep])] == ["2_w", "2_x", "10_x"]


def test_a_folder_above_holds_all_runs_below_it(tmp_path: Path) -> None:
    outputs = _outputs(tmp_path)
    found = [str(run.relative_to(outputs)) for run in find_runs([outputs])]
    sweep = "day/10-00_sweep"
    assert found == [f"{sweep}/2_w", f"{sweep}/2_x", f"{sweep}/10_x", "day/09_a", "mine"]


def test_a_run_holds_no_further_runs(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    write_run(run / "export" / "copy")
    assert find_runs([run]) == [run]
    assert find_runs([tmp_path]) == [run]


def test_a_run_that_is_named_twice_comes_once(tmp_path: Path) -> None:
    run = write_run(tmp_path / "sweep" / "0_a")
    assert find_runs([run, tmp_path / "sweep", tmp_path / "sweep" / ".." / "sweep"]) == [run]


def test_a_link_to_a_folder_of_runs_is_not_followed_twice(tmp_path: Path) -> None:
    run = write_run(tmp_path / "outputs" / "a")
    (tmp_path / "outputs" / "latest").symlink_to(tmp_path / "outputs")
    assert find_runs([tmp_path / "outputs"]) == [run]


def test_a_misspelt_folder_names_the_nearest(tmp_path: Path) -> None:
    _outputs(tmp_path)
    with pytest.raises(
        ConfigError, match=r"outptus: there is no such folder. Did you mean outputs"
    ):
        find_runs([tmp_path / "outptus"])


def test_a_folder_like_no_other_is_told_what_there_is(tmp_path: Path) -> None:
    _outputs(tmp_path)
    with pytest.raises(
        ConfigError, match=r"outputs is the nearest that exists, and holds day, mine"
    ):
        find_runs([tmp_path / "outputs" / "2031-01-01" / "run"])


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"empty holds no run: no folder in it has a status.json"):
        find_runs([tmp_path / "empty"])
