"""Runs that their devices have no room for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from components.errors import ConfigError
from train import memory_check, run_plan
from train.command_line import compose_jobs, parse
from train.preflight import preflight
from train.run_plan import Plan

NANO = ("cluster.device=cpu", "cluster.nproc_per_node=2", "logger=none")
"""gpt_nano, 16 samples on each of two ranks: 65.9 MB with ddp, of which 59.5 MB activations."""


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What a rank has, in bytes: to be set."""
    there = {"bytes": 0.0}
    monkeypatch.setattr(memory_check, "rank_memory", lambda device, ranks: int(there["bytes"]))
    return there


def planned(folder: Path, *words: str) -> Plan:
    (job,) = compose_jobs(parse([*NANO, *words]))
    return preflight(job.config, None, folder)


def test_a_refusal_has_the_numbers_and_what_it_proposes_fits(
    tmp_path: Path, memory: dict[str, float]
) -> None:
    memory["bytes"] = 42e6
    with pytest.raises(ConfigError) as refusal:
        planned(tmp_path, "parallel=ddp")
    said = str(refusal.value)
    assert said.startswith("parallel=ddp precision=fp32 micro_batch_size=16: a rank will hold 65.9")
    assert "each of 2 ranks of the machine has 42 MB" in said
    assert "activations 59.5 MB" in said
    proposed = re.search(r"Nearest that fit: (.*?)\. memory_check", said)
    assert proposed is not None
    for cell in proposed[1].split("; "):
        words, size = re.fullmatch(r"(.*) \(([\d.]+) MB\)", cell).groups()  # type: ignore[union-attr]
        found = planned(tmp_path, "parallel=ddp", *words.split()).forecast
        assert found is not None
        assert found.fits
        assert not found.close
        assert found.total == pytest.approx(float(size) * 1e6, rel=0.01)
    # Half of the samples hold half of the activations: the least change comes first.
    assert proposed[1].startswith("micro_batch_size=8 accumulation=2 (")


def test_the_global_batch_stays(tmp_path: Path, memory: dict[str, float]) -> None:
    memory["bytes"] = 44e6
    with pytest.raises(ConfigError, match=r"micro_batch_size=8 accumulation=6 \("):
        planned(tmp_path, "parallel=ddp", "global_batch_size=96", "accumulation=1")


def test_what_is_proposed_leaves_room_where_anything_does(
    tmp_path: Path, memory: dict[str, float]
) -> None:
    memory["bytes"] = 40e6  # 8 samples hold 36.2 MB, 4 hold 22.9 MB
    with pytest.raises(ConfigError, match=r"Nearest that fit: micro_batch_size=4 accumulation=4 "):
        planned(tmp_path, "parallel=ddp")
    # One sample holds 12.9 MB, and nothing smaller is left to try of its kind.
    memory["bytes"] = 13.2e6
    with pytest.raises(ConfigError, match=r"Nearest that fit: micro_batch_size=1 accumulation=16 "):
        planned(tmp_path, "parallel=ddp")


def test_where_nothing_fits_that_is_said(tmp_path: Path, memory: dict[str, float]) -> None:
    memory["bytes"] = 1e6
    with pytest.raises(ConfigError, match="No strategy here fits it"):
        planned(tmp_path)


def test_a_close_one_warns(tmp_path: Path, memory: dict[str, float]) -> None:
    memory["bytes"] = 70e6
    (warning,) = planned(tmp_path, "parallel=ddp").warnings()
    assert "close to" in warning
    assert "65.9 MB of 70 MB" in warning
    memory["bytes"] = 80e6
    assert planned(tmp_path, "parallel=ddp").warnings() == []


def test_what_others_hold_is_warned_of(
    tmp_path: Path, memory: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory["bytes"] = 1e9
    monkeypatch.setattr(run_plan, "free_host_memory", lambda: 131_000_000)
    (warning,) = planned(tmp_path, "parallel=ddp").warnings()  # two ranks of 65.9 MB
    assert "the ranks here will hold up to 132 MB" in warning
    assert "131 MB are free now" in warning
    monkeypatch.setattr(run_plan, "free_host_memory", lambda: 133_000_000)
    assert planned(tmp_path, "parallel=ddp").warnings() == []


def test_it_can_be_tried_all_the_same(tmp_path: Path, memory: dict[str, float]) -> None:
    memory["bytes"] = 40e6
    (warning,) = planned(tmp_path, "memory_check=warn").warnings()
    assert "more than what there is" in warning
    assert planned(tmp_path, "memory_check=null").forecast is None


def test_data_that_do_not_say_what_they_are_like_are_not_read_for_it(tmp_path: Path) -> None:
    words = ("data=digits", "model=mlp", "data._target_=tests.train.test_memory_check.Mute")
    plan = planned(tmp_path, *words)
    assert plan.forecast is None
    assert "does not say before it is prepared" in plan.unforeseen
    assert any(line.startswith("memory      not known") for line in plan.lines())


def _mute() -> type:
    from components.data.digits import Digits

    class Mute(Digits):
        def example(self) -> None:
            return None

        def prepare(self) -> None:
            raise AssertionError("data are prepared by ranks")

    return Mute


Mute = _mute()
