"""The command as it is typed."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import pytest

from tests.train.plan.asked import cells, planned
from train.plan.command import main

NANO = ["cluster.device=a100_80gb", "cluster.nproc_per_node=2", "optimizer.fused=false"]


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(list(words))
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_one_cell_and_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, text = told(capsys, *NANO, "parallel=zero3", "precision=bf16", "plan.json=plan.json")
    assert code == 0, text
    assert "parallel=zero3 precision=bf16, 2 ranks (1 x 2), A100 80 GB" in text
    assert "79.9" in text or "80 GB left of 80 GB" in text
    plan = json.loads((tmp_path / "plan.json").read_text())
    wanted = {"params", "grads", "master", "optimizer", "strategy_buffers", "activations"}
    assert {*wanted, "total_peak"} <= {*plan["per_rank"]}
    assert all(isinstance(size, int) for size in plan["per_rank"].values())
    assert plan["step_time_s"] > 0
    assert plan["per_rank"]["total_peak"] == sum(plan["at_peak"].values())
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]  # no run, no folder


def test_the_page_is_written_for_one_cell_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, text = told(capsys, *NANO, "parallel=fsdp", "plan.page=plan.html")
    assert code == 0, text
    assert "page: plan.html" in text
    assert "parallel=fsdp plan.page=plan.html</code>" in (tmp_path / "plan.html").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["plan.html"]


def test_cells_are_told_apart_by_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-m", *NANO, "parallel=ddp", "cluster.nnodes=1,2", "model.layers=1,2"]
    code, text = told(capsys, *words, "global_batch_size=8")
    assert code == 0, text
    assert "ddp fp32 model.layers=1" in text
    assert re.search(r"take        parallel=ddp precision=fp32 model\.layers=1, 4 ranks", text)
    assert " to " in text.splitlines()[0]  # two models


def test_several_cells_and_the_one_to_take(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = told(capsys, "-m", *NANO, "parallel=ddp,single", "precision=fp32,bf16")
    assert code == 0
    assert "ddp fp32" in text
    assert "ddp bf16" in text
    assert "take        parallel=ddp" in text
    assert "refused     parallel=single" in text  # one process, two ranks
    assert "lives in one process" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cluster.device=a100_80g"], "cluster.device=a100_80g: no such device. Did you mean"),
        (["cluster.device=a100_80gb,h100_80gb"], "several devices are compared with -m"),
        (["-m", "cluster.device=a100_80gb,"], "the value does not parse"),
        (["-m", "cluster.device=a100_80gb,nope"], "cluster.device=nope: no such device"),
        (["plan.al=true"], "plan.al=true: the plan has no such word"),
        (["plan.all=yes"], "plan.all=yes must be true or false"),
        (["plan.json=/nowhere/plan.json"], "plan.json=/nowhere/plan.json: no file can be written"),
        (["plan.page=/nowhere/plan.html"], "plan.page=/nowhere/plan.html: no file can be written"),
        (["plan.json=/dev/null"], "plan.json=/dev/null: no file can be written"),
        (["plan.json="], "plan.json= must name a file"),
        (["plan.json=a", "plan.page=./a"], "plan.json=a plan.page=a: one file for both"),
        (["-m", "cluster.device=glob(*)"], "names no device"),
        (["cluster.device=../device/a100_80gb"], "no such device"),
        ([*NANO, "cluster.nproc_per_node=0"], "cluster.nproc_per_node=0 must be above 0"),
        ([*NANO, "cluster.nnodes=0"], "cluster.nnodes=0 must be above 0"),
        ([*NANO, "cluster.nnodes=-1"], "cluster.nnodes=-1 must be above 0"),
        (["model=parameters", "model.count=0"], "must be a whole number of parameters"),
        (["model=parameters", "model.count=1e9", "parallel=pipeline"], "has none. Take a model"),
        (["parallel=pipeline", *NANO, "cluster.nproc_per_node=8"], "each stage needs at least one"),
        (["global_batch_size=3", *NANO], "global_batch_size=3 does not divide"),
        (["--cfg", "job"], "and not --cfg"),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    code, text = told(capsys, *words)
    assert code == 2
    assert message in text


def test_help_needs_no_torch(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "--help")[0] == 0


def test_nodes_need_no_place_to_meet() -> None:
    plan = planned(*NANO, "cluster.nnodes=4", "parallel=ddp")
    assert plan.cell["world_size"] == 8
    assert plan.cell["nodes"] == 4


def test_a_default_batch_that_does_not_divide_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned("cluster.device=h100_80gb", "cluster.nnodes=128", "parallel=fsdp")
    assert plan.cell["world_size"] == 1024
    assert plan.sizes is not None
    assert plan.sizes["micro_batch_size"] == 1
    assert any("does not divide over 1,024 ranks" in note for note in plan.notes)


def test_a_node_has_as_many_devices_as_is_usual() -> None:
    assert planned("cluster.device=rtx_4090_24gb", "parallel=ddp").cell["per_node"] == 4


def test_several_devices_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    several = "cluster.device=choice(a100_80gb,rtx_4090_24gb)"  # as Hydra has it too
    words = ("-m", several, "parallel=ddp,fsdp", "precision=bf16")
    found = cells(*words)
    places = [(cell.overrides[0], cell.plan.cell["device"]) for cell in found if cell.plan]
    a100 = ("cluster.device=a100_80gb", "A100 80 GB")
    rtx = ("cluster.device=rtx_4090_24gb", "RTX 4090 24 GB")
    assert places == [a100, a100, rtx, rtx]
    assert [cell.plan.device_bytes for cell in found if cell.plan] == 2 * [80e9] + 2 * [24e9]
    assert [cell.plan.cell["per_node"] for cell in found if cell.plan] == 2 * [8] + 2 * [4]
    text = told(capsys, *words)[1]
    assert "parameters, A100 80 GB, RTX 4090 24 GB" in text
    assert "cluster.device=a100_80gb, 8 ranks: the fastest" in text


def test_a_device_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "device").mkdir()
    (tmp_path / "device" / "toy.yaml").write_text(
        "defaults: [v100_32gb]\nname: toy\nmemory_bytes: 1e6\n"
    )
    plan = planned(f"--config-dir={tmp_path}", "cluster.device=toy", "parallel=ddp")
    assert plan.device_bytes == 1_000_000
    assert plan.headroom is not None
    assert plan.headroom < 0
    assert plan.largest_micro_batch == 0


def test_a_type_without_units_has_no_time() -> None:
    plan = planned("cluster.device=v100_32gb", "parallel=ddp", "precision=bf16")
    assert plan.step_time_s is None
    assert any("no units for bfloat16" in note for note in plan.notes)


def test_all_is_every_strategy_in_every_precision() -> None:
    found = cells("plan.all=true", "cluster.device=a100_80gb", "cluster.nproc_per_node=2")
    names = {cell.overrides[-2:] for cell in found}
    assert len(names) == len(found) == 9 * 3
    assert sum(cell.best for cell in found) == 1


def test_one_number_of_nodes_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster.nnodes=1:2"]) == 2
    assert "cluster.nnodes=1,2" in capsys.readouterr().err


def test_a_full_disk_is_told_and_left_no_fuller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    path = tmp_path / "plan.json"
    assert main([*NANO, "parallel=ddp", f"plan.json={path}"]) == 2
    assert f"plan.json={path} could not be written: No space left" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
