"""What a shell offers behind `python -m train`, and that bash takes it."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.runs import PROBES, TESTS
from train.completion import candidates, main


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("parallel=zero", ["parallel=zero1", "parallel=zero2", "parallel=zero3"]),
        # A sweep's list grows by what it does not have.
        ("-m parallel=zero1,zero", ["parallel=zero1,zero2", "parallel=zero1,zero3"]),
        ("paral", ["parallel.", "parallel="]),
        ("+sw", ["+sweep="]),
        ("~optimizer.we", ["~optimizer.weight_decay"]),
        ("optimizer=sgd optimizer.mo", ["optimizer.momentum="]),
        ("optimizer=adamw optimizer.mo", []),
        # A mistake further ahead does not stand in the way.
        ("bogus=1 log_e", ["log_every="]),
        ("steps=", []),
        ("--config-d", ["--config-dir"]),
        (f"--config-dir={PROBES / 'conf'} model=lin", ["model=line"]),
    ],
)
def test_what_is_offered(typed: str, offered: list[str]) -> None:
    assert candidates(f"python -m train {typed}") == offered


def test_an_empty_word_offers_groups_and_keys() -> None:
    offered = candidates("python -m train ")
    assert {"parallel=", "model.", "steps=", "seed="} <= {*offered}
    assert not [word for word in offered if word.startswith("hydra")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([shell]) == 0
    assert "-m train.completion --query" in capsys.readouterr().out


class Terminal:
    """An interactive bash, as at a keyboard."""

    def __init__(self, cwd: Path) -> None:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        own = {"PATH": path, "PYTHONPATH": str(TESTS.parent), "TERM": "dumb", "PS1": "$ "}
        self.fd, inner = pty.openpty()
        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            cwd=cwd,
            env={**os.environ, **own},
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
        )
        os.close(inner)
        self.seen = ""

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def until(self, text: str, limit: float = 60.0) -> None:
        """Read on until it shows `text` once more."""
        end = time.monotonic() + limit
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.fd], [], [], 0.1)[0]:
                self.seen += os.read(self.fd, 4096).decode()
        self.seen = self.seen.partition(text)[2]

    def close(self) -> None:
        self.shell.kill()
        self.shell.wait()
        os.close(self.fd)


def test_a_tab_in_bash(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    try:
        terminal.type('eval "$(python -m train.completion bash)"; echo rea""dy\r')
        terminal.until("ready")
        terminal.type("python -m train parallel=pip\t")
        terminal.until("parallel=pipeline")
        terminal.type(" -m precision=fp32,b\t")
        terminal.until("precision=fp32,bf16")
        terminal.type(" optimizer.we\t")
        terminal.until("optimizer.weight_decay=")
    finally:
        terminal.close()
