"""Killed again and again, at any moment and in any process, a run still comes to its end.

What it leaves is what the uninterrupted run leaves: each step once, with the same loss.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.faults.words import FAULTY
from tests.processes import Family, family
from tests.runs import Run, run_train

WORDS = (
    *FAULTY,
    "eval_every=8",
    "hydra.run.dir=run",
    "resume=auto",
    # Half of the time is spent in saving.
    "checkpoint.every_steps=1",
    "checkpoint.keep_best=1",
    "+model.pace_s=0.05",
)


def kill_one(command: Family, before: int, chance: random.Random) -> bool:
    """SIGKILL for one process of a command: as it starts, or once it has taken a step more.

    Returns:
        Whether one was killed: a run may also have come to its end before.
    """
    early = chance.random() < 0.2
    if early:
        command.until(lambda: len(vital(command)) > 1)
    else:
        command.until(lambda: command.training(before + 1) or command.first.poll() is not None)
    time.sleep(chance.random() * 0.3)
    # A fork server that dies before it has forked is started again, and the run goes on.
    members = [psutil.Process(command.first.pid)] if early else vital(command)
    if not members or command.first.poll() is not None:
        return False
    try:
        chance.choice(members).kill()
    except psutil.NoSuchProcess:
        return False
    assert command.first.wait(60) != 0, "what was killed was not missed"
    command.gone_after(60)  # a fork server sees its controller's end once its imports are done
    return True


def vital(command: Family) -> list[psutil.Process]:
    """Controller, fork server and ranks; multiprocessing's resource tracker is missed by none."""
    found = []
    for process in command.members():
        with suppress(psutil.Error):
            if "resource_tracker" not in " ".join(process.cmdline()):
                found.append(process)
    return found


def recorded(folder: Path) -> int:
    """The last step in the records."""
    metrics = Run(folder / "run").metrics
    return max((record["step"] for record in metrics), default=0)


def crash(folder: Path, kills: int, words: tuple[str, ...]) -> Run:
    """Start, kill, start again, so many times, and let it come to its end at last."""
    chance = random.Random(kills)
    for done in range(kills):
        before = recorded(folder)
        with family(folder, *words) as command:
            assert kill_one(command, before, chance), f"at its end after {done} kills"
    return run_train(folder, *words).completed().run


def check(killed: Run, straight: Run, steps: int) -> None:
    """The same record, but for times."""
    trained = [record["step"] for record in killed.metrics if "train/loss" in record]
    assert trained == list(range(1, steps + 1))
    evaluated = [record["step"] for record in killed.metrics if "val/loss" in record]
    assert evaluated == list(range(8, steps + 1, 8))
    for name in ("train/loss", "train/grad_norm", "lr", "samples", "val/loss"):
        assert killed.column(name) == straight.column(name)
    assert killed.status["attempts"] > 1
    left = [p.name for p in (killed.folder / "checkpoints").iterdir() if "." in p.name]
    assert left == []


def straight_and_killed(tmp_path: Path, parallel: str, kills: int, steps: int) -> None:
    """A run that ends undisturbed, and one that is killed again and again."""
    for name in ("straight", "killed"):
        (tmp_path / name).mkdir()
    words = (*WORDS, f"parallel={parallel}", f"steps={steps}")
    straight = run_train(tmp_path / "straight", *words).completed().run
    killed = crash(tmp_path / "killed", kills, words)
    check(killed, straight, steps)
    # One that was killed before it had the folder was no attempt.
    assert 1 < killed.status["attempts"] <= kills + 1


def test_a_few_kills(tmp_path: Path) -> None:
    straight_and_killed(tmp_path, "fsdp", kills=4, steps=40)


@pytest.mark.long
@pytest.mark.parametrize(("parallel", "kills"), [("fsdp", 30), ("zero3", 10), ("pipeline", 10)])
def test_thirty_kills(tmp_path: Path, parallel: str, kills: int) -> None:
    straight_and_killed(tmp_path, parallel, kills, steps=8 * kills)
