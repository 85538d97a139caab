"""A sweep's report for W&B, in the group of its runs."""

from __future__ import annotations

import sys
from typing import Any

from components.logger.base import RunInfo
from train.sweep.present import Sweep
from train.wandb_node import wandb_options

FILES = ("report.html", "results.csv", "best.json")
OPTIONS = ("mode", "project", "entity", "group", "init_timeout_s", "finish_timeout_s")


def send_report(sweep: Sweep, state: str) -> None:
    """Put the sweep's files into a W&B run, when a job of it has one too.

    Where that is, and how long it may take, is the jobs' own. It goes wrong at most in one line.

    Args:
        state: how the sweep ended.
    """
    nodes = [wandb_options(cell.job.config) for cell in sweep.cells]
    options = next((node for node in nodes if node and node.get("mode") != "disabled"), None)
    files = [sweep.folder / name for name in FILES if (sweep.folder / name).is_file()]
    if options is None or not files:
        return
    from components.logger.wandb_report import WandbReport

    try:
        sink = WandbReport(files, **{key: options[key] for key in OPTIONS if key in options})
        sink.start(_info(sweep))
        sink.finish(state, {})
        if any(sweep.folder.glob("wandb/offline-run-*")):
            runs = f"{sweep.folder}/wandb/offline-run-* {sweep.folder}/*/wandb/offline-run-*"
            print(f"for W&B:  wandb sync {runs}", flush=True)
    except Exception as error:  # whatever the client throws
        print(
            f"the report is not in W&B ({type(error).__name__}: {error}); it is in {sweep.folder}",
            file=sys.stderr,
        )


def _info(sweep: Sweep) -> RunInfo:
    config: dict[str, Any] = {"command": sweep.journal.words, "jobs": len(sweep.cells)}
    return RunInfo(
        folder=sweep.folder,
        run_id=sweep.journal.report_id,
        name=f"report of {sweep.folder.name}",
        config=config,
        cell={},
        group=sweep.folder.name,
        steps=0,
    )
