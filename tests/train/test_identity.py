"""Which run a command means: by name, or by the scheduler's job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.errors import ConfigError
from train.identity import folder_of, requeued


@pytest.mark.parametrize(
    ("run_id", "environ", "expected"),
    [
        (None, {}, None),
        ("mine", {}, "outputs/mine"),
        ("0.1_b-2", {}, "outputs/0.1_b-2"),
        # The name wins over the scheduler's.
        ("mine", {"SLURM_JOB_ID": "7"}, "outputs/mine"),
        (None, {"SLURM_JOB_ID": "7"}, "outputs/slurm-7/short"),
        # Each element of an array has a SLURM_JOB_ID of its own, and another after a requeue may
        # not matter: array and task say which it is.
        (
            None,
            {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"},
            "outputs/slurm-7_2/short",
        ),
        (
            None,
            {"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "0"},
            "outputs/slurm-7_0/short",
        ),
        (None, {"SLURM_JOB_ID": ""}, None),
    ],
)
def test_the_folder(run_id: str | None, environ: dict[str, str], expected: str | None) -> None:
    found = folder_of(run_id, "short", environ)
    assert found == (None if expected is None else Path(expected))


@pytest.mark.parametrize("run_id", ["", ".", "..", "a/b", "/a", "-a", "a b", "a\n", "ü", "~a"])
def test_no_name_of_a_folder(run_id: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s)run_id=.* names a folder in outputs/"):
        folder_of(run_id, "short", {})


@pytest.mark.parametrize("run_id", [7, True, 1.5, ["a"]])
def test_what_is_no_text(run_id: Any) -> None:
    with pytest.raises(ConfigError, match="is no text"):
        folder_of(run_id, "short", {})


@pytest.mark.parametrize(
    ("environ", "expected"),
    [({}, False), ({"SLURM_RESTART_COUNT": "0"}, False), ({"SLURM_RESTART_COUNT": "2"}, True)],
)
def test_started_again(environ: dict[str, str], expected: bool) -> None:
    assert requeued(environ) is expected
