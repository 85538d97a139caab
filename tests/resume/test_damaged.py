"""What is damaged, or does not belong to the run, is found before a step is taken, and named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components.errors import ConfigError
from tests.faults.words import FAULTY
from tests.processes import family
from tests.resume.conftest import SMALL, Command
from tests.runs import Run, run_train

NEWEST = Path("checkpoints") / "step-000006"


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [truncate, flip, Path.unlink])
@pytest.mark.parametrize(
    "name",
    [".metadata", "__0_0.distcp", "training.pt", "rank-0.pt", "config.yaml", "manifest.json"],
)
def test_the_one_before_is_taken(
    run: Path, command: Command, damage: Callable[[Path], None], name: str
) -> None:
    damage(run / NEWEST / name)
    said = command(f"resume={run}", "steps=8", "dry_run=true")
    assert said.stderr.startswith(f"skipped a damaged checkpoint: {run / NEWEST / name} ")
    assert said.stderr.count("\n") == 1
    assert "attempt     2, resuming from step 4\n" in said.stdout


def test_a_checkpoint_under_another_name(run: Path, command: Command) -> None:
    (run / NEWEST).rename(run / "checkpoints" / "step-000009")
    said = command(f"resume={run}", "steps=12", "dry_run=true")
    assert "step-000009 holds step 6" in said.stderr
    assert "resuming from step 4" in said.stdout


def test_a_file_in_place_of_a_checkpoint(run: Path, command: Command) -> None:
    shutil.rmtree(run / NEWEST)
    (run / NEWEST).write_text("")
    assert "resuming from step 4" in command(f"resume={run}", "steps=8", "dry_run=true").stdout


def test_training_goes_on_from_the_one_before(run: Path, six_steps: Run) -> None:
    truncate(run / NEWEST / "__0_0.distcp")
    outcome = run_train(Path(), f"resume={run}", "steps=8").completed()
    assert outcome.stderr.startswith(f"skipped a damaged checkpoint: {run / NEWEST}/__0_0.distcp")
    after = outcome.run
    assert [r["step"] for r in after.metrics if "train/loss" in r] == [*range(1, 9)]
    assert after.column("train/loss")[:6] == six_steps.column("train/loss")
    assert (run / "checkpoints" / "step-000006.superseded").is_dir()
    assert sorted(p.name for p in (run / "checkpoints").glob("step-??????")) == [
        "step-000004",
        "step-000006",
        "step-000008",
    ]


def test_a_damaged_one_that_was_named_is_refused(run: Path, command: Command) -> None:
    flip(run / NEWEST / "rank-0.pt")
    truncate(run / "checkpoints" / "step-000004" / "rank-0.pt")
    with pytest.raises(ConfigError) as refused:
        command(f"resume={run / NEWEST}", "steps=8")
    # The nearest that is whole is the cure.
    for word in (f"{run / NEWEST}/rank-0.pt has changed", "Take ", "/checkpoints/step-000002."):
        assert word in str(refused.value)
    (run / "checkpoints" / "step-000002" / "rank-0.pt").unlink()
    with pytest.raises(ConfigError, match=r"No other is whole\."):
        command(f"resume={run / NEWEST}", "steps=8")


def test_all_damaged(run: Path, command: Command) -> None:
    for step in (2, 4, 6):
        truncate(run / "checkpoints" / f"step-{step:06d}" / "training.pt")
    before = files(run)
    with pytest.raises(ConfigError) as refused:
        command(f"resume={run}", "steps=8")
    assert str(refused.value).count("training.pt has ") == 3
    assert f"remove {run / 'checkpoints'}" in str(refused.value)
    assert files(run) == before


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


REFUSED = {
    ("model.width=12",): ["another model", "stem.1.weight [6, 64] -> [12, 64]", "init_from="],
    ("model.layers=2",): ["another model", "unexpected (", "init_from="],
    ("global_batch_size=16",): ["global_batch_size=16", "had 8", "resume_allow=[global_batch"],
    ("seed=1",): ["seed=1", "had 0", "resume_allow=[seed]"],
    ("data=digits",): ["data._target_=components.data.digits.Digits", "resume_allow=[data]"],
    ("data.masked_fraction=0.5",): ["data.masked_fraction=0.5", "had 0.0"],
    ("optimizer=sgd",): ["optimizer._target_=torch.optim.SGD", "had torch.optim.AdamW"],
    ("steps=5", "NAMED"): ["steps=5", "has taken 6", "step-000006, step-000004, step-000002"],
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_is_not_this_run(run: Path, command: Command, words: tuple[str, ...]) -> None:
    named = "NAMED" in words
    where = run / NEWEST if named else run
    given = [word for word in words if word != "NAMED"] + ([] if named else ["steps=8"])
    before = files(run)
    with pytest.raises(ConfigError) as refused:
        command(f"resume={where}", *given)
    for word in ("step-000006", *REFUSED[words]):
        assert word in str(refused.value)
    assert files(run) == before


def test_fewer_steps_than_were_taken(run: Path, command: Command) -> None:
    """Unless the run is complete: then there is nothing to do anyway."""
    assert "nothing is left to do" in command(f"resume={run}", "steps=5").stdout
    status = json.loads((run / "status.json").read_text())
    (run / "status.json").write_text(json.dumps({**status, "status": "failed"}))
    with pytest.raises(ConfigError, match=r"steps=5.*has taken 6.*steps=6 or more"):
        command(f"resume={run}", "steps=5")


@pytest.mark.parametrize(
    "words",
    [
        ("global_batch_size=16", "resume_allow=[global_batch_size]"),
        ("seed=1", "resume_allow=[seed]"),
        ("data=digits", "resume_allow=[data]"),
        ("data.masked_fraction=0.5", "seed=1", "resume_allow=[data,seed]"),
    ],
)
def test_what_may_be_allowed(run: Path, command: Command, words: tuple[str, ...]) -> None:
    said = command(f"resume={run}", *words, "steps=8", "dry_run=true")
    assert f"{words[0].partition('=')[0]}" in said.stdout[said.stdout.index("changed") :]


def test_another_global_batch(run: Path) -> None:
    outcome = run_train(
        Path(),
        f"resume={run}",
        "global_batch_size=16",
        "resume_allow=[global_batch_size]",
        "steps=8",
    ).completed()
    # 64 samples are an epoch; 6 steps of 8 have taken 48, and 2 of 16 follow.
    assert outcome.run.column("samples") == [8, 16, 24, 32, 40, 48, 64, 80]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=4m", "shardlab-test", str(folder)]
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip("only root can make a disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    """The run ends and says what to do; what was saved is whole; with room again it goes on."""
    words = (*FAULTY, "+model.pace_s=0.05", "steps=1000000", "checkpoint.every_steps=2")
    with family(small_disk, *words, "logger=none") as command:
        command.until(lambda: command.training(3))
        # A checkpoint takes 80 KB at least, whole pages for each of its files.
        (small_disk / "filling").write_bytes(bytes(room(small_disk) - 20_000))
        command.first.wait(60)
        outcome = command.outcome()
    assert outcome.code == 1, outcome.stderr
    run = outcome.run
    for said in (outcome.stderr, run.status["error"]["cause"]):
        for word in ("could not be written", "No space left on device", "Make room", "resume="):
            assert word in said
    assert "Traceback" not in outcome.stderr
    assert not list(run.folder.glob("checkpoints/*.partial"))
    (small_disk / "filling").unlink()
    steps = run.status["steps"] + 2
    last = run_train(small_disk, f"resume={run.folder}", f"steps={steps}").completed().run
    assert last.column("step")[:steps] == [*range(1, steps + 1)]
    assert last.status["attempts"] == 2


def room(folder: Path) -> int:
    """Bytes that still fit."""
    stat = os.statvfs(folder)
    return stat.f_bavail * stat.f_bsize


def test_a_folder_that_takes_no_checkpoint(tmp_path: Path) -> None:
    place = tmp_path / "outputs" / "mine"
    place.mkdir(parents=True)
    (place / "checkpoints").write_text("")
    outcome = run_train(tmp_path, *SMALL, "steps=4", "run_id=mine")
    assert outcome.code == 1
    assert "the checkpoint at step 2 could not be written (rank 0: " in outcome.stderr
    assert "mend the folder" in outcome.stderr
    assert outcome.run.status["status"] == "failed"


def test_on_the_command_line(run: Path) -> None:
    outcome = run_train(Path(), f"resume={run}", "seed=1", "steps=8")
    assert outcome.code == 2
    assert outcome.stderr.startswith(f"refused: {run.absolute()}")
    assert outcome.stderr.count("refused") == 1
    assert "Traceback" not in outcome.stderr
