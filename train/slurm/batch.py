"""`python -m train.slurm.batch PLACE`, in a job's batch script: its run's step, and what follows.

Starts one controller a node, hands Slurm's warning on to them, and puts the job back into the queue
where that makes sense. Reads no config, and imports neither torch nor Hydra's configs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from train import status
from train.slurm import ends, queue
from train.slurm.queue import Unanswered
from train.slurm.stuck import stuck
from train.slurm.submission import Submission, read

INDEX = "SLURM_ARRAY_TASK_ID"

FAILED = 1

CANCEL_S = 2.0
"""How much later than its steps the batch script may learn that the job is cancelled."""

TAKEN_OUT_S = 120.0
"""How long Slurm may take to end a job that goes back into the queue."""


@dataclass
class Batch:
    """The job of one run.

    Attributes:
        index: the run's among those of the submission.
        ending: whether Slurm has told this script to end: there is no time left, or nobody wants
            more of it.
    """

    submission: Submission
    index: int
    ending: bool = False

    def run(self) -> int:
        """Run the step; the exit code of the job."""
        folder = self.submission.folder(self.index)
        before = status.read(folder)
        if self._give_up(folder):
            return FAILED
        code = self._step()
        if not ends.told(folder, before.get("ended")):
            return code or FAILED
        state = status.read(folder)["status"]
        if state == "preempted" and self._wanted() and not self._give_up(folder):
            self._again()
        return code

    def _step(self) -> int:
        """One task a node, each the controller of its ranks; the worst exit code of them."""
        place, nodes = str(self.submission.place), str(self.submission.nodes)
        words = ["srun", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
        # Controllers notice by themselves when another is gone, and close their books; a controller
        # that is bound to one core would bind its ranks to it.
        words += ["--kill-on-bad-exit=0", "--cpu-bind=none", "--input=none"]
        words += [sys.executable, "-m", "train.slurm.node", place, str(self.index)]
        started: list[subprocess.Popen[bytes]] = []
        warned: list[int] = []

        def warn(signum: int, frame: object) -> None:
            warned.append(signum)
            for step in started:
                step.send_signal(signum)

        signal.signal(signal.SIGUSR1, warn)
        signal.signal(signal.SIGTERM, self._end)
        step = subprocess.Popen(words)
        started.append(step)
        if warned:  # while srun was being started
            step.send_signal(warned[0])
        return abs(step.wait())

    def _end(self, signum: int, frame: object) -> None:
        self.ending = True

    def _wanted(self) -> bool:
        """Whether the job is to go back into the queue."""
        if not self.submission.requeue:
            return False
        time.sleep(CANCEL_S)
        element = self.submission.element(self.index)
        try:
            now = queue.standings([self.submission.job or ""]).get(element)
        except Unanswered:
            now = None
        return not self.ending and (now is None or now.state in ("RUNNING", "COMPLETING"))

    def _again(self) -> None:
        """Back into the queue. Slurm ends this process then."""
        print("warned, and saved: the job goes back into the queue", flush=True)
        try:
            queue.requeue(os.environ["SLURM_JOB_ID"])
        except Unanswered as error:
            print(f"the job does not go back into the queue: {error}", flush=True)
            return
        time.sleep(TAKEN_OUT_S)

    def _give_up(self, folder: Path) -> bool:
        """Whether attempts have come to nothing too often, which is made the run's end."""
        words = stuck(status.read(folder), self.submission.runs[self.index].attempts)
        if words is not None:
            print(words, flush=True)
            ends.give_up(folder, words)
        return words is not None


def main(argv: Sequence[str]) -> int:
    """The job's exit code: that of its run."""
    place = Path(argv[0])
    submission = read(place)
    index = int(os.environ.get(INDEX, "0")) if submission.array else 0
    return Batch(submission, index).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
