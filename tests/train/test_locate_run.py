"""What may stand behind `resume=`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.errors import ConfigError
from train.locate_run import Located, locate


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(name: str, **state: str) -> Path:
    """A run's folder under outputs/ with one checkpoint."""
    folder = Path("outputs") / name
    (folder / "checkpoints" / "step-000004").mkdir(parents=True)
    (folder / "status.json").write_text(json.dumps(state) if state else "")
    return folder


def test_a_run_and_a_checkpoint() -> None:
    folder = run("a", status="failed")
    for text in ("outputs/a", "outputs/a/", "outputs/../outputs/a", "outputs/a/checkpoints"):
        assert locate(text).folder.resolve() == folder.resolve()
        assert locate(text).checkpoint is None
    absolute = str(folder.resolve())
    assert locate(absolute) == Located(Path(absolute))
    for text in ("outputs/a/checkpoints/step-000004", "outputs/a/checkpoints/step-000004/"):
        checkpoint = folder / "checkpoints" / "step-000004"
        assert locate(text) == Located(folder, checkpoint)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("outputs/other", ["there is no such folder", "Give a run's folder"]),
        ("outputs/baselime", ["there is no such folder. Did you mean baseline?"]),
        ("lastest", ["there is no such folder. Did you mean latest?"]),
        ("outputs/a/status.json", ["is a file", "init_from=outputs/a/status.json"]),
        ("outputs", ["is no run's folder", "Name a run in it: a, baseline."]),
        ("outputs/a/checkpoints/step-000009", ["no such checkpoint", "has step-000004"]),
        ("outputs/b/checkpoints/step-000009", ["no such checkpoint", "has none"]),
    ],
)
def test_what_is_none(text: str, words: list[str]) -> None:
    run("a", status="failed")
    run("baseline", status="failed")
    with pytest.raises(ConfigError) as refused:
        locate(text)
    for word in (f"resume={text}", *words):
        assert word in str(refused.value)


def test_a_checkpoint_outside_a_run() -> None:
    Path("kept/checkpoints/step-000004").mkdir(parents=True)
    with pytest.raises(ConfigError, match="kept is no run's folder"):
        locate("kept/checkpoints/step-000004")


def test_the_latest_is_the_one_that_went_on_last() -> None:
    run("a", status="failed", started="2026-01-01", attempt_started="2026-01-04")
    run("b", status="preempted", started="2026-01-03")
    run("2026-01-05/x_sweep/0_c", status="refused", started="2026-01-05")
    run("claimed")  # a process that ended before it could say more
    assert locate("latest").folder == Path("outputs/a")
    run("2026-01-05/x_sweep/1_d", status="failed", started="2026-01-05")
    assert locate("latest").folder == Path("outputs/2026-01-05/x_sweep/1_d")


def test_no_latest() -> None:
    with pytest.raises(ConfigError, match="resume=latest: there is no run in"):
        locate("latest")
