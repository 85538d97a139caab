"""Signals that come at a bad moment are acted on all the same."""

from __future__ import annotations

from tests.programs import run_program


def said(code: str) -> tuple[int, str]:
    """Exit code and output of a program of its own."""
    done = run_program(code)
    return done.returncode, done.stdout


BEGIN = """
import os, signal
from components.cluster.signals import HEEDED, Interrupted, held, raise_interrupts, raise_missed
raise_interrupts()
"""


def test_one_that_is_held_back_is_acted_on_afterwards() -> None:
    code = """
try:
    with held(*HEEDED):
        os.kill(os.getpid(), signal.SIGTERM)
        print("done")
    print("lost")
except Interrupted as stop:
    print(stop)
"""
    assert said(BEGIN + code) == (0, "done\nstopped by SIGTERM\n")


def test_one_whose_exception_got_lost_is_raised_again() -> None:
    code = """
raise_missed()
try:
    os.kill(os.getpid(), signal.SIGUSR1)
except Interrupted:
    pass
try:
    raise_missed()
except Interrupted as stop:
    print(stop)
"""
    assert said(BEGIN + code) == (0, "stopped by SIGUSR1\n")


def test_the_fork_server_outlives_signals_from_its_start() -> None:
    # To all of the group, as schedulers send them, while the server is on its way.
    code = """
import time
from multiprocessing import forkserver, util
from components.cluster.gang import start_server
os.setsid()
for number in HEEDED:
    signal.signal(number, lambda signum, frame: print(signal.Signals(signum).name))
spawn = util.spawnv_passfds
def spawned(*args):
    pid = spawn(*args)
    for number in HEEDED:
        os.killpg(0, number)
    print("started")
    return pid
util.spawnv_passfds = spawned
start_server()
time.sleep(0.5)
print(os.waitpid(forkserver._forkserver._forkserver_pid, os.WNOHANG))
pid = forkserver._forkserver._forkserver_pid
status = dict(line.split(":") for line in open(f"/proc/{pid}/status"))
print(int(status["SigBlk"], 16), all(int(status["SigIgn"], 16) >> n - 1 & 1 for n in HEEDED))
"""
    status, output = said(BEGIN + code)
    assert status == 0
    *names, waited, signals = output.splitlines()
    assert names[-6] == "started"  # each is acted on, after the start
    assert set(names[-5:]) == {"SIGINT", "SIGHUP", "SIGTERM", "SIGUSR1", "SIGUSR2"}
    assert waited == "(0, 0)"
    assert signals == "0 True"
