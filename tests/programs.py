"""Small programs, each in an interpreter of its own, whose signals and end are seen there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys


def run_program(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code with the project at hand, to its end."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        # A shell that starts tests in the background has it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
