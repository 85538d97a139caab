"""`python -m train` without the time that its imports take, for tests of what comes after them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

ENGINE = "deepspeed"
"""Imported by a server of its own: the commands of other strategies never have it."""


def run(
    cwd: Path, words: Sequence[str], env: Mapping[str, str], timeout: float
) -> tuple[int, str, str]:
    """Run `python -m train` with these words to its end: exit code, stdout, stderr.

    Raises:
        AssertionError: when it takes longer; it is killed with its whole group.
    """
    address = server(any("zero" in word for word in words), env["PYTHONPATH"])
    with tempfile.TemporaryDirectory() as place, socket.socket(socket.AF_UNIX) as connection:
        told = {name: Path(place, name) for name in ("stdout", "stderr")}
        for file in told.values():
            file.touch()
        connection.connect(address)
        with connection.makefile("rw") as lines:
            files = {name: str(file) for name, file in told.items()}
            request = {"cwd": str(cwd.resolve()), "words": list(words), "env": dict(env), **files}
            lines.write(json.dumps(request) + "\n")
            lines.flush()
            pid = int(lines.readline())
            connection.settimeout(timeout)
            try:
                code = int(lines.readline())
            except TimeoutError:
                os.killpg(pid, signal.SIGKILL)
                said = "\n".join(file.read_text() for file in told.values())
                raise AssertionError(f"still running after {timeout} s\n{said}") from None
        return code, told["stdout"].read_text(), told["stderr"].read_text()


@cache
def server(engine: bool, path: str) -> str:
    """Start the server of this process; the address of its socket.

    Args:
        engine: whether it imports DeepSpeed too.
        path: PYTHONPATH of the commands.
    """
    place = tempfile.TemporaryDirectory()
    address = f"{place.name}/socket"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    words = [str(listener.fileno()), *([ENGINE] if engine else [])]
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.warm_server", *words],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        cwd=Path(__file__).parent.parent,
        pass_fds=[listener.fileno()],
        start_new_session=True,
    )
    listener.close()
    SERVERS.append((started, place))
    return address


SERVERS: list[tuple[subprocess.Popen[bytes], tempfile.TemporaryDirectory[str]]] = []
"""Those of this process, with the folders of their sockets."""


def close() -> None:
    """End the servers."""
    for started, place in SERVERS:
        started.kill()
        started.communicate()
        place.cleanup()
    SERVERS.clear()
    server.cache_clear()
