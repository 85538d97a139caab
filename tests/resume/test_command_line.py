"""`resume`, `init_from`, `run_id`: which run a command goes on with, from where, and as what."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from components.errors import ConfigError
from tests.faults.words import FAULTY
from tests.resume.conftest import SMALL, Command
from tests.runs import PROBES, Run, run_train

THIRD = Path("checkpoints") / "step-000006"


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name.removeprefix("step-0000") for path in folder.glob("checkpoints/*"))


# What stands behind resume=.


@pytest.mark.parametrize("text", ["outputs/r", "./outputs/r/", "latest", "outputs/../outputs/r"])
def test_a_run(run: Path, command: Command, text: str) -> None:
    said = command(f"resume={text}", "steps=8", "dry_run=true")
    assert "attempt     2, resuming from step 6\n" in said.stdout
    assert "changed     steps: 6 -> 8\n" in said.stdout
    assert said.stderr == ""


def test_from_another_folder(run: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is the present folder's, and the run's own is its own wherever it is."""
    Path("elsewhere").mkdir()
    moved = run.rename("elsewhere/it's mine").absolute()
    monkeypatch.chdir("elsewhere")
    said = command(f'resume="{moved.name}"', "steps=8", "dry_run=true")
    assert f"folder      {moved.name}\n" in said.stdout
    assert "resuming from step 6" in command(f'resume="{moved}"', "steps=8", "dry_run=true").stdout


def test_a_finished_run(run: Path, command: Command) -> None:
    before = files(run)
    for words in ((f"resume={run}",), (f"resume={run / THIRD}",), ("resume=latest", "steps=3")):
        said = command(*words)
        assert said.code == 0
        assert "is complete: 6 of 6 steps, nothing is left to do" in said.stdout
    assert files(run) == before


def test_an_earlier_checkpoint(run: Path, six_steps: Run) -> None:
    """The run goes on from there; what came after is put aside, and each step stands there once."""
    outcome = run_train(Path(), f"resume={run}/checkpoints/step-000002").completed()
    assert "attempt     2, resuming from step 2" in outcome.stdout
    after = outcome.run
    # Evaluated at 2, 4 and 6; the same steps again give the same numbers, to the bit.
    assert after.column("step") == [1, 2, 2, 3, 4, 4, 5, 6, 6] == six_steps.column("step")
    for name in ("train/loss", "train/grad_norm", "samples", "val/loss"):
        assert after.column(name) == six_steps.column(name)
    aside = (run / "logs" / "superseded.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in aside] == [3, 4, 4, 5, 6, 6]
    assert checkpoints(run) == ["02", "04", "04.superseded", "06", "06.superseded"]
    for name, weight in six_steps.weights().items():
        assert torch.equal(weight, after.weights()[name])


def test_a_run_that_stopped_early(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*SMALL, "steps=6", "patience=1", "optimizer.lr=0", "run_id=mine")
    first = run_train(tmp_path, *words).completed().run
    assert first.column("step")[-1] == 4  # no better than at step 2
    monkeypatch.chdir(tmp_path)
    said = command(*words)
    assert "complete: 4 of 6 steps" in said.stdout
    assert "patience=null" in said.stdout
    last = run_train(tmp_path, "resume=outputs/mine", "patience=null").completed().run
    assert last.column("step")[-1] == 6


def test_as_another_cell(run: Path, six_steps: Run) -> None:
    words = ("parallel=ddp", "cluster.nproc_per_node=2", "accumulation=2", "steps=8", "log_every=2")
    outcome = run_train(Path(), f"resume={run}", *words).completed()
    assert "changed     parallel: single -> " in outcome.stdout
    assert "changed     accumulation: 1 -> 2" in outcome.stdout
    after = outcome.run
    assert after.column("step") == [*six_steps.column("step"), 8, 8]
    assert after.column("samples")[-1] == 64
    assert after.summary["updates"] == 8
    # The words hold for the next attempt too.
    assert after.overrides["parallel"] == "ddp"
    assert "resume" not in after.overrides


def test_a_run_that_is_still_going(run: Path, command: Command) -> None:
    """Said at once, whatever its checkpoints look like at the moment."""
    shutil.rmtree(run / THIRD)
    (run / THIRD).mkdir()
    (run / "logs" / ".lock").write_text(json.dumps({"pid": 4711, "host": "here"}))
    with (run / "logs" / ".lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for words in ((f"resume={run}",), (f"resume={run / THIRD}",), ("resume=latest",)):
            with pytest.raises(ConfigError, match=r"still going \(process 4711 on here\)"):
                command(*words, "steps=8")
    # Its process is gone: so is its hold.
    assert "resuming from step 4" in command(f"resume={run}", "steps=8", "dry_run=true").stdout


def test_a_folder_that_cannot_be_written(run: Path, command: Command) -> None:
    bind = ["mount", "--bind", "-o", "ro", str(run), str(run)]
    if subprocess.run(bind, capture_output=True).returncode:
        pytest.skip("only root can mount")
    try:
        with pytest.raises(ConfigError, match=r"cannot be written.*init_from=outputs/r"):
            command(f"resume={run}", "steps=8")
        assert command(*SMALL, f"init_from={run}", "steps=2", "dry_run=true").code == 0
    finally:
        subprocess.run(["umount", str(run)], check=True)


# The same command again.


def test_auto_three_times(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt is killed in its third step, with a checkpoint after each second."""
    words = (*FAULTY, "parallel=single", "cluster.nproc_per_node=1", "+model.fault=segfault")
    words = (*words, "+model.on_rank=0", "steps=6", "checkpoint.every_steps=2", "logger=none")
    words = (*words, "scheduler=constant", "resume=auto", "hydra.run.dir=mine")
    first, second, third = (run_train(tmp_path, *words) for _ in range(3))
    assert [first.code, second.code, third.code] == [1, 1, 0]
    assert "resume=auto: mine holds no run yet: this one begins there" in first.stdout
    assert "attempt     2, resuming from step 2" in second.stdout
    assert "attempt     3, resuming from step 4" in third.stdout
    run = third.run
    assert [r["step"] for r in run.metrics if "train/loss" in r] == [1, 2, 3, 4, 5, 6]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(PROBES))
    assert "complete: 6 of 6 steps" in command(*words).stdout


def test_run_id(run: Path, command: Command) -> None:
    words = (*SMALL, "run_id=mine", "dry_run=true")
    said = command(*words, "steps=6")
    assert f"folder      {Path('outputs/mine')}\n" in said.stdout
    assert "attempt" not in said.stdout
    run.rename("outputs/mine")
    assert "attempt     2, resuming from step 6" in command(*words, "steps=8").stdout
    assert "nothing is left to do" in command(*words, "steps=6").stdout


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"SLURM_JOB_ID": "7"}, "slurm-7"),
        (
            {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"},
            "slurm-7_2",
        ),
    ],
)
def test_a_requeued_job(
    run: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    name: str,
) -> None:
    for key, value in environ.items():
        monkeypatch.setenv(key, value)
    words = (*SMALL, "steps=8", "dry_run=true")
    (told,) = [line for line in command(*words).stdout.splitlines() if line.startswith("folder")]
    folder = Path(told.split()[1])
    assert folder.parent == Path("outputs") / name
    folder.parent.mkdir()
    run.rename(folder)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    monkeypatch.setenv("SLURM_JOB_ID", "11")  # an array's element keeps its place
    if "SLURM_ARRAY_JOB_ID" not in environ:
        monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert "attempt     2, resuming from step 6" in command(*words).stdout
    # Another command of the same job is another run.
    assert "attempt" not in command(*words, "seed=1").stdout


def test_a_requeued_job_in_a_folder_of_its_own(
    run: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*SMALL, "steps=8", "hydra.run.dir=outputs/r", "dry_run=true")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with pytest.raises(ConfigError, match="already holds a run"):
        command(*words)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert "attempt     2, resuming from step 6" in command(*words).stdout


# Weights to begin with.


def test_init_from(run: Path, six_steps: Run) -> None:
    """At a learning rate of zero they are those that it ends with; all else begins anew."""
    source = run / "checkpoints" / "step-000006"
    words = (*SMALL, f"init_from={source}", "steps=1", "optimizer.lr=0", "run_id=new")
    outcome = run_train(Path(), *words).completed()
    (new,) = [one for one in outcome.runs if one.folder.name == "new"]
    for name, weight in six_steps.weights().items():
        assert torch.equal(weight, new.weights()[name])
    assert new.column("samples") == [8]
    assert "tensors loaded, 0 missing, 0 unexpected" in new.log()


@pytest.mark.parametrize("what", ["", "checkpoints/step-000002", "weights.safetensors"])
def test_init_from_what(run: Path, command: Command, what: str) -> None:
    words = (*SMALL, f"init_from={run / what}", "dry_run=true", "steps=2")
    assert command(*words).code == 0
    with pytest.raises(ConfigError) as refused:
        command(*words, "model.width=7")
    for word in (
        f"init_from={run / what}",
        "of another shape",
        "[6, 64] -> [7, 64]",
        "init_strict",
    ):
        assert word in str(refused.value)
    assert command(*words, "model.width=7", "init_strict=false").code == 0


def test_a_run_that_goes_on_needs_no_more_of_what_it_began_with(
    run: Path, command: Command
) -> None:
    overrides = run / ".hydra" / "overrides.yaml"
    overrides.write_text(overrides.read_text() + "- init_from=outputs/gone\n")
    assert "resuming from step 6" in command(f"resume={run}", "steps=8", "dry_run=true").stdout
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(ConfigError, match="init_from=outputs/gone: there is no such folder"):
        command(f"resume={run}", "steps=8")


# Sweeps, and configs outside the project.


def test_a_run_of_a_sweep_that_a_config_outside_asked_for(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = tmp_path / "conf" / "sweep"
    group.mkdir(parents=True)
    (group / "repeats.yaml").write_text(
        "# @package _global_\nhydra:\n  mode: MULTIRUN\n  sweeper: {params: {seed: '3,4'}}\n"
    )
    words = ("--config-dir", "conf", *SMALL, "+sweep=repeats", "steps=2")
    outcome = run_train(tmp_path, *words).completed()
    monkeypatch.chdir("/")
    second = outcome.runs[1].folder
    said = command(f"resume='{second}'", "steps=4", "dry_run=true")
    assert "attempt     2, resuming from step 2" in said.stdout
    assert f"folder      {second}\n" in said.stdout
    assert "seed" not in said.stdout.partition("folder")[0]
    with pytest.raises(ConfigError, match=r"is no run's folder\. Name a run in it: 0_seed-3"):
        command(f"resume='{second.parent}'")


@pytest.mark.parametrize("words", [("resume=outputs/r",), ("run_id=mine",)])
def test_no_sweep_goes_on(run: Path, command: Command, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=f"-m with {words[0]}: a sweep is a folder of new runs"):
        command("-m", *words, "seed=0,1")


def test_the_project_has_moved(run: Path, command: Command) -> None:
    path = run / ".hydra" / "hydra.yaml"
    conf = str(Path(__file__).resolve().parents[2] / "conf")
    assert conf in path.read_text()
    path.write_text(path.read_text().replace(conf, "/nowhere/conf"))
    said = command(f"resume={run}", "steps=8", "dry_run=true")
    assert said.stderr == f"resume={run}: /nowhere/conf is gone, and {conf} takes its place\n"
    assert "resuming from step 6" in said.stdout


def test_a_folder_that_somebody_else_sent(
    run: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its words would have called is neither called nor imported, unless that is allowed."""
    monkeypatch.syspath_prepend(str(Path().absolute()))
    (run / "planted.py").write_text("open('was_imported', 'w').close()")
    words = run / ".hydra" / "overrides.yaml"
    own = words.read_text()
    for target, package in (("outputs.r.planted.Net", "outputs"), ("os.system", "os")):
        words.write_text(own + f"- model._target_={target}\n- allowed_targets=[{package}]\n")
        with pytest.raises(ConfigError, match=f"_target_={target} was read in .*outputs/r, and"):
            command(f"resume={run}", "steps=8")
    assert not Path("was_imported").exists()
    with pytest.raises(ConfigError, match=r"os\.system has no argument"):
        command(f"resume={run}", "steps=8", "allowed_targets=[os,posix]")


def test_words_that_only_the_run_has_a_place_for(run: Path, command: Command) -> None:
    """The default data set knows no `masked_fraction`."""
    words = ("data.masked_fraction=0.5", "resume_allow=[data]", "steps=8", "dry_run=true")
    said = command(f"resume={run}", *words)
    assert "changed     data.masked_fraction: 0.0 -> 0.5" in said.stdout


@pytest.mark.parametrize("content", ["", "a: [", "hydra: {}"])
@pytest.mark.parametrize("name", ["overrides.yaml", "hydra.yaml"])
def test_it_is_unknown_how_the_run_was_started(
    run: Path, command: Command, name: str, content: str
) -> None:
    (run / ".hydra" / name).write_text(content)
    with pytest.raises(ConfigError, match=r"its \.hydra folder.*resume=auto"):
        command(f"resume={run}", "steps=8")
    again = (*SMALL, "steps=8", f"hydra.run.dir={run}", "resume=auto", "dry_run=true")
    assert "resuming from step 6" in command(*again).stdout


NONSENSE = {
    "resume=nowhere": "there is no such folder",
    "resume=5": "there is no such folder",
    "resume=[a]": "there is no such folder",
    "resume=true": "there is no such folder",
    "resume=": "is no run's folder",
    "resume=outputs": "Name a run in it: r.",
    "resume=outputs/r/checkpoints/step-000099": "has step-000006, step-000004, step-000002",
    "resume=outputs/r/metrics.jsonl": "is a file",
    "resume=outputs/r run_id=other": "name two runs",
    "resume=outputs/r init_from=outputs/r": "a run that goes on has its weights",
    "resume=auto": "Add run_id=<name>, or hydra.run.dir=<folder>",
    "resume=${nope}": "nope, which does not exist",
    "run_id=${nope}": "nope, which does not exist",
    "run_id=": "it may hold letters",
    "run_id=a/b": "it may hold letters",
    "run_id=..": "it may hold letters",
    "run_id=5": "is no text",
    "run_id=[a]": "is no text",
    "run_id=true": "is no text",
    "resume_allow=[bogus]": "is not one of global_batch_size, seed, data",
    "resume_allow=[optimizer._target_]": "is not one of global_batch_size, seed, data",
    "resume_allow=seed": "list",
    "init_from=nowhere": "there is no such folder",
    "init_from=outputs": "holds no complete checkpoint",
    "init_from=outputs/r/checkpoints/step-000099": "there is no such folder",
    "init_from=outputs/none.safetensors": "there is no such file",
    "init_strict=maybe": "bool",
    "checkpoint.every_steps=0": "must be above 0",
    "checkpoint.every_steps=1.5": "int",
    "checkpoint.every_minutes=0": "must be above 0",
    "checkpoint.every_minutes=nan": "must be above 0",
    "checkpoint.every_minutes=often": "float",
    "checkpoint.keep_last=-1": "must be 0 or more",
    "checkpoint.keep_last=null": "int",
    "checkpoint.keep_best=-1": "must be 0 or more",
    "checkpoint.best_metric=loss": "val/loss",
    "checkpoint.best_mode=up": "'min' or 'max'",
    "checkpoint.background=maybe": "bool",
    "checkpoint=null": "checkpoint",
    "checkpoint=bogus": "default",
}


@pytest.mark.parametrize("word", NONSENSE)
def test_nonsense(run: Path, command: Command, word: str) -> None:
    with pytest.raises(ConfigError) as refused:
        command(*SMALL, "steps=2", *word.split())
    said = str(refused.value)
    assert word.partition("=")[0] in said
    assert NONSENSE[word] in said
    assert sorted(path.name for path in Path("outputs").iterdir()) == ["r"]


def test_keeping_the_best_needs_one_to_resume_from(command: Command) -> None:
    with pytest.raises(ConfigError, match=r"checkpoint\.keep_last=1"):
        command(*SMALL, "checkpoint.keep_best=1", "checkpoint.keep_last=0")


def test_a_tensor_file_is_read_as_such(run: Path) -> None:
    assert set(load_file(run / "weights.safetensors"))
