"""The command of a sweep, before its jobs start."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from components.errors import ConfigError
from train.sweep import command
from train.sweep.journal import Journal
from train.sweep.options import SweepOptions
from train.sweep.present import Sweep


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    journal = Journal(tmp_path / "file" / "sweep", [], [])
    with pytest.raises(ConfigError, match=r"file/sweep.* cannot be written \(Not a directory\)"):
        command.run(Sweep(cast(Any, None), SweepOptions(), journal, []))
