"""With real processes: what is redirected are file descriptors."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

PROBE = """
import logging, os, sys, time, warnings
from pathlib import Path
from components.logger.rank_logs import RankLogs

rank = int(sys.argv[1])
chatty = logging.getLogger("torch.distributed")  # as a library that came before
chatty.addHandler(logging.StreamHandler())
chatty.propagate = False
logs = RankLogs(Path(sys.argv[2]), rank)
late = logging.getLogger("DeepSpeed")            # as a library that comes after
late.addHandler(logging.StreamHandler(sys.stdout))
late.propagate = False
late.setLevel(logging.INFO)

log = logging.getLogger("probe")
log.info("info on both")
if rank == 1:
    log.warning("trouble on one")
    warnings.warn("old thing on one")
print(f"printed by {rank}")
print(f"complained by {rank}", file=sys.stderr)
os.write(2, f"from C++ of {rank}\\n".encode())
chatty.warning("torch warns")
chatty.error("torch fails")
late.info("deepspeed chats")
late.warning("deepspeed warns")
"""


def run_ranks(folder: Path, probe: str, *ranks: int) -> str:
    """Run the probe as each of `ranks` with one console between them; what that received."""
    read, write = os.pipe()
    gang = [
        subprocess.Popen(
            [sys.executable, "-c", probe, str(rank), str(folder)], stdout=write, stderr=write
        )
        for rank in ranks
    ]
    os.close(write)
    with os.fdopen(read) as console:
        text = console.read()
    assert [process.wait() for process in gang] == [0] * len(ranks), text
    return text


def test_who_says_what_where(tmp_path: Path) -> None:
    console = run_ranks(tmp_path, PROBE, 0, 1).splitlines()
    files = [(tmp_path / "logs" / f"rank-{rank}.log").read_text() for rank in (0, 1)]

    # Info: once on the console, in every file with time, level, rank and name.
    assert console.count("info on both") == 1
    for rank, file in enumerate(files):
        [line] = [line for line in file.splitlines() if "info on both" in line]
        assert line.endswith(f"INFO [rank {rank}] probe: info on both")
    # Warnings: marked with their rank, also those of the warnings module.
    assert [line for line in console if "trouble" in line] == ["[rank 1] WARNING: trouble on one"]
    [old] = [line for line in console if "UserWarning" in line]
    assert old.startswith("[rank 1] WARNING: ")
    assert old.endswith("UserWarning: old thing on one")
    # Prints: rank 0's on the console, everybody's in their files, once each.
    assert console.count("printed by 0") == console.count("complained by 0") == 1
    assert "printed by 1" not in console
    assert "complained by 1" not in console
    for rank, file in enumerate(files):
        for text in (f"printed by {rank}", f"complained by {rank}", f"from C++ of {rank}"):
            assert file.splitlines().count(text) == 1
    assert not any("C++" in line for line in console)
    # Libraries: their handlers are gone, their info is for the file.
    for text in ("torch warns", "torch fails", "deepspeed warns"):
        said = sorted(line for line in console if text in line)
        assert [line[:8] for line in said] == ["[rank 0]", "[rank 1]"]
        assert all(file.count(text) == 1 for file in files)
    assert not any("deepspeed chats" in line for line in console)
    assert all(file.count("deepspeed chats") == 1 for file in files)


def test_a_print_reaches_the_console_in_one_piece(tmp_path: Path) -> None:
    probe = (
        "import sys\n"
        "from pathlib import Path\n"
        "from components.logger.rank_logs import RankLogs\n"
        "console = RankLogs(Path(sys.argv[2]), 0).console\n"
        "pieces = []\n"
        "put, console._put = console._put, lambda text: (pieces.append(text), put(text))\n"
        "print('one', 2)\n"
        "print('no end', end='')\n"
        "assert pieces == ['one 2\\n'], pieces\n"
        "sys.stdout.flush()\n"
        "assert pieces == ['one 2\\n', 'no end'], pieces\n"
    )
    assert run_ranks(tmp_path, probe, 0) == "one 2\nno end"


def test_a_console_that_closes_does_not_end_the_run(tmp_path: Path) -> None:
    probe = PROBE + "\nprint('still here')\nlog.info('and here')\n"
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen(
        [sys.executable, "-c", probe, "0", str(tmp_path)], stdout=write, stderr=subprocess.PIPE
    )
    os.close(write)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (0, b"")
    file = (tmp_path / "logs" / "rank-0.log").read_text()
    assert "still here" in file
    assert "probe: and here" in file


def test_a_crash_in_native_code_leaves_its_stack_in_the_file(tmp_path: Path) -> None:
    probe = PROBE + "\nos.abort()\n"
    process = subprocess.run(
        [sys.executable, "-c", probe, "1", str(tmp_path)], capture_output=True, check=False
    )
    assert process.returncode == -6
    assert "Fatal Python error: Aborted" in (tmp_path / "logs" / "rank-1.log").read_text()


def test_the_console_knows_its_terminal(tmp_path: Path) -> None:
    probe = (
        "import sys\n"
        "from pathlib import Path\n"
        "from components.logger.rank_logs import RankLogs\n"
        "console = RankLogs(Path(sys.argv[2]), 0).console\n"
        "console.write(f'{console.isatty()} {console.width} {sys.stdout.isatty()}\\n')\n"
    )
    assert run_ranks(tmp_path, probe, 0) == "False 80 False\n"
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 132, 0, 0))
    command = [sys.executable, "-c", probe, "0", str(tmp_path)]
    subprocess.run(command, stdout=follower, check=True)
    assert os.read(leader, 100) == b"True 132 False\r\n"
    os.close(leader)
    os.close(follower)


def test_restore_puts_everything_back(tmp_path: Path) -> None:
    probe = (
        "import logging, os, sys\n"
        "from pathlib import Path\n"
        "from components.logger.rank_logs import RankLogs\n"
        "log = logging.getLogger('lib')\n"
        "log.addHandler(logging.StreamHandler(sys.stdout))\n"
        "before = sys.stdout, sys.stderr, log.handlers[:], logging.root.handlers[:]\n"
        "open_fds = os.listdir('/proc/self/fd')\n"
        "logs = RankLogs(Path(sys.argv[2]), 0)\n"
        "log.warning('during')\n"
        "logs.restore()\n"
        "assert before == (sys.stdout, sys.stderr, log.handlers, logging.root.handlers)\n"
        "assert type(log) is logging.Logger\n"
        "assert open_fds == os.listdir('/proc/self/fd')\n"
        "log.warning('after')\n"
        "os.write(1, b'raw\\n')\n"
    )
    assert run_ranks(tmp_path, probe, 0) == "[rank 0] WARNING: during\nafter\nraw\n"
    assert "after" not in (tmp_path / "logs" / "rank-0.log").read_text()
