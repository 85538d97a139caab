"""Slurm's commands as scripts that note what they are told, and say what a test wants."""

from __future__ import annotations

import ast
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

NOTING = """\
#!{python}
import sys, pathlib
here = pathlib.Path({place!r})
with (here / "{name}.told").open("a") as told:
    told.write(repr(sys.argv[1:]) + "\\n")
answer = here / "{name}.answer"
text = answer.read_text() if answer.exists() else ""
code, _, said = text.partition("\\n")
print(said, end="", file=sys.stderr if int(code or 0) else sys.stdout)
sys.exit(int(code or 0))
"""


@dataclass
class FakeSlurm:
    """The folder of such commands."""

    place: Path

    @classmethod
    def on_path(cls, place: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
        """Commands that this process finds before any others."""
        made = cls(place)
        place.mkdir()
        for name in ("sbatch", "squeue", "scancel", "scontrol", "srun"):
            made.script(name, NOTING.format(python=sys.executable, place=str(place), name=name))
        made.answers("sbatch", "77\n")
        monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
        return made

    def script(self, name: str, text: str) -> None:
        """Make a command of one's own."""
        (self.place / name).write_text(text)
        (self.place / name).chmod(0o755)

    def answers(self, name: str, said: str, code: int = 0) -> None:
        """What a command says from now on."""
        (self.place / f"{name}.answer").write_text(f"{code}\n{said}")

    def told(self, name: str) -> list[list[str]]:
        """The words of each call of a command."""
        path = self.place / f"{name}.told"
        lines = path.read_text().splitlines() if path.exists() else []
        return [[str(word) for word in ast.literal_eval(line)] for line in lines]
