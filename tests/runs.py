"""`python -m train` as a user types it: in a process of its own, in an empty folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from torch import Tensor

from tests import warm

TESTS = Path(__file__).resolve().parent
PROBES = TESTS / "probes"
"""Models and data sets of an imaginary user: importable in the runs, as in `model._target_=...`."""

LAUNCHERS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_", "SLURM_", "TORCH")


@dataclass(frozen=True)
class Run:
    """One run's folder, read lazily."""

    folder: Path

    @cached_property
    def status(self) -> dict[str, Any]:
        return _json(self.folder / "status.json")

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Empty when the run did not come to its end."""
        return _json(self.folder / "summary.json")

    @cached_property
    def provenance(self) -> dict[str, Any]:
        return _json(self.folder / "provenance.json")

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """All records of metrics.jsonl, in order."""
        path = self.folder / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @cached_property
    def overrides(self) -> dict[str, str]:
        """What the command line (or the sweep) set, by key."""
        words = OmegaConf.load(self.folder / ".hydra" / "overrides.yaml")
        return dict(word.lstrip("+").split("=", 1) for word in words if "=" in word)

    def column(self, name: str) -> list[Any]:
        """The values of one metric, from the records that have it."""
        return [record[name] for record in self.metrics if name in record]

    def log(self, rank: int = 0) -> str:
        """One rank's log."""
        return (self.folder / "logs" / f"rank-{rank}.log").read_text()

    def weights(self) -> dict[str, Tensor]:
        """The final weights by plain parameter name."""
        from safetensors.torch import load_file

        return load_file(self.folder / "weights.safetensors")


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit code, what it said, and its runs in the order of the jobs."""

    code: int
    stdout: str
    stderr: str
    runs: list[Run]

    @property
    def run(self) -> Run:
        """The only run."""
        (run,) = self.runs
        return run

    def find(self, **overrides: str) -> Run:
        """The one run of a sweep with these overrides; `__` stands for the dot in a key."""
        wanted = {key.replace("__", "."): value for key, value in overrides.items()}
        (run,) = [run for run in self.runs if wanted.items() <= run.overrides.items()]
        return run

    def completed(self) -> Outcome:
        """Itself, once all is well; else fails with what the command said."""
        assert self.code == 0, f"exit code {self.code}\n{self.stdout}\n{self.stderr}"
        return self


def start_train(
    cwd: Path,
    *words: str,
    env: Mapping[str, str] | None = None,
    launcher: Sequence[str] = (sys.executable, "-m", "train"),
) -> subprocess.Popen[str]:
    """Start `python -m train` with these words in `cwd`, in a process group of its own.

    A run's logger is `none` unless the words say otherwise.

    Args:
        env: variables to add to the environment.
        launcher: what starts the command, as in `torchrun ... -m train`.
    """
    return subprocess.Popen(
        [*launcher, *_with_logger(words)],
        cwd=cwd,
        env=_environment(env or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell that starts us in the background has SIGINT ignored; a user's terminal has not.
        preexec_fn=_heed_interrupts,
    )


def _with_logger(words: Sequence[str]) -> tuple[str, ...]:
    given = any(word.lstrip("+~").startswith("logger") for word in words)
    return (*words, *([] if given else ["logger=none"]))


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    path = [str(TESTS.parent), str(PROBES), *filter(None, [own.get("PYTHONPATH")])]
    return own | {"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1", **env}


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def outcome(process: subprocess.Popen[str], cwd: Path, timeout: float = 240.0) -> Outcome:
    """Wait for a started command; it is killed with its whole group when it takes too long."""
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        stdout, stderr = process.communicate()
        raise AssertionError(f"still running after {timeout} s\n{stdout}\n{stderr}") from None
    return Outcome(process.returncode, stdout, stderr, find_runs(cwd))


def run_started(
    cwd: Path, *words: str, env: Mapping[str, str] | None = None, timeout: float = 240.0
) -> Outcome:
    """`python -m train` with these words in `cwd`, to its end. See `start_train`, `outcome`."""
    return outcome(start_train(cwd, *words, env=env), cwd, timeout)


def run_train(cwd: Path, *words: str, timeout: float = 240.0) -> Outcome:
    """The same without the time that imports take, where the start is not what is looked at."""
    code, stdout, stderr = warm.run(cwd, _with_logger(words), _environment({}), timeout)
    return Outcome(code, stdout, stderr, find_runs(cwd))


def find_runs(cwd: Path) -> list[Run]:
    """All runs under `cwd`: by date and time, and within a sweep by the job's number."""
    # Not a glob: one that meets a folder which has just been renamed raises.
    folders = [Path(folder) for folder, _, files in os.walk(cwd) if "status.json" in files]
    return [Run(folder) for folder in sorted(folders, key=_order)]


def _order(folder: Path) -> tuple[str, int, str]:
    number = folder.name.partition("_")[0]
    return (str(folder.parent), int(number) if number.isdigit() else -1, folder.name)


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() and path.stat().st_size else {}
