"""`python -m train.compare`: what it prints, what it writes and where, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.train.compare.synthetic import write_run
from train.compare import write
from train.compare.__main__ import main


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """outputs/day/sweep with two runs, seen from the folder that holds outputs/."""
    monkeypatch.chdir(tmp_path)
    folder = Path("outputs/day/sweep")
    write_run(folder / "0_single", parallel="single", world_size=1)
    write_run(folder / "1_ddp")
    return folder


def test_a_sweep_s_files_go_into_its_folder(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(sweep)]) == 0
    told = capsys.readouterr().out
    assert "2 of 2 runs completed; reference: single" in told
    assert f"{sweep}/results.csv" in told
    assert f"{sweep}/report.html" in told
    assert (sweep / "results.csv").read_text().count("\n") == 3
    assert (sweep / "report.html").stat().st_size > 0


def test_other_runs_get_a_folder_of_their_own(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(sweep / "0_single"), str(sweep / "1_ddp")]) == 0
    (folder,) = Path("outputs").glob("compare-*")
    assert f"{folder}/results.csv" in capsys.readouterr().out
    assert {path.name for path in folder.iterdir()} == {"results.csv", "report.html"}
    assert not (sweep / "0_single" / "results.csv").exists()


def test_out_says_where(sweep: Path) -> None:
    assert main([str(sweep), "--out", "mine/new"]) == 0
    assert Path("mine/new/results.csv").exists()
    assert not (sweep / "results.csv").exists()


def test_a_reference_may_be_chosen(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(sweep), "--reference", "1_ddp"]) == 0
    assert "reference: ddp" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["outputs/day/swep"], "outputs/day/swep: there is no such folder. Did you mean sweep?"),
        (["outputs", "--reference", "zero"], "--reference zero: no row is called so."),
    ],
)
def test_a_mistake_is_one_message(
    sweep: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"refused: {told}")
    assert captured.out == ""


def test_a_place_that_cannot_be_written_is_told_after_the_table(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("taken").write_text("a file")
    assert main([str(sweep), "--out", "taken"]) == 1
    captured = capsys.readouterr()
    assert "2 of 2 runs completed" in captured.out
    assert captured.err.startswith("taken cannot be written: ")
    assert "--out" in captured.err


def test_the_end_of_a_sweep_writes_the_same(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = sorted(path.parent for path in sweep.glob("*/status.json"))
    write_run(sweep / "others", seed=7)
    write(sweep, [*runs, sweep / "not-started"])
    assert "2 of 2 runs completed" in capsys.readouterr().out
    assert len((sweep / "results.csv").read_text().splitlines()) == 3
    assert (sweep / "report.html").exists()


def test_nothing_of_a_training_is_loaded(sweep: Path) -> None:
    code = (
        "import sys; from train.compare.__main__ import main; code = main(sys.argv[1:]); "
        "heavy = {'torch', 'wandb', 'pandas', 'numpy', 'deepspeed', 'hydra'} & {*sys.modules}; "
        "print(*heavy, end='', file=sys.stderr); sys.exit(code)"
    )
    root = Path(__file__).resolve().parents[3]
    ended = subprocess.run(
        [sys.executable, "-c", code, str(sweep)],
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "\x1b" not in ended.stdout
