"""`python -m train.runs` shows what there is, the newest last."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from components.errors import ConfigError
from tests.train.compare.synthetic import curve, train_record, write_run
from train import lock
from train.files import read_json, write_json
from train.runs import listing, main

NOW = datetime(2026, 11, 29, 22, 38, 33, tzinfo=UTC)


def _started(folder: Path, time: str) -> Path:
    """A run that began at `time` (hours and minutes)."""
    state = read_json(folder / "status.json") | {"started": f"2026-11-29T{time}:33.000+00:00"}
    write_json(folder / "status.json", state)
    return folder


def _words(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines]


def test_a_run_s_line_says_how_it_stands(tmp_path: Path) -> None:
    write_run(tmp_path / "0_run", parallel="fsdp", precision="bf16")
    lines = listing(tmp_path, None, NOW)
    assert _words(lines) == [
        ["age", "status", "steps", "cell", "loss", "folder"],
        [str(tmp_path)],
        ["1", "h", "completed", "3/3", "fsdp", "bf16", "x2", "2.5000", "0_run"],
    ]
    assert lines[0].index("folder") == lines[2].index("0_run")


def test_running_and_crashed_are_told_apart(tmp_path: Path) -> None:
    going, gone = tmp_path / "a", tmp_path / "b"
    for folder in (going, gone):
        write_run(folder, status="running", config={"steps": 50}, records=curve([4.0, 3.0], {}))
    lock.take(going)
    try:
        lines = _words(listing(tmp_path, None, NOW))
    finally:
        lock.release(going)
    assert lines[2][2:] == ["running", "2/50", "ddp", "fp32", "x2", "(3.0000)", "a"]
    assert lines[3][2:] == ["crashed", "2/50", "ddp", "fp32", "x2", "(3.0000)", "b"]


def test_a_refused_job_has_a_line(tmp_path: Path) -> None:
    write_run(tmp_path / "a", precision="fp16", status="refused", error={"cause": "no"})
    assert _words(listing(tmp_path, None, NOW))[2] == ["1", "h", "refused", "ddp", "fp16", "a"]


def test_the_newest_is_last_and_a_sweep_stays_together(tmp_path: Path) -> None:
    for name, time in (("3_a", "20:10"), ("10_b", "20:30")):
        _started(write_run(tmp_path / "sweep" / name), time)
    (tmp_path / "sweep" / "multirun.yaml").touch()
    for name, time in (("c", "20:20"), ("d", "20:40"), ("b", "20:50")):
        _started(write_run(tmp_path / name), time)
    lines = [line.split()[-1] for line in listing(tmp_path, None, NOW)[1:]]
    one, sweep = str(tmp_path), str(tmp_path / "sweep")
    assert lines == [one, "c", sweep, "3_a", "10_b", one, "d", "b"]
    last = listing(tmp_path, 2, NOW)
    assert [line.split()[-1] for line in last[1:-1]] == [one, "d", "b"]
    assert last[-1] == "3 earlier runs left out: --all shows them"


@pytest.mark.parametrize(
    ("time", "age"),
    [("22:38", "0 s"), ("22:36", "2 min"), ("20:39", "1 h"), ("22:45", "0 s")],
)
def test_ages_have_one_unit(tmp_path: Path, time: str, age: str) -> None:
    _started(write_run(tmp_path / "run"), time)
    assert listing(tmp_path, None, NOW)[2].strip().startswith(f"{age} ")


def test_of_a_long_record_the_end_is_read(tmp_path: Path) -> None:
    records = [train_record(step, 1.0 + step / 1000) for step in range(1, 1001)]
    folder = write_run(tmp_path / "run", status="failed", error={"cause": "x"}, records=records)
    assert (folder / "metrics.jsonl").stat().st_size > 2 * 64 * 1024
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(train_record(1001, 9.0))[:-5])  # torn
    assert "(2.0000)" in _words(listing(tmp_path, None, NOW))[2]


def test_a_damaged_status_is_a_line_too(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "status.json").write_text("{")
    assert "damaged" in _words(listing(tmp_path, None, NOW))[2]


def test_where_no_run_was_made_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([]) == 2
    told = capsys.readouterr().err
    assert told == (
        f"refused: {tmp_path}/outputs does not exist: no run was started in this folder. "
        "Start one with python -m train, or give the folder that holds runs.\n"
    )
    (tmp_path / "outputs").mkdir()
    with pytest.raises(ConfigError, match="outputs holds no run"):
        listing(Path("outputs"), 20)


def test_by_default_it_lists_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(21):
        write_run(tmp_path / "outputs" / f"{number}_run")
    assert main([]) == 0
    assert "1 earlier run left out: --all shows them" in capsys.readouterr().out
    assert main(["--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 23


@pytest.mark.parametrize("number", ["0", "-3", "few"])
def test_less_than_one_run_is_a_mistake(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--last", number])
    assert ended.value.code == 2
    assert "--last" in capsys.readouterr().err
