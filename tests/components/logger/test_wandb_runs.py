"""What real commands leave for W&B: of a sweep, whoever starts the ranks, and after a crash."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.components.logger.test_wandb import read_back
from tests.components.logger.wandb_server import serving
from tests.faults.words import FAULTY, SMALL, TORCHRUN
from tests.launch.test_one_folder import free_port
from tests.processes import family
from tests.runs import Outcome, Run, run_started, run_train

LOGGED = ("logger=default", "data.val_samples=8")
QUICK = (*SMALL, *LOGGED, "steps=2", "log_every=1")


@pytest.fixture(scope="module", autouse=True)
def _no_account() -> Any:
    """No key and no settings of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for key in [key for key in os.environ if key.startswith("WANDB_")]:
            patch.delenv(key)
        yield


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Three jobs with one rank, of which the second fails in its third step."""
    return run_train(
        tmp_path_factory.mktemp("sweep"),
        "-m",
        *FAULTY,
        *LOGGED,
        "+model.on_rank=0",
        "cluster.nproc_per_node=1",
        "hydra.sweep.dir=s",
        "parallel=single,ddp",
        "+model.fault=none,raise",
        "optimizer.lr=0.001",
        "logger.wandb.tags=[mine]",
        "clip_norm=null",
    )


@pytest.fixture(scope="module")
def records(sweep: Outcome) -> list[dict[str, list[dict[str, Any]]]]:
    """Of each job, by type."""
    return [read_back(run.folder) for run in sweep.runs]


Records = list[dict[str, list[dict[str, Any]]]]


def test_the_jobs_are_a_group_that_can_be_read(sweep: Outcome, records: Records) -> None:
    assert sweep.code == 1
    runs = [found["run"][0] for found in records]
    assert [run["run_group"] for run in runs] == ["s"] * 4
    assert [run["display_name"] for run in runs] == [
        "single fault=none",
        "single fault=raise",
        "ddp fault=none",
        "ddp fault=raise",
    ]
    assert [run["job_type"] for run in runs] == ["single-fp32"] * 2 + ["ddp-fp32"] * 2
    assert sorted(runs[2]["tags"]) == sorted(["1x1-cpu", "ddp", "fp32", "mine"])
    assert len({run["run_id"] for run in runs}) == 4


def test_the_config_is_one_of_values(records: Records) -> None:
    config = records[2]["run"][0]["config"]["update"]
    assert config["optimizer"]["lr"] == 0.001
    assert isinstance(config["optimizer"]["lr"], float)
    assert config["optimizer"]["betas"][1] == 0.95
    assert "clip_norm" in config
    assert config["clip_norm"] is None
    assert config["steps"] == 4
    assert config["cell"]["world_size"] == 1


def test_each_ends_as_it_ended(records: Records) -> None:
    codes = [found["exit"][0].get("exit_code", 0) for found in records]
    assert codes == [0, 1, 0, 1]
    ends = [
        [entry["update"] for entry in found["summary"] if "status" in entry.get("update", {})]
        for found in records
    ]
    assert [(end[-1]["status"], end[-1]["exit_code"]) for end in ends] == [
        ("completed", 0),
        ("failed", 1),
    ] * 2
    assert [
        row["item"]["step"] for row in records[0]["history"] if "train/loss" in row["item"]
    ] == [
        1,
        2,
        3,
        4,
    ]


def test_the_report_is_a_run_of_the_group(sweep: Outcome) -> None:
    folder = sweep.runs[0].folder.parent
    found = read_back(folder)
    run = found["run"][0]
    assert (run["run_group"], run["job_type"], run["project"]) == ("s", "report", "shardlab")
    sent = {file["path"] for entry in found["files"] for file in entry["files"]}
    assert sent == {"report.html", "results.csv"}
    (files,) = folder.glob("wandb/offline-run-*/files")
    assert (files / "results.csv").read_text() == (folder / "results.csv").read_text()
    assert not (files / "report.html").is_symlink()
    assert found["exit"][0]["exit_code"] == 1
    assert f"wandb sync {folder}/wandb/offline-run-*" in sweep.stdout


def test_going_on_keeps_the_reports_id(sweep: Outcome) -> None:
    folder = sweep.runs[0].folder.parent
    before = read_back(folder)["run"][0]["run_id"]
    again = run_train(folder.parent, f"sweep.resume={folder}", "model.fault=none")
    assert read_back(folder)["run"][0]["run_id"] == before, again.stderr


def test_without_wandb_there_is_no_report_run(tmp_path: Path) -> None:
    words = (*SMALL, "steps=1", "cluster.nproc_per_node=1", "seed=1", "hydra.sweep.dir=s")
    run_train(tmp_path, "-m", *words, "logger=default", "logger.wandb.mode=disabled").completed()
    assert (tmp_path / "s" / "report.html").exists()
    assert not list(tmp_path.glob("**/wandb"))


def test_a_report_that_cannot_be_sent_is_no_error(tmp_path: Path) -> None:
    """W&B's folder cannot be made: a file has its name."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "wandb").write_text("")
    words = (*SMALL, "steps=1", "cluster.nproc_per_node=1", "seed=1", "hydra.sweep.dir=s")
    done = run_train(tmp_path, "-m", *words, "logger=default", "data.val_samples=8").completed()
    assert "1 of 1 jobs completed" in done.stderr


def only_run(cwd: Path, env: Mapping[str, str] | None = None) -> None:
    """Two ranks have left one W&B run, with each step once."""
    (found,) = cwd.glob("**/offline-run-*")
    rows = [entry["item"] for entry in read_back(found.parent.parent)["history"]]
    assert [row["step"] for row in rows if "train/loss" in row] == [1, 2]


def test_our_own_launcher_leaves_one_run(tmp_path: Path) -> None:
    run_train(tmp_path, *QUICK, "cluster.nproc_per_node=2").completed()
    only_run(tmp_path)


def test_torchrun_leaves_one_run(tmp_path: Path) -> None:
    with family(tmp_path, *QUICK, launcher=TORCHRUN) as command:
        command.outcome(90).completed()
    only_run(tmp_path)


def test_srun_leaves_one_run(tmp_path: Path) -> None:
    step = {
        "SLURM_JOB_ID": str(free_port()),
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NTASKS": "2",
        "SLURM_NNODES": "1",
    }
    with ExitStack() as stack:
        tasks = [
            stack.enter_context(
                family(tmp_path, *QUICK, env={**step, "SLURM_PROCID": task, "SLURM_LOCALID": task})
            )
            for task in ("1", "0")
        ]
        for command in tasks:
            command.outcome(90).completed()
    only_run(tmp_path)


def test_a_crash_and_the_resumed_rest_are_one_run_online(tmp_path: Path) -> None:
    """Killed in step 3 of 8, started again by hand: the record and W&B agree on what happened."""
    words = (
        *FAULTY,
        *LOGGED,
        "steps=8",
        "eval_every=2",
        "checkpoint.every_steps=2",
        "logger.wandb.mode=online",
        "cluster.nproc_per_node=1",
        "+model.on_rank=0",
        "+model.fault=kill",
        f"+model.once={tmp_path / 'happened'}",
    )
    with serving() as server:
        crashed = run_started(tmp_path, *words, env=server.environment())
        assert crashed.code == 1
        folder = crashed.run.folder
        run_started(
            tmp_path, f"resume={folder}", "logger.wandb.mode=online", env=server.environment()
        ).completed()
    steps = [r["step"] for r in Run(folder).metrics if "train/loss" in r]
    assert steps == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [r["step"] for r in Run(folder).metrics if "val/loss" in r] == [2, 4, 6, 8]
    [sent] = server.runs.values()
    assert sent.begun >= 2
    assert {row["step"] for row in sent.rows if "train/loss" in row} >= {3, 4, 5, 6, 7, 8}
    assert (sent.summary["status"], sent.exit_code) == ("completed", 0)
    logs = "".join(path.read_text() for path in folder.glob("wandb/**/logs/*.log"))
    assert logs
    assert "less than current step" not in logs
    assert "tep must" not in logs
