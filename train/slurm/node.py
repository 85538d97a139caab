"""`python -m train.slurm.node PLACE INDEX`: the task of a step on one node, which starts its ranks.

Node 0 leads the run in the folder where its config is; the others take part.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from components.cluster.answering import leave
from components.cluster.gang import start_server
from components.cluster.preemption import PREEMPTED, Notice
from components.cluster.signals import Interrupted, raise_interrupts
from components.errors import ConfigError
from components.logger.stream import unfailing_streams
from train import status
from train.preload import preload
from train.slurm import ends, placed
from train.slurm.submission import read
from train.sweep import job
from train.sweep.cells import refuse_taken

FAILED, REFUSED = 1, 2

HELD_S = 180.0
"""How long the lock of an attempt that was on a lost node is waited for: a file server's lease."""

ASK_S = 1.0


def main(argv: Sequence[str]) -> int:
    """The exit code of the run, on each of its nodes."""
    unfailing_streams()
    raise_interrupts()
    submission, index = read(Path(argv[0])), int(argv[1])
    sys.orig_argv = submission.command
    folder = submission.folder(index)
    leads, before = True, status.read(folder).get("ended")
    try:
        try:
            config = placed.read(folder)
            leads = OmegaConf.select(config, "cluster.node_rank", default=0) == 0
            start_server(preload(config))
            return _lead(folder, config) if leads else _follow(folder, config)
        except ConfigError as refusal:
            if leads:
                job.record(folder, "refused", str(refusal))
            print(f"refused: {refusal}", file=sys.stderr, flush=True)
            return REFUSED
    except Interrupted as stop:
        print(f"{stop}", file=sys.stderr, flush=True)
        if leads and not ends.told(folder, before):
            ends.record(folder, "preempted", f"{stop} before the run began")
        return PREEMPTED if stop.warning else stop.exit_code


def _lead(folder: Path, config: DictConfig) -> int:
    deadline = time.monotonic() + HELD_S
    while taken := _taken(folder):
        if time.monotonic() > deadline:
            print(taken, file=sys.stderr, flush=True)
            return FAILED
        time.sleep(ASK_S)
    return job.run(config, folder, Notice())


def _taken(folder: Path) -> str | None:
    try:
        refuse_taken(folder.absolute())
    except ConfigError as taken:
        return str(taken)
    return None


def _follow(folder: Path, config: DictConfig) -> int:
    from train import resume
    from train.follow import follow_node
    from train.preflight import preflight

    return follow_node(resume.onto(preflight(config, None, folder), None))


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
