"""What a run is called where others see it."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from train.files import write_json
from train.run_title import sweep_of, title


def run(folder: Path, *overrides: str) -> Path:
    (folder / ".hydra").mkdir(parents=True)
    OmegaConf.save(OmegaConf.create(list(overrides)), folder / ".hydra" / "overrides.yaml")
    return folder


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "multirun.yaml").write_text("")
    write_json(tmp_path / "s" / "sweep.json", {"shared": ["steps=9", "+model.depth=3"]})
    return tmp_path / "s"


def test_in_a_sweep_it_is_what_differs(sweep: Path) -> None:
    words = ("steps=9", "+model.depth=3", "parallel=fsdp", "precision=bf16", "optimizer.lr=0.01")
    job = run(sweep / "0_parallel-fsdp_precision-bf16_lr-0.01", *words)
    assert title(job) == "fsdp bf16 lr=0.01"
    assert sweep_of(job) == "s"


def test_a_job_without_overrides_of_its_own_goes_by_its_folder(sweep: Path) -> None:
    assert title(run(sweep / "0_default", "steps=9")) == "0_default"


def test_outside_a_sweep_it_is_short_and_without_the_time(tmp_path: Path) -> None:
    job = run(tmp_path / "12-00-00-123456_parallel-fsdp_lr-0.01", "parallel=fsdp", "steps=9")
    assert title(job) == "parallel-fsdp_lr-0.01"
    assert title(run(tmp_path / "mine", "parallel=fsdp")) == "mine"
    assert sweep_of(job) is None


def test_without_overrides_on_record_it_is_the_folder(tmp_path: Path) -> None:
    assert title(tmp_path) == tmp_path.name
