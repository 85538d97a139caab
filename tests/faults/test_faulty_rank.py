"""One rank goes wrong: its own error explains the end, the others end too, the sweep goes on."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import pytest

from components.checkpoint.manifest import verify
from tests.components.logger.test_wandb import read_back
from tests.faults.words import FAULTY
from tests.runs import Outcome, run_train

FAULTS = {
    "raise": ("error", "ValueError: the widget is upside down"),
    "out_of_memory": ("out_of_memory", "OutOfMemoryError: CUDA out of memory"),
    "out_of_memory_late": ("out_of_memory", "OutOfMemoryError: CUDA out of memory"),
    "exit": ("error", "sys.exit(3) was called"),
    "segfault": ("killed", "killed by SIGSEGV"),
    "leave": ("killed", "exited with code 0 before the end"),
}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A job for each fault, and a good one at last."""
    values = ",".join([*FAULTS, "none"])
    words = ("checkpoint.every_steps=2", f"+model.fault={values}")
    return run_train(tmp_path_factory.mktemp("faults"), "-m", *FAULTY, *words)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_guilty_rank_is_named(sweep: Outcome, fault: str) -> None:
    kind, cause = FAULTS[fault]
    run = sweep.find(model__fault=fault)
    error = run.status["error"]
    assert run.status["status"] == "failed"
    assert (error["rank"], error["kind"]) == (1, kind)
    assert error["cause"].startswith(cause)
    assert run.status["steps"] == 2
    assert run.column("step") == [1, 2]


@pytest.mark.parametrize("fault", ["raise", "out_of_memory", "out_of_memory_late", "exit"])
def test_its_traceback_is_kept(sweep: Outcome, fault: str) -> None:
    run = sweep.find(model__fault=fault)
    assert run.status["error"]["step"] == 2
    traceback = (run.folder / run.status["error"]["traceback_file"]).read_text()
    assert "in commit" in traceback


def test_the_console_shows_the_guilty_rank_alone(sweep: Outcome) -> None:
    assert "rank 1 failed after 2 steps: ValueError: the widget is upside down" in sweep.stderr
    assert "rank 0 failed" not in sweep.stderr
    assert "closed by peer" not in sweep.stdout + sweep.stderr
    assert "reset by peer" not in sweep.stdout + sweep.stderr


@pytest.mark.parametrize("fault", ["out_of_memory", "out_of_memory_late"])
def test_the_checkpoint_before_it_is_whole(sweep: Outcome, fault: str) -> None:
    run = sweep.find(model__fault=fault)
    (only,) = (run.folder / "checkpoints").iterdir()
    assert verify(only).step == 2
    ended = [datetime.fromisoformat(run.status[key]) for key in ("started", "ended")]
    assert (ended[1] - ended[0]).total_seconds() < 30


@pytest.mark.parametrize("fault", ["out_of_memory", "out_of_memory_late"])
def test_out_of_memory_comes_with_numbers_and_a_cure(sweep: Outcome, fault: str) -> None:
    cause = sweep.find(model__fault=fault).status["error"]["cause"]
    # 8 samples over 2 ranks, of 64 features.
    assert "in step 3, on micro-batches of 4x64" in cause
    assert "micro_batch_size=2 accumulation=2" in cause
    assert " GB free" in cause


def test_the_other_jobs_run_and_the_end_names_the_failed_ones(sweep: Outcome) -> None:
    assert sweep.code == 1
    assert sweep.find(model__fault="none").status["status"] == "completed"
    assert len(sweep.runs) == len(FAULTS) + 1
    end = sweep.stderr[sweep.stderr.index("1 of 7 jobs completed") :]
    for fault in FAULTS:
        assert f"  {sweep.find(model__fault=fault).folder.name}: failed: " in end


def test_nothing_is_left_in_the_folder_but_the_record(sweep: Outcome) -> None:
    for run in sweep.runs:
        left = [p.name for p in Path(run.folder).rglob(".*")]
        # A checkpoint's index of its pieces is the record's too.
        left = [name for name in left if name not in (".hydra", ".metadata")]
        assert left == []


def test_the_tracker_is_told_how_each_job_ended(tmp_path: Path) -> None:
    words = ("parallel=single", "+model.on_rank=0", "+model.fault=raise,none", "logger=default")
    outcome = run_train(tmp_path, "-m", *FAULTY, *words)
    assert [run.status["status"] for run in outcome.runs] == ["failed", "completed"]
    exits = [read_back(run.folder)["exit"][0].get("exit_code", 0) for run in outcome.runs]
    assert exits == [1, 0]


GROUPS = Path("/sys/fs/cgroup/memory")


@pytest.mark.skipif(
    not (GROUPS.is_dir() and os.access(GROUPS, os.W_OK)),
    reason="only where groups with a limit of memory can be made (cgroup v1, as root)",
)
def test_the_kernels_want_of_memory_is_told_from_other_kills(tmp_path: Path) -> None:
    ended = run_train(tmp_path, *FAULTY, "+model.fault=hoard")
    for group in GROUPS.glob("shardlab-*"):
        group.rmdir()
    error = ended.run.status["error"]
    assert (error["rank"], error["kind"]) == (1, "out_of_memory")
    assert error["cause"].startswith("killed by the kernel for want of memory")
    assert ended.code == 1
