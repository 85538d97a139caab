"""A sweep runs the configs that it checked, and tells how its jobs ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from train import status, sweep
from train.command_line import Job


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "_jobs", [])
    monkeypatch.setattr(sweep, "_composed", {})


def _job(number: int | None, seed: int) -> Job:
    config = OmegaConf.create({"seed": seed})
    return Job([f"seed={seed}"], config, Path("unused"), config, number)


def test_a_job_runs_what_was_checked_even_if_a_file_has_changed_since() -> None:
    sweep.keep([_job(0, 5), _job(1, 6)])
    edited = OmegaConf.create({"seed": 99})
    assert sweep.kept(1, edited).seed == 6
    assert sweep.kept(None, edited).seed == 99
    assert sweep.kept(7, edited).seed == 99


def test_the_end_names_every_job_that_did_not_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, end in (("0", "completed"), ("1", "failed"), ("2", "refused")):
        folder = tmp_path / name
        status.claim(folder)
        status.finish(folder, end, {"cause": f"because {name}\nmore"}, attempt=1)  # type: ignore[arg-type]
        (folder / ".hydra").mkdir()
        (folder / ".hydra" / "overrides.yaml").write_text(f"- seed={name}\n")
        sweep.started(folder, int(name))
    (tmp_path / "0" / "summary.json").write_text('{"last": {"val/loss": 2.5}}')
    assert sweep.tell() == 1
    told = capsys.readouterr().err
    assert "1 of 3 jobs completed" in told
    assert f"failed: {tmp_path / '1'}: because 1\n" in told
    assert f"refused: {tmp_path / '2'}: because 2\n" in told
    assert f"{tmp_path / '0'}" not in told
    assert "  0: val/loss 2.5\n" in told
