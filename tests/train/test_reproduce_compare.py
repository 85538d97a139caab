"""Where two records first differ, by how much at most, and what that means."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from train.reproduce_compare import Spread, by_step, spreads
from train.reproduce_environment import after_start, before_start, bits_expected
from train.reproduce_verdict import judge

RANK = {"device": "cpu", "threads": 1, "deterministic_algorithms": False}
RECORD = ({"step": 1, "loss": 4.0}, {"step": 2, "loss": 2.0}, {"step": 2, "val/loss": 3.0})


def write_run(
    folder: Path,
    *records: dict[str, Any],
    state: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
    **provenance: Any,
) -> Path:
    """A run's folder, as far as it is compared."""
    folder.mkdir()
    lines = "".join(f"{json.dumps({'time': 0.0, **record})}\n" for record in records)
    (folder / "metrics.jsonl").write_text(lines)
    ended = {"status": "completed", "steps": 2, "error": None, **(state or {})}
    (folder / "status.json").write_text(json.dumps(ended))
    said = {"in_force": [RANK, RANK], "dtypes": {"compute": "float32"}, **provenance}
    (folder / "provenance.json").write_text(json.dumps(said))
    OmegaConf.save(OmegaConf.create({"steps": 2, **(config or {})}), folder / "config.yaml")
    return folder


def test_records_of_a_step_are_one_without_times(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", *RECORD)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "lo')  # torn by a kill
    assert by_step(folder) == {1: {"loss": 4.0}, 2: {"loss": 2.0, "val/loss": 3.0}}
    (folder / "metrics.jsonl").unlink()
    assert by_step(folder) == {}


def test_the_first_and_the_largest_difference_of_each_metric() -> None:
    then = {1: {"a": 1.0, "b": 2.0}, 2: {"a": 2.0, "b": 2.0}, 3: {"a": 4.0, "b": 8.0}}
    now = {1: {"a": 1.0, "b": 2.0}, 2: {"a": 1.0, "b": 2.0}, 3: {"a": 5.0, "b": 6.0}}
    # |2 - 1| / 2 in step 2 is more than |4 - 5| / 5 in step 3.
    assert spreads(then, now) == [
        Spread("a", 2, 2, 2.0, 1.0, 0.5),
        Spread("b", 3, 3, 8.0, 6.0, 0.25),
    ]
    assert spreads(then, then) == []


def test_a_number_that_only_one_has_is_infinitely_far() -> None:
    then = {1: {"loss": None}, 2: {"loss": 1.0}, 3: {"loss": 1.0}}
    now = {1: {"loss": None}, 2: {"loss": None}}
    (found,) = spreads(then, now)
    assert (found.first, found.step, found.relative) == (2, 2, math.inf)
    assert "no number" in str(found)


def test_equal_runs(tmp_path: Path) -> None:
    one, other = (write_run(tmp_path / name, *RECORD) for name in "ab")
    verdict = judge(one, other, (), [])
    assert verdict.equal
    assert verdict.compared == 2
    assert verdict.lines() == [
        "config      equal",
        "end         the same",
        "metrics     equal to the last bit in 2 steps on record",
    ]


def test_one_bit_is_too_much_where_bits_are_expected(tmp_path: Path) -> None:
    near = math.nextafter(2.0, 3.0)
    one = write_run(tmp_path / "a", *RECORD)
    other = write_run(tmp_path / "b", RECORD[0], {"step": 2, "loss": near}, RECORD[2])
    verdict = judge(one, other, (), [])
    assert not verdict.equal
    assert verdict.lines()[2].startswith(
        "metrics     loss: differs from step 2 on, at most by 2.2e-"
    )
    # With another torch the same difference passes, and 0.0011 of it does not.
    newer = [("package torch", "2.12.0", "2.13.0")]
    loose = judge(one, other, (), newer)
    assert loose.equal
    assert loose.lines()[2].endswith(", within the 0.001 that pass")
    assert "package torch: 2.12.0 -> 2.13.0" in loose.lines()[3]
    assert verdict.lines()[3] == "            the same bits are expected"
    far = write_run(tmp_path / "c", RECORD[0], {"step": 2, "loss": 2.0 * 0.9989}, RECORD[2])
    assert not judge(one, far, (), newer).equal


def test_half_types_may_differ_more(tmp_path: Path) -> None:
    half = {"dtypes": {"compute": "bfloat16"}}
    one = write_run(tmp_path / "a", *RECORD, **half)
    other = write_run(tmp_path / "b", RECORD[0], {"step": 2, "loss": 1.97}, RECORD[2], **half)
    newer = [("processor", "one", "another")]
    assert judge(one, other, (), newer).equal  # 0.015 of 2
    norm = write_run(tmp_path / "c", {"step": 1, "train/grad_norm": 1.0}, **half)
    noisy = write_run(tmp_path / "d", {"step": 1, "train/grad_norm": 1.6}, **half)
    assert judge(norm, noisy, (), newer).equal
    assert not judge(one, other, (), []).equal


def test_configs_are_compared_but_for_what_was_pinned(tmp_path: Path) -> None:
    one = write_run(
        tmp_path / "a", *RECORD, config={"resume": None, "lr": 0.1, "cluster": {"device": "auto"}}
    )
    other = write_run(
        tmp_path / "b", *RECORD, config={"resume": "there", "lr": 0.2, "cluster": {"device": "cpu"}}
    )
    verdict = judge(one, other, ("cluster.device",), [])
    assert verdict.config == [("lr", 0.1, 0.2)]
    assert not verdict.equal
    assert verdict.lines()[0] == "config      lr: 0.1 -> 0.2"


def test_the_same_failure_is_a_reproduction_and_another_end_is_none(tmp_path: Path) -> None:
    diverged = {"status": "failed", "error": {"kind": "diverged"}}
    one = write_run(tmp_path / "a", *RECORD, state=diverged)
    assert judge(one, write_run(tmp_path / "b", *RECORD, state=diverged), (), []).equal
    verdict = judge(one, write_run(tmp_path / "c", *RECORD), (), [])
    assert not verdict.equal
    assert verdict.ends == ("failed (diverged) after 2 steps", "completed after 2 steps")


def test_a_run_that_was_cut_short_is_compared_as_far_as_it_went(tmp_path: Path) -> None:
    killed = {"status": "failed", "error": {"kind": "killed"}, "steps": 2}
    one = write_run(tmp_path / "a", *RECORD[:2], state=killed)
    more = write_run(tmp_path / "b", *RECORD, {"step": 3, "loss": 1.0}, state={"steps": 3})
    verdict = judge(one, more, (), [])
    assert verdict.equal
    assert verdict.until == 2
    less = write_run(tmp_path / "c", *RECORD[:1], state={"steps": 1})
    assert not judge(one, less, (), []).equal


def test_surroundings() -> None:
    then = {
        "python": "3.11.7",
        "packages": {"torch": "2.13.0", "gone": "1"},
        "machine": {"processor": "a", "cores": 2, "system": "s", "host": "one"},
        "environment": {"OMP_NUM_THREADS": "1", "PYTHONPATH": "/a", "SLURM_JOB_ID": "1"},
    }
    now = {
        "python": "3.11.7",
        "packages": {"torch": "2.13.0", "new": "2"},
        "machine": {"processor": "a", "cores": 4, "system": "s", "host": "two"},
        "environment": {"CUDA_VISIBLE_DEVICES": "0", "PYTHONPATH": "/b", "PYTHONSAFEPATH": "1"},
    }
    assert before_start(then, now) == [
        ("package gone", "1", None),
        ("package new", None, "2"),
        ("cores", 2, 4),
    ]
    assert after_start(then, now) == [
        ("variable OMP_NUM_THREADS", "1", None),
        ("variable CUDA_VISIBLE_DEVICES", None, "0"),
    ]


def test_when_the_same_bits_are_expected() -> None:
    run = {"in_force": [RANK], "data": {"fingerprint": "x"}}
    threads = {"in_force": [{**RANK, "threads": 2}], "data": {"fingerprint": "y"}}
    found = after_start(run, threads)
    assert found == [("rank 0 threads", 1, 2), ("data fingerprint", "x", "y")]
    assert bits_expected(run, threads, found) == "rank 0 threads: 1 -> 2"
    assert after_start(run, {**run, "in_force": [RANK, RANK]}) == [("ranks", 1, 2)]
    # Neither more cores, as threads are pinned, nor a package that computes nothing matters.
    assert bits_expected(run, run, [("cores", 2, 4), ("package rich", "14", "15")]) is None
    assert bits_expected({}, run, []) == "what its ranks found is not recorded"
    gpu = {"in_force": [{**RANK, "device": "H200"}]}
    assert bits_expected(gpu, gpu, []) == "on a GPU without deterministic=true"
    exact = {"in_force": [{**RANK, "device": "H200", "deterministic_algorithms": True}]}
    assert bits_expected(exact, exact, []) is None
