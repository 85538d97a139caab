"""`python -m train` without the time that its imports take, for tests of what comes after them."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO

ENGINE = "deepspeed"
"""Imported by a server of its own: the commands of other strategies never have it."""


def run(
    cwd: Path, words: Sequence[str], env: Mapping[str, str], timeout: float
) -> tuple[int, str, str]:
    """Run `python -m train` with these words to its end, and that of all that came of it: exit
    code, stdout, stderr.

    Raises:
        AssertionError: when it takes longer; it is killed with its whole group.
    """
    address = server(any("zero" in word for word in words), env["PYTHONPATH"])
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        request = {"cwd": str(cwd.resolve()), "words": list(words), "env": dict(env)}
        (out, its_out), (err, its_err) = os.pipe(), os.pipe()
        text = json.dumps(request).encode() + b"\n"
        sent = socket.send_fds(connection, [text], [its_out, its_err])
        connection.sendall(text[sent:])
        os.close(its_out)
        os.close(its_err)
        with (
            connection.makefile("r") as lines,
            open(out, "rb") as stdout,
            open(err, "rb") as stderr,
        ):
            pid = int(lines.readline())
            said, ended = _heard([stdout, stderr], timeout)
            if not ended:
                os.killpg(pid, signal.SIGKILL)
                raise AssertionError(f"still running after {timeout} s\n" + "\n".join(said))
            return int(lines.readline()), said[0], said[1]


def _heard(streams: Sequence[BinaryIO], timeout: float) -> tuple[list[str], bool]:
    """What was said on each stream, and whether all processes that might say more have ended."""
    end = time.monotonic() + timeout
    heard = {stream: bytearray() for stream in streams}
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map() and (left := end - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                part = os.read(key.fd, 2**16)
                heard[key.fileobj] += part  # type: ignore[index]
                if not part:
                    selector.unregister(key.fileobj)
        ended = not selector.get_map()
    return [heard[stream].decode(errors="replace") for stream in streams], ended


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
