"""`parallel=auto`: the fastest that fits."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from components.errors import ConfigError
from train import auto
from train.command_line import compose_jobs, parse
from train.files import write_json
from train.preflight import preflight
from train.run_plan import Plan

WORDS = ("cluster.device=cpu", "cluster.nproc_per_node=2", "logger=none", "parallel=auto")


def planned(folder: Path, *words: str) -> Plan:
    auto._SETTLED.clear()
    (job,) = compose_jobs(parse([*WORDS, *words]))
    return preflight(job.config, None, folder)


def test_the_fastest_is_taken_and_the_others_are_told_of(tmp_path: Path) -> None:
    plan = planned(tmp_path, "parallel.among=[single,ddp,pipeline,zero3]")
    # Without links between them two ranks that compute half each are faster than a pipeline,
    # which idles half of the time; one process is none of two ranks.
    assert plan.parallel == "ddp"
    assert plan.config.parallel._target_ == "components.parallel.ddp.DDP"
    assert plan.choice is not None
    considered = {one["parallel"]: one for one in plan.choice.considered}
    assert list(considered) == ["single", "ddp", "pipeline", "zero3"]
    assert "lives in one process" in considered["single"]["refused"]
    assert considered["ddp"]["step_time_s"] < considered["zero3"]["step_time_s"]
    assert considered["ddp"]["step_time_s"] < considered["pipeline"]["step_time_s"]
    taken, others, refused = [line for line in plan.lines() if line.startswith("auto")]
    assert taken.startswith("auto        parallel=ddp 65.9 MB, ")
    assert "10%" in taken
    assert "times of assumed CPU cores, " in taken
    assert "others: pipeline 32.9 MB, " in others
    assert "; zero3 " in others
    assert "single cannot be here: parallel=single lives in one process, and " in refused


def test_what_does_not_fit_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # gpt_nano with 16 samples a rank: ddp holds 65.9 MB, a stage of the pipeline 32.5 MB.
    monkeypatch.setattr(auto, "rank_memory", lambda device, ranks: 50_000_000)
    words = ("parallel.among=[ddp,pipeline]",)
    plan = planned(tmp_path, *words)
    assert plan.parallel == "pipeline"
    monkeypatch.setattr(auto, "rank_memory", lambda device, ranks: 33_000_000)
    with pytest.raises(ConfigError, match=r"no strategy leaves parallel.margin=0.1 .*=pipeline"):
        planned(tmp_path, *words)
    assert planned(tmp_path, *words, "parallel.margin=0").parallel == "pipeline"


def test_the_micro_batch_that_would_fit_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto, "rank_memory", lambda device, ranks: 33_000_000)
    with pytest.raises(ConfigError, match=r"Take micro_batch_size=\d+ or less") as refusal:
        planned(tmp_path, "parallel.among=[ddp]")
    (most,) = re.findall(r"micro_batch_size=(\d+) or less", str(refusal.value))
    sizes = ("parallel.among=[ddp]", "global_batch_size=null")
    assert planned(tmp_path, *sizes, f"micro_batch_size={most}").parallel == "ddp"
    with pytest.raises(ConfigError, match="no strategy leaves"):
        planned(tmp_path, *sizes, f"micro_batch_size={int(most) + 1}")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("parallel.among=[]", "must name strategies"),
        ("parallel.among=[auto]", "must name strategies"),
        ("parallel.among=[dpp]", "dpp is no strategy of the project's own"),
        ("parallel.margin=1.5", "below 1"),
        ("parallel.device=tpu", "parallel.device=tpu: no such device"),
        ("parallel.device=cpu", "Known are auto, for this machine, and a100_40gb,"),
        ("parallel.device=nothing.json", "no file of a check"),
        ("parallel.among=[single]", "none of its strategies can be here"),
        ("parallel.among=[single]", "Name one, as in parallel=ddp"),
    ],
)
def test_refused(tmp_path: Path, word: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        planned(tmp_path, word)


def test_the_record_holds_it_as_plain_data(tmp_path: Path) -> None:
    plan = planned(tmp_path, "parallel.among=[ddp]")
    assert plan.choice is not None
    assert asdict(plan.choice)["parallel"] == "ddp"


def test_a_run_that_goes_on_keeps_what_was_chosen(tmp_path: Path) -> None:
    plan = planned(tmp_path, "parallel.among=[pipeline]")
    assert plan.choice is not None
    write_json(tmp_path / "provenance.json", {"auto": asdict(plan.choice)})
    again = planned(tmp_path, "parallel.among=[ddp,pipeline]", "parallel.device=gone.json")
    assert again.parallel == "pipeline"
    assert again.choice == replace(plan.choice, kept=True)
    told = [line for line in again.lines() if line.startswith("auto")]
    assert told == ["auto        parallel=pipeline, which was chosen when the run began"]
    # Where it may no longer be chosen, another is.
    assert planned(tmp_path, "parallel.among=[ddp]").parallel == "ddp"
    for word in ("parallel.among=[typo]", "parallel.device=nonsense"):
        with pytest.raises(ConfigError, match=word.partition("=")[0]):
            planned(tmp_path, word)


def test_ranks_that_share_a_core_have_less_of_it_each(tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    words = ("parallel.among=[ddp]", "global_batch_size=null", "micro_batch_size=1")
    plan = planned(tmp_path, f"cluster.nproc_per_node={2 * cores}", *words)
    assert plan.choice is not None
    assert plan.choice.times == "assumed CPU cores, 0.5 a rank"


def test_where_none_fits_the_least_can_be_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto, "rank_memory", lambda device, ranks: 1_000_000)
    plan = planned(tmp_path, "parallel.among=[ddp,pipeline]", "memory_check=warn")
    assert plan.parallel == "pipeline"
    assert plan.choice is not None
    assert "none leaves 10%" in plan.choice.reason
