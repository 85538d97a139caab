"""A W&B run that holds files and no steps: the report of a sweep."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.logger.base import RunInfo
from components.logger.wandb import WandbLogger

if TYPE_CHECKING:
    from wandb import Run

JOB_TYPE = "report"


class WandbReport(WandbLogger):
    """Sends files when it is finished.

    Args:
        files: those that are sent.
        options: as of `WandbLogger`.
    """

    def __init__(self, files: Sequence[Path], **options: Any) -> None:
        super().__init__(**options)
        self.files = list(files)

    def start(self, info: RunInfo) -> None:
        # One report is enough, and `wandb sync` of an earlier one could come later than this.
        for old in info.folder.glob(f"wandb/offline-run-*-{info.run_id}"):
            shutil.rmtree(old, ignore_errors=True)
        super().start(info)

    def _about(self, info: RunInfo) -> dict[str, Any]:
        return {"job_type": JOB_TYPE, "tags": [*self.tags, JOB_TYPE], "config": info.config}

    def _end(self, run: Run, status: str, summary: dict[str, Any]) -> None:
        for file in self.files:
            # A copy: W&B would link to the file, and a link breaks when the sweep is moved.
            kept = shutil.copy(file, run.dir)
            run.save(kept, base_path=run.dir, policy="now")
        super()._end(run, status, summary)
