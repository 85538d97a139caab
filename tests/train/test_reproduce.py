"""Runs that are run again with the code of their time, although the tree has changed since."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from components.errors import ConfigError
from tests.runs import TESTS, Run, run_started
from tests.train.test_code_state import git
from train.reproduce import free_folder, reproduce

MODULE = '''
import torch
from torch import nn

class Scaled(nn.Module):
    """Logits times a number; fails in the forward of the second step if asked."""

    def __init__(self, in_features: int, classes: int, fails: bool = False) -> None:
        super().__init__()
        self.line = nn.Linear(in_features, classes)
        self.fails, self.calls = fails, 0
        print("the number is", SCALE)

    def forward(self, inputs):
        self.calls += 1
        if self.fails and self.calls == 2:
            raise RuntimeError("as asked")
        return SCALE * self.line(inputs)
'''
WORDS = (
    *("data=synthetic", "data.kind=features", "model=mlp", "~model.width", "~model.layers"),
    *("model._target_=scaled.Scaled", "optimizer=sgd", "global_batch_size=8", "logger=none"),
    *("steps=4", "log_every=1", "eval_every=2", "checkpoint=weights"),
)


@dataclass(frozen=True)
class Once:
    """A repository in which a run was made, changed since, and the run's reproduction."""

    repository: Path
    original: Run
    again: subprocess.CompletedProcess[str]
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def reproduced(self) -> Run:
        return Run(self.original.folder.with_name(f"{self.original.folder.name}_reproduced"))


def command(cwd: Path, *words: str) -> subprocess.Popen[str]:
    """`python -m train.reproduce` as a user types it."""
    return subprocess.Popen(
        [sys.executable, "-m", "train.reproduce", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(TESTS.parent), "TMPDIR": str(temporary(cwd))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def temporary(cwd: Path) -> Path:
    folder = cwd.parent / "temporary"
    folder.mkdir(exist_ok=True)
    return folder


def finished(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    process = command(cwd, *words)
    stdout, stderr = process.communicate(timeout=240)
    return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)


def state(repository: Path) -> tuple[str, ...]:
    """What a command could have left behind in a repository."""
    return (
        git(repository, "worktree", "list", "--porcelain"),
        git(repository, "status", "--porcelain"),
        git(repository, "rev-parse", "HEAD"),
        (repository / ".git" / "index").read_bytes().hex(),
        (repository / "scaled.py").read_text(),
        str(sorted(path.name for path in temporary(repository).iterdir() if "repro" in path.name)),
    )


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """A copy of the project; one tracked file changed, one untracked module: then the run."""
    repository = tmp_path_factory.mktemp("reproduce") / "project"
    repository.mkdir()
    for name in ("train", "components", "conf"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(TESTS.parent / name, repository / name, ignore=ignore)
    (repository / ".gitignore").write_text("__pycache__/\noutputs/\n")
    git(repository, "init", "-q")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "first")

    config = repository / "conf" / "optimizer" / "sgd.yaml"
    was = config.read_text()
    config.write_text(was.replace("lr: 0.1", "lr: 0.05"))
    assert config.read_text() != was
    (repository / "scaled.py").write_text(MODULE.replace("SCALE", "2.0"))
    original = run_started(repository, *WORDS).completed().run

    config.write_text(was)
    (repository / "scaled.py").write_text(MODULE.replace("SCALE", "3.0"))
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "second")
    (repository / "scaled.py").write_text(MODULE.replace("SCALE", "5.0"))
    before = state(repository)
    again = finished(repository, str(original.folder.relative_to(repository)))
    return Once(repository, original, again, before, state(repository))


def test_a_run_of_a_dirty_tree_is_reproduced_bit_by_bit(once: Once) -> None:
    assert once.again.returncode == 0, once.again.stdout + once.again.stderr
    assert "equal to the last bit in 4 steps" in once.again.stdout
    assert once.original.column("train/loss") == once.reproduced.column("train/loss")
    assert once.original.column("val/loss") == once.reproduced.column("val/loss")
    assert len(once.original.column("val/loss")) == 2
    one, other = (run.folder / "weights.safetensors" for run in (once.original, once.reproduced))
    assert one.read_bytes() == other.read_bytes()


def test_the_present_tree_would_have_given_other_numbers(once: Once) -> None:
    """Else the test above would say nothing: half the rate, and another number in the module."""
    assert max(once.reproduced.column("lr")) < 0.05 + 1e-9
    assert "the number is 2.0" in once.reproduced.log()


def test_nothing_is_left_behind(once: Once) -> None:
    assert once.before == once.after
    assert once.after[0].count("worktree ") == 1
    assert once.after[-1] == "[]"


def test_the_reproduction_ran_the_code_of_then(once: Once) -> None:
    one, other = once.original.provenance["git"], once.reproduced.provenance["git"]
    assert one["commit"] == other["commit"] != git(once.repository, "rev-parse", "HEAD")
    patches = [(r.folder / "dirty.patch").read_bytes() for r in (once.original, once.reproduced)]
    assert patches[0] == patches[1]
    assert once.reproduced.provenance["cwd"] == str(once.repository)


def test_the_report(once: Once) -> None:
    report = json.loads((once.reproduced.folder / "reproduction.json").read_text())
    assert report["equal"] is True
    assert report["of"] == str(once.original.folder)
    assert report["steps_compared"] == 4
    assert report["bits_may_differ"] is None
    assert (report["config"], report["metrics"], report["ends"]) == ([], [], None)


def test_a_failed_job_of_a_sweep_in_a_users_repository_fails_alike(once: Once) -> None:
    """The project and the user's module come each from its repository; the sweep stays as it is."""
    user = once.repository.with_name("user")
    user.mkdir()
    git(user, "init", "-q")
    (user / ".gitignore").write_text("__pycache__/\noutputs/\n")
    (user / "scaled.py").write_text("no python")
    git(user, "add", "-A")
    git(user, "commit", "-qm", "first")
    (user / "scaled.py").write_text(MODULE.replace("SCALE", "7.0"))
    words = (*WORDS, "+model.fails=true", "cluster.nproc_per_node=1", "seed=5")
    done = run_started(user, "-m", *words, env={"PYTHONPATH": str(once.repository)})
    assert done.code == 1
    job, sweep = done.run, done.run.folder.parent
    assert job.status["error"]["kind"] == "error"

    (user / "scaled.py").unlink()
    before = sorted(sweep.iterdir()), git(user, "status", "--porcelain"), state(once.repository)
    again = finished(user, str(job.folder))
    assert again.returncode == 0, again.stdout + again.stderr
    after = sorted(sweep.iterdir()), git(user, "status", "--porcelain"), state(once.repository)
    assert after == before
    assert git(user, "worktree", "list").count("\n") == 0
    reproduced = Run(sweep.with_name(f"{sweep.name}_{job.folder.name}_reproduced"))
    assert reproduced.status["error"]["cause"] == "RuntimeError: as asked"
    assert "the number is 7.0" in reproduced.log()
    assert reproduced.column("train/loss") == job.column("train/loss") != []


def copied(once: Once, tmp_path: Path) -> Path:
    """The run's folder in another place, whose files a test may change."""
    folder = tmp_path / "copy"
    shutil.copytree(once.original.folder, folder)
    return folder


def changed(folder: Path, **entries: object) -> Path:
    path = folder / "provenance.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))
    return folder


def test_an_interrupt_ends_the_run_and_takes_the_worktree_away(once: Once, tmp_path: Path) -> None:
    folder = copied(once, tmp_path)
    hydra = folder / ".hydra" / "hydra.yaml"
    hydra.write_text(hydra.read_text().replace("- steps=4", "- steps=1000000"))
    out = tmp_path / "again"
    before = state(once.repository)
    process = command(once.repository, str(folder), "--out", str(out))
    deadline = time.monotonic() + 120
    while not Run(out).metrics:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stdout + stderr
    assert Run(out).status["status"] == "failed"
    assert state(once.repository) == before
    assert not [one for one in psutil.process_iter(["cmdline"]) if str(out) in str(one.info)]


def refusal(folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        reproduce(folder)
    assert not free_folder(folder).exists()
    return str(caught.value)


def test_what_cannot_be_begun_is_refused(once: Once, tmp_path: Path) -> None:
    assert "is no run's folder" in refusal(tmp_path / "nowhere")
    folder = copied(once, tmp_path)
    noted = once.original.provenance["git"]

    changed(folder, git=None)
    assert "was in no git repository" in refusal(folder)

    changed(folder, git={**noted, "commit": "f" * 40})
    assert f"commit {'f' * 40}" in refusal(folder)
    assert str(once.repository) in refusal(folder)

    changed(folder, git=noted)
    patch = folder / "dirty.patch"
    patch.write_bytes(patch.read_bytes().replace(b"-lr: 0.1", b"-lr: 0.7"))
    before = state(once.repository)
    assert "does not apply" in refusal(folder)
    assert state(once.repository) == before
    patch.unlink()
    assert "dirty.patch is missing" in refusal(folder)

    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("nnodes: 1", "nnodes: 2"))
    assert "ran on 2 nodes" in refusal(folder)

    (folder / "provenance.json").unlink()
    assert "no provenance.json" in refusal(folder)


def test_the_command_line_says_so_in_one_line(tmp_path: Path) -> None:
    project = tmp_path / "empty"
    project.mkdir()
    done = finished(project, "nowhere")
    assert done.returncode == 2
    assert done.stderr.startswith("refused: nowhere is no run's folder")
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
