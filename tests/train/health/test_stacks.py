"""Stacks of another process, and what they tell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from train.health.stacks import ask, clear, innermost, main_thread, stacks_path

TEXT = """\
Thread 0x00007f8c3fcd56c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 982 in run

Current thread 0x00007f8c62dcbb80 (most recent call first):
  File "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 9 in all_reduce
  File "/v/lib/python3.11/site-packages/torch/utils/_contextlib.py", line 120 in decorate
  File "/home/me/shardlab/components/parallel/update.py", line 33 in step
  File "/home/me/shardlab/train/loop.py", line 12 in run
"""

BUSY = """
import sys, time
from pathlib import Path
from train.health.stacks import answer
answer(Path(sys.argv[1]), 3)
def dig(depth):
    if depth:
        return dig(depth - 1)
    print("here", flush=True)
    time.sleep(600)
dig(2)
"""


def test_the_oldest_thread_is_the_main_one() -> None:
    frames = main_thread(TEXT)
    assert [frame[2] for frame in frames] == ["all_reduce", "decorate", "step", "run"]
    assert main_thread(TEXT + "Thread 0x1 (most recent call first):\n") == []


def test_where_a_rank_is_by_code_that_is_no_librarys() -> None:
    assert innermost(main_thread(TEXT)) == ("step (parallel/update.py:33)", True)
    assert innermost([("/home/me/model.py", 5, "forward")]) == ("forward (me/model.py:5)", False)
    library = "/v/lib/python3.11/site-packages/numpy/core.py"
    assert innermost([(library, 5, "dot")]) == ("dot (numpy/core.py:5)", False)
    assert innermost([]) == ("", False)


def test_a_process_that_sleeps_answers(tmp_path: Path) -> None:
    path = stacks_path(tmp_path, 3)
    path.parent.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", BUSY, tmp_path], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        try:
            ask({path: process.pid})
            frames = main_thread(path.read_text())
            ask({path: process.pid})  # again, and it still lives
            assert process.poll() is None
        finally:
            process.kill()
    assert [frame[2] for frame in frames] == ["dig", "dig", "dig", "<module>"]
    clear(tmp_path, 3)
    assert path.exists()


def test_a_process_that_is_gone_is_not_waited_for_long(tmp_path: Path) -> None:
    path = stacks_path(tmp_path, 0)
    path.parent.mkdir()
    path.touch()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    ask({path: ended.pid})
    clear(tmp_path, 0)
    assert not path.exists()
