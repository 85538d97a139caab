"""What becomes of a job: by its config, and by what its folder says."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import ConfigError
from tests.train.sweep.jobs import ended, job
from train import status
from train.sweep.cells import plan
from train.sweep.journal import Journal, read_journal


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path, ["--multirun"], [])


def test_jobs_are_new_at_first_and_noted(journal: Journal) -> None:
    cells = plan([job(0, seed=1), job(1, seed=2)], journal)
    assert [(cell.fate, cell.folder.name) for cell in cells] == [("run", "0_job"), ("run", "1_job")]
    assert [entry.overrides for entry in journal.entries] == [["seed=1"], ["seed=2"]]


def test_what_is_done_stays_done(journal: Journal, tmp_path: Path) -> None:
    plan([job(0, seed=1), job(1, seed=2), job(2, seed=3)], journal)
    ended(tmp_path / "0_job", "completed")
    ended(tmp_path / "1_job", "failed", "fell over")
    cells = plan([job(0, seed=1), job(1, seed=2), job(2, seed=3)], journal)
    assert [cell.fate for cell in cells] == ["done", "go on", "run"]
    assert "failed before" in cells[1].words
    assert len(journal.entries) == 3


def test_a_run_whose_process_is_gone_is_gone_on_with(journal: Journal, tmp_path: Path) -> None:
    plan([job(0, seed=1)], journal)
    (tmp_path / "0_job").mkdir()
    (tmp_path / "0_job" / status.FILE).write_text('{"status": "running", "attempts": 1}')
    (cell,) = plan([job(0, seed=1)], journal)
    assert cell.fate == "go on"
    assert "did not come to its end" in cell.words


def test_a_job_is_known_by_its_config_not_by_its_place(journal: Journal, tmp_path: Path) -> None:
    plan([job(0, seed=1), job(1, seed=2)], journal)
    ended(tmp_path / "1_job", "completed")
    (cell,) = plan([job(0, seed=2)], journal)
    assert (cell.fate, cell.folder.name, cell.number) == ("done", "1_job", 0)


def test_how_a_sweep_is_run_does_not_make_another_job(journal: Journal) -> None:
    plan([job(0, seed=1, sweep={"slots": 1}, dry_run=False)], journal)
    plan([job(0, seed=1, sweep={"slots": 2}, dry_run=True)], journal)
    assert len(journal.entries) == 1


def test_another_config_takes_a_folder_of_its_own(journal: Journal, tmp_path: Path) -> None:
    plan([job(0, "0_lr-1", lr=1)], journal)
    ended(tmp_path / "0_lr-1", "completed")
    edited = job(0, "0_lr-1", lr=1, steps=5)
    edited.overrides.remove("steps=5")  # it came from a file
    (cell,) = plan([edited], journal)
    assert (cell.fate, cell.folder.name) == ("run", "0_lr-1-2")
    assert cell.words == "to run: its config is no longer that of 0_lr-1"


def test_repeats_of_one_config_are_jobs_of_their_own(journal: Journal, tmp_path: Path) -> None:
    plan([job(0, seed=1), job(1, seed=1)], journal)
    ended(tmp_path / "0_job", "completed")
    cells = plan([job(0, seed=1), job(1, seed=1)], journal)
    assert [cell.fate for cell in cells] == ["done", "run"]
    assert cells[1].folder.name == "1_job"


def test_a_repeat_is_told_from_a_config_that_changed(journal: Journal) -> None:
    cells = plan([job(0, seed=1), job(1, seed=1)], journal)
    assert cells[1].words == "to run once more: an earlier job here has the same config"


def test_the_journal_comes_back(journal: Journal, tmp_path: Path) -> None:
    plan([job(0, lr=0.0001)], journal)
    journal.write()
    assert read_journal(tmp_path) == journal


@pytest.mark.parametrize("text", ["{", '{"jobs": 3, "words": []}', '{"words": []}'])
def test_a_damaged_journal_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(ConfigError, match=r"sweep\.json is damaged .*resume=<its folder>"):
        read_journal(tmp_path)


def test_what_is_no_sweep_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such folder"):
        read_journal(tmp_path / "none")
    with pytest.raises(ConfigError, match=r"no sweep's, it has no sweep\.json"):
        read_journal(tmp_path)
    ended(tmp_path / "run", "completed")
    with pytest.raises(ConfigError, match="that is one run"):
        read_journal(tmp_path / "run")
