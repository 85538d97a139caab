"""The process that commands of tests are forked from: what they import, it has imported already.

A run's imports take longer than a short run. This server never composes, computes or starts a
thread. For each request it forks a process that becomes `python -m train`, which again forks its
fork server instead of starting one.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import util
from typing import Any, NoReturn

from components.cluster.gang import PRELOAD
from train.preload import ALWAYS

IMPORTED = (*PRELOAD, *ALWAYS, "train.command", "train.run_plan", "train.preflight", "train.launch")
FORK_SERVER = "from multiprocessing.forkserver import main"


def serve(listener: socket.socket) -> dict[str, Any]:
    """Take requests until the other end is gone; returns, with the request, in the forked process.

    A request is a line of JSON, `cwd`, `words` and `env`, that comes with two open files, its
    stdout and stderr. The answer is a line with the process's id, which leads a session of its
    own, and one with how it ended as `os.waitstatus_to_exitcode` has it.
    """
    while True:
        asked, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in asked:
            sys.exit()
        connection, _ = listener.accept()
        _reap()
        if os.fork() == 0:
            listener.close()
            return _answer(connection)
        connection.close()


def _answer(connection: socket.socket) -> dict[str, Any]:
    with connection, connection.makefile("rw") as lines:
        text, said, _, _ = socket.recv_fds(connection, 2**16, 2)
        while not text.endswith(b"\n"):
            text += connection.recv(2**16)
        ready, go = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(go)
            os.read(ready, 1)
            os.close(ready)
            return {**json.loads(text), "said": said}
        for fd in (ready, *said):
            os.close(fd)
        lines.write(f"{pid}\n")
        lines.flush()
        os.close(go)  # not before its user knows whom to kill
        _, status = os.waitpid(pid, 0)
        lines.write(f"{os.waitstatus_to_exitcode(status)}\n")
        lines.flush()
        os._exit(0)


def become(request: dict[str, Any]) -> None:
    """Make this process what the shell would have started."""
    os.setsid()
    os.chdir(request["cwd"])
    for fd, opened in enumerate((os.open(os.devnull, os.O_RDONLY), *request["said"])):
        os.dup2(opened, fd)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[0] = request["cwd"]
    sys.argv = ["train", *request["words"]]
    sys.orig_argv = [sys.executable, "-m", "train", *request["words"]]
    # A shell that starts tests in the background has it ignored; a user's terminal has not.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    util.spawnv_passfds = _fork_server


def _fork_server(
    path: bytes, args: Sequence[str], fds: Sequence[int], spawn: Any = util.spawnv_passfds
) -> int:
    """In the place of `spawnv_passfds`: a fork server is forked, anything else is started."""
    if FORK_SERVER not in args[-1]:
        return int(spawn(path, args, fds))
    pid = os.fork()
    if pid == 0:
        _serve_forks(args[-1], fds)
    return pid


def _serve_forks(code: str, fds: Sequence[int]) -> NoReturn:
    """What the start of another program would have done to this process, then its code."""
    try:
        for fd in map(int, os.listdir("/proc/self/fd")):
            if fd > 2 and fd not in fds:
                with suppress(OSError):
                    os.close(fd)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)) and number != signal.SIGINT:
                signal.signal(number, signal.SIG_DFL)
        exec(code, {"__name__": "__main__"})
    finally:
        os._exit(0)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> None:
    """Serve on the socket that is inherited as the first argument, then be `python -m train`."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    for name in (*IMPORTED, *sys.argv[2:]):
        importlib.import_module(name)
    request = serve(listener)
    become(request)
    runpy.run_module("train", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
