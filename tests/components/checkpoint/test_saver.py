"""When a run is saved, what is kept, and what a failure to save leaves."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from components.checkpoint import folders, storage
from components.checkpoint.saver import Saver
from components.checkpoint.snapshot import SaveFailed, Snapshot, load_plain
from components.errors import ConfigError
from tests.components.checkpoint.made import control, saved, snapshot


def saver(folder: Path, **options: Any) -> Saver:
    values: dict[str, Any] = {
        "every_steps": 4,
        "every_minutes": None,
        "keep_last": 1,
        "keep_best": 0,
        "best_metric": "val/loss",
        "lowest": True,
        "background": False,
        "may_commit": lambda: None,
    }
    return Saver(folder, control(), **{**values, **options})


def steps(folder: Path) -> list[int]:
    return [folders.step_of(path) or 0 for path in reversed(folders.found(folder))]


def run(one: Saver, losses: dict[int, float], last: int = 12) -> None:
    """The end of each step of a run that is evaluated where `losses` says."""
    for step in range(1, last + 1):
        metrics = {"val/loss": losses[step]} if step in losses else {}
        if one.due(step, metrics):
            one.save(lambda at=step: snapshot(at), step, metrics)
    one.wait()


def test_by_steps(tmp_path: Path) -> None:
    one = saver(tmp_path)
    assert [step for step in range(1, 13) if one.due(step, {})] == [4, 8, 12]
    assert not any(saver(tmp_path, every_steps=None).due(step, {}) for step in range(1, 13))
    assert not any(saver(tmp_path, keep_last=0).due(step, {}) for step in range(1, 13))


def test_by_the_clock(tmp_path: Path) -> None:
    assert not saver(tmp_path).time_is_up
    assert not saver(tmp_path, every_minutes=60.0).time_is_up
    assert saver(tmp_path, every_minutes=1e-9).time_is_up


@pytest.mark.parametrize(
    ("lowest", "kept"),
    # At 12: the newest; of 5 3 4 2 9 the two lowest are at 4 and 8, the two highest at 10 and 2.
    [(True, [4, 8, 12]), (False, [2, 10, 12])],
)
def test_the_best_are_kept(tmp_path: Path, lowest: bool, kept: list[int]) -> None:
    one = saver(tmp_path, every_steps=12, keep_best=2, lowest=lowest)
    run(one, {2: 5.0, 4: 3.0, 6: 4.0, 8: 2.0, 10: 9.0})
    assert steps(tmp_path) == kept


def test_of_equals_the_earlier_is_the_better(tmp_path: Path) -> None:
    one = saver(tmp_path, every_steps=12, keep_best=1)
    run(one, {2: 3.0, 4: 3.0})
    assert one.best == [(3.0, 2)]
    assert steps(tmp_path) == [2, 12]


def test_a_metric_that_no_evaluation_has(tmp_path: Path) -> None:
    one = saver(tmp_path, keep_best=1, best_metric="val/f1")
    assert not one.due(1, {})
    with pytest.raises(ConfigError, match=r"checkpoint\.best_metric=val/f1 .*: val/loss"):
        one.due(2, {"val/loss": 1.0})


def test_the_same_step_is_saved_once(tmp_path: Path) -> None:
    one = saver(tmp_path)
    made: list[int] = []

    def make() -> Snapshot:
        made.append(1)
        return snapshot(4)

    one.save(make, 4, {})
    one.save(make, 4, {})
    assert len(made) == 1
    saver(tmp_path / "none", keep_last=0).save(make, 4, {})
    assert len(made) == 1


def test_beside_training_the_moment_is_saved(tmp_path: Path, monkeypatch: Any) -> None:
    """What training changes while the writer waits does not get into the checkpoint."""
    go_on = threading.Event()
    write = storage.write

    def slow(*args: Any) -> None:
        assert go_on.wait(10)
        write(*args)

    monkeypatch.setattr(storage, "write", slow)
    one = saver(tmp_path, background=True)
    live = snapshot(4)
    one.save(lambda: live, 4, {})
    live.weights["weight"].boxes[0].elements.fill_(-1.0)
    live.training["loop"]["evaluations"].append(2.0)
    go_on.set()
    one.wait()
    checkpoint = folders.place_of(tmp_path, 4)
    assert load_plain(checkpoint / "training.pt")["loop"]["evaluations"] == [3.0]
    back = snapshot(0).weights
    storage.read({"model.weight": back["weight"]}, checkpoint)
    assert back["weight"].boxes[0].elements.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("background", [False, True])
def test_a_full_disk(tmp_path: Path, monkeypatch: Any, background: bool) -> None:
    one = saver(tmp_path, background=background)
    run(one, {}, 4)

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("components.checkpoint.snapshot._save_plain", full)
    with pytest.raises(SaveFailed) as failed:
        run(one, {}, 8)
    for word in ("step 8", "rank 0: No space left on device", "Make room", f"resume={tmp_path}"):
        assert word in str(failed.value)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000004"]


def test_a_disk_that_is_full_for_torch(tmp_path: Path, monkeypatch: Any) -> None:
    """What torch raises then is no `Exception`."""

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(storage.FileSystemWriter, "write_data", full)
    with pytest.raises(SaveFailed, match="No space left on device"):
        saved(tmp_path)
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_an_attempt_that_is_over_does_not_commit(tmp_path: Path) -> None:
    def over() -> None:
        raise RuntimeError("attempt 2 has begun")

    with pytest.raises(SaveFailed, match="attempt 2 has begun"):
        saved(tmp_path, may_commit=over)
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("")
    with pytest.raises(SaveFailed, match=r"rank 0: (Not a directory|File exists)"):
        saved(tmp_path)
