"""A run's folder is read whatever became of the run."""

from __future__ import annotations

from pathlib import Path

from tests.train.compare.synthetic import curve, write_run
from train import lock
from train.compare.results import read_run


def test_a_completed_run_is_read_whole(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "0_run", parallel="fsdp", precision="bf16", attempts=2))
    assert (run.name, run.status, run.error, run.attempts, run.steps) == (
        "0_run",
        "completed",
        None,
        2,
        3,
    )
    assert run.cell == {
        "parallel": "fsdp",
        "precision": "bf16",
        "cluster": "1x2-cpu",
        "world_size": 2,
    }
    assert run.overrides == ["parallel=fsdp", "precision=bf16", "seed=0"]
    assert run.config["micro_batch_size"] == 16
    assert run.chosen["micro_batch_size"] is None
    assert run.choices["model"] == "gpt_nano"
    assert run.provenance["run"]["id"] == "0123456789ab"
    assert [record["step"] for record in run.records()] == [1, 2, 3, 3]
    assert run.log == Path("logs/rank-0.log")


def test_numbers_in_a_config_are_numbers_however_they_are_written(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    written = "small: 1e-4\nlarge: 2E+5\nsigned: -1.5e3\nplain: 1.0e-08\ntext: '1e-4'\nword: 1e-x\n"
    (folder / "config.yaml").write_text(written + "whole: 10\nlist: [1e-1, 2]\nnone: null\n")
    assert read_run(folder).config == {
        "small": 0.0001,
        "large": 200000.0,
        "signed": -1500.0,
        "plain": 1e-08,
        "text": "1e-4",
        "word": "1e-x",
        "whole": 10,
        "list": [0.1, 2],
        "none": None,
    }


def test_a_running_run_is_told_from_one_whose_process_is_gone(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", status="running")
    lock.take(folder)
    try:
        alive = read_run(folder)
    finally:
        lock.release(folder)
    assert (alive.status, alive.error, alive.ended) == ("running", None, None)
    (folder / lock.FILE).touch()  # as a process that was killed leaves it
    gone = read_run(folder)
    assert gone.status == "crashed"
    assert gone.error is not None
    assert f"python -m train resume={folder}" in gone.error["cause"]


def test_asking_for_the_leader_leaves_the_folder_alone(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", status="running")
    before = sorted(folder.rglob("*"))
    read_run(folder)
    assert sorted(folder.rglob("*")) == before
    lock.take(folder)  # nobody holds it
    lock.release(folder)


def test_a_refused_job_has_its_cell_and_what_was_chosen(tmp_path: Path) -> None:
    error = {"kind": "refused", "cause": "no", "rank": None, "traceback_file": None}
    folder = write_run(tmp_path / "run", precision="fp16", status="refused", error=error)
    run = read_run(folder)
    assert (run.status, run.error, run.config, run.records()) == ("refused", error, {}, [])
    assert run.cell == {"parallel": "ddp", "precision": "fp16"}
    assert run.chosen["optimizer"]["lr"] == 0.001
    assert run.log is None


def test_a_failure_is_read_in_its_traceback_else_in_its_rank_s_log(tmp_path: Path) -> None:
    error = {"cause": "x", "rank": 1, "traceback_file": "logs/rank-1.traceback.txt"}
    folder = write_run(tmp_path / "run", status="failed", error=error)
    (folder / "logs" / "rank-1.log").touch()
    assert read_run(folder).log == Path("logs/rank-1.log")
    (folder / "logs" / "rank-1.traceback.txt").touch()
    assert read_run(folder).log == Path("logs/rank-1.traceback.txt")


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", records=curve([4.0, 3.0], {}))
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "train/lo')
    assert [record["step"] for record in read_run(folder).records()] == [1, 2]
    with (folder / "metrics.jsonl").open("a") as file:  # and gone on with
        file.write('\n{"step": 3}\n')
    assert [record["step"] for record in read_run(folder).records()] == [1, 2, 3]


def test_damaged_and_missing_files_count_as_empty(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    for name in ("summary.json", "provenance.json", "config.yaml"):
        (folder / name).write_text("{ [")
    for name in ("overrides.yaml", "config.yaml", "hydra.yaml"):
        (folder / ".hydra" / name).unlink()
    (folder / "metrics.jsonl").unlink()
    run = read_run(folder)
    assert (run.status, run.summary, run.provenance, run.config) == ("completed", {}, {}, {})
    assert (run.overrides, run.choices, run.chosen, run.cell) == ([], {}, {}, {})
    assert run.records() == []


def test_a_damaged_status_is_told(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "status.json").write_text('{"status": "compl')
    run = read_run(folder)
    assert run.status == "damaged"
    assert run.error is not None
    assert "status.json is damaged" in run.error["cause"]
