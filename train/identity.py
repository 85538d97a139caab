"""Which run a command means, when it is given again: by name, or by a scheduler's job."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from components.errors import ConfigError

OUTPUTS = Path("outputs")
"""Where runs land, as in conf/hydra/default.yaml."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def folder_of(
    run_id: str | None, short_name: str, environ: Mapping[str, str] = os.environ
) -> Path | None:
    """The folder of a run that has an identity, the same in every attempt; None for any other.

    A Slurm job is one, each element of an array another; as one job may run several commands,
    the name made of their overrides is part of it.

    Args:
        run_id: of the config; wins over the scheduler's.
        short_name: of the command's overrides.

    Raises:
        ConfigError: for a `run_id` that cannot be a folder's name.
    """
    if run_id is not None:
        if not isinstance(run_id, str):
            raise ConfigError(
                f"run_id={run_id} is no text: it names a folder in outputs/. Let it begin with a "
                f"letter, as in run_id=run-1, or quote a number: \"run_id='1'\"."
            )
        if not NAME.fullmatch(run_id):
            raise ConfigError(
                f"run_id={run_id} names a folder in outputs/: it may hold letters, digits, `.`, "
                "`_` and `-`, and begins with a letter or digit."
            )
        return OUTPUTS / run_id
    job = environ.get("SLURM_ARRAY_JOB_ID") or environ.get("SLURM_JOB_ID")
    if not job:
        return None
    task = environ.get("SLURM_ARRAY_TASK_ID")
    return OUTPUTS / f"slurm-{job}{f'_{task}' if task else ''}" / short_name


def requeued(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a scheduler says that it has started this job before."""
    return environ.get("SLURM_RESTART_COUNT", "0").strip() not in ("", "0")
