"""A quick check by the ranks of a run, before they train."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Any

import torch

from components.cluster.cluster import Cluster
from components.cluster.control import Control
from components.cluster.joined import Joined
from components.cluster.ranks import Ranks
from train.files import write_json

log = logging.getLogger(__name__)

FILE = "check.json"
"""In the run's folder."""


def check_ranks(folder: Path, cluster: Cluster, ranks: Ranks, gang: Joined) -> None:
    """Measure a little of what `python -m train.check` does, show it and record it. Collective.

    Leaves no trace in what follows: random states are set afterwards, and the peak of a GPU's
    memory is counted anew.
    """
    # Only a run that asks for it pays for the imports.
    from train.check.limits import BEFORE_RUN
    from train.check.machine import describe
    from train.check.rank import measure
    from train.check.report import make_report
    from train.check.table import print_report

    started = time.monotonic()
    found = describe(ranks, gang.rank // gang.local_world_size)
    control = Control(ranks, cluster.timeout_s)
    found |= measure(control, ranks, BEFORE_RUN, lambda stage: log.debug("check: %s", stage))
    results = control.gather(found)
    if ranks.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(ranks.device)
    if not ranks.main:
        return
    what: dict[str, Any] = {
        "nnodes": gang.nnodes,
        "nproc_per_node": gang.local_world_size,
        "world_size": gang.world_size,
        "device": ranks.device.type,
        "backend": cluster.backend_name(),
    }
    report = make_report(what, results)
    report |= {"quick": True, "seconds": time.monotonic() - started}
    print_report(report, sys.stdout)
    write_json(folder / FILE, report)
    log.info("cluster.check took %.1f s; all numbers: %s", report["seconds"], FILE)
