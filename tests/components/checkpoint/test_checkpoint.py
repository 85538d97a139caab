"""A run's checkpoint options, and the folder that all ranks have to share."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.checkpoint.checkpoint import Checkpoint
from components.cluster.control import Control
from components.cluster.ranks import Ranks
from components.errors import ConfigError
from tests.gang import alone, run


def open_saver(ranks: Ranks, folders: list[Path], keep_last: int) -> str:
    """What the rank is told when it opens a saver in its own idea of the folder."""
    try:
        control = Control(ranks, 30.0)
        Checkpoint(keep_last=keep_last).saver(folders[ranks.rank], control, 30.0, lambda: None)
    except ConfigError as refusal:
        return str(refusal)
    return "shared"


def places(tmp_path: Path, *names: str) -> list[Path]:
    for name in {*names}:
        (tmp_path / name).mkdir()
    return [tmp_path / name for name in names]


def test_ranks_that_share_a_folder(tmp_path: Path) -> None:
    folders = places(tmp_path, "one", "one")
    assert run(open_saver, 2, folders, 1) == ["shared", "shared"]
    assert list(folders[0].iterdir()) == []


def test_nodes_without_a_shared_folder_are_refused_at_the_start(tmp_path: Path) -> None:
    said = run(open_saver, 2, places(tmp_path, "one", "two"), 1)
    assert all("rank 1 see under this name" in words for words in said)
    assert all("checkpoint=weights" in words for words in said)


def test_weights_alone_need_none(tmp_path: Path) -> None:
    assert run(open_saver, 2, places(tmp_path, "one", "two"), 0) == ["shared", "shared"]


def test_one_process_asks_nobody(tmp_path: Path) -> None:
    assert open_saver(alone(), [tmp_path], 1) == "shared"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"every_steps": 0}, "checkpoint.every_steps=0 must be above 0"),
        ({"every_minutes": -1.0}, "checkpoint.every_minutes=-1.0 must be above 0"),
        ({"keep_last": -1}, "checkpoint.keep_last=-1 must be 0 or more"),
        ({"keep_last": 0, "keep_best": 1}, "Take checkpoint.keep_last=1"),
        ({"best_metric": "loss"}, "checkpoint.best_metric=loss"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Checkpoint(**options)  # type: ignore[arg-type]
    assert said in str(refusal.value)
