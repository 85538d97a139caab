"""Runs beside each other: rows, labels, the reference and what is held against it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from components.errors import ConfigError
from tests.train.compare.synthetic import curve, write_run
from train.compare.comparison import COLUMNS, Comparison, Row, Value, compare
from train.compare.results import read_run

Kind = dict[str, Any]


def _compare(folder: Path, kinds: Sequence[Kind], reference: str | None = None) -> Comparison:
    runs = [write_run(folder / f"{place}_run", **kind) for place, kind in enumerate(kinds)]
    return compare([read_run(run) for run in runs], reference, "title")


def _row(found: Comparison, label: str) -> Row:
    (row,) = [row for row in found.rows if row.label == label]
    return row


def _typed(key: str, value: Any) -> Kind:
    """A key that was set on the command line."""
    return {"config": {key: value}, "overrides": [f"{key}={value}"]}


SINGLE: Kind = {"parallel": "single", "world_size": 1}


def test_a_row_is_named_by_what_differs(tmp_path: Path) -> None:
    found = _compare(tmp_path, [SINGLE, {}, {"precision": "bf16"}])
    assert [row.label for row in found.rows] == ["single fp32", "ddp fp32", "ddp bf16"]
    # Ranks and micro-batch differ too, but were not chosen.
    assert found.varied == ["parallel", "precision"]
    assert found.differences == {
        "parallel": ["single", "ddp", "ddp"],
        "precision": ["fp32", "fp32", "bf16"],
    }


def test_keys_beside_the_cell_are_named_with_their_values(tmp_path: Path) -> None:
    kinds = [{"parallel": "fsdp", **_typed("optimizer.lr", lr)} for lr in (0.01, 1e-6)]
    found = _compare(tmp_path, [*kinds, _typed("optimizer.lr", 0.01)])
    assert [row.label for row in found.rows] == ["fsdp lr=0.01", "fsdp lr=1e-06", "ddp lr=0.01"]
    assert found.varied == ["parallel", "optimizer.lr"]


def test_a_single_run_is_named_by_its_cell(tmp_path: Path) -> None:
    found = _compare(tmp_path, [{"parallel": "zero3", "precision": "bf16"}])
    assert [row.label for row in found.rows] == ["zero3 bf16"]
    assert found.varied == []
    assert found.reference is found.rows[0]


def test_keys_of_the_same_last_name_are_named_in_full(tmp_path: Path) -> None:
    kinds = [{"config": {"model.width": 96 * n, "objective.width": n}} for n in (1, 2)]
    assert [row.label for row in _compare(tmp_path, kinds).rows] == [
        "model.width=96 objective.width=1",
        "model.width=192 objective.width=2",
    ]


def test_another_model_is_one_word_and_not_all_its_options(tmp_path: Path) -> None:
    wide = {"choices": {"model": "gpt2"}, "config": {"model.layers": 12, "model.width": 768}}
    found = _compare(tmp_path, [{}, wide])
    assert [row.label for row in found.rows] == ["model=gpt_nano", "model=gpt2"]
    assert found.varied == ["model"]


def test_an_option_that_was_set_is_named_beside_its_group(tmp_path: Path) -> None:
    wide = {"choices": {"model": "gpt2"}, **_typed("model.width", 768)}
    found = _compare(tmp_path, [{}, wide])
    assert [row.label for row in found.rows] == [
        "model=gpt_nano width=96",
        "model=gpt2 width=768",
    ]


def test_the_same_cell_on_more_ranks_is_another_row(tmp_path: Path) -> None:
    found = _compare(tmp_path, [{"world_size": 2}, {"world_size": 4}])
    assert [row.label for row in found.rows] == ["ddp fp32 1x2-cpu", "ddp fp32 1x4-cpu"]


def test_runs_that_differ_in_many_keys_are_told_apart_within_their_cell(tmp_path: Path) -> None:
    other = {f"optimizer.k{n}": n for n in range(5)}
    third = {**other, "optimizer.k4": 7}
    runs = [{}, {"parallel": "fsdp", "config": other}, {"parallel": "fsdp", "config": third}]
    found = _compare(tmp_path, runs)
    assert [row.label for row in found.rows] == ["ddp", "fsdp k4=4", "fsdp k4=7"]


def test_runs_of_one_cell_that_differ_in_many_keys_are_named_by_their_folders(
    tmp_path: Path,
) -> None:
    other = {f"optimizer.k{n}": n for n in range(5)}
    found = _compare(tmp_path, [{}, {"config": other}])
    assert [row.label for row in found.rows] == ["0_run", "1_run"]


def test_a_number_that_was_left_open_is_named_where_somebody_set_it(tmp_path: Path) -> None:
    kinds = [{"world_size": 2}, {"parallel": "fsdp", **_typed("micro_batch_size", 4)}]
    found = _compare(tmp_path, kinds)
    assert [row.label for row in found.rows] == [
        "ddp micro_batch_size=16",
        "fsdp micro_batch_size=4",
    ]


def test_an_interpolation_follows_from_what_it_names(tmp_path: Path) -> None:
    runs = []
    for steps in (3, 5):
        run = write_run(tmp_path / f"{steps}_run", **_typed("steps", steps))
        for name, total in (("config.yaml", str(steps)), (".hydra/config.yaml", "${steps}")):
            with (run / name).open("a") as file:
                file.write(f"scheduler:\n  total_steps: {total}\n")
        runs.append(read_run(run))
    assert compare(runs).varied == ["steps"]


def test_runs_of_one_name_in_two_places_are_told_apart(tmp_path: Path) -> None:
    other = {f"optimizer.k{n}": n for n in range(5)}
    runs = [write_run(tmp_path / "a" / "0_x"), write_run(tmp_path / "b" / "0_x", config=other)]
    found = compare([read_run(run) for run in runs])
    assert [row.label for row in found.rows] == [f"0_x {run}" for run in runs]


def test_how_a_run_was_started_makes_no_difference(tmp_path: Path) -> None:
    found = _compare(tmp_path, [{}, {"config": {"resume": "latest"}, "seed": 1}])
    assert found.varied == ["seed"]
    assert len(found.rows) == 1


def test_seeds_are_one_row_with_mean_and_sample_deviation(tmp_path: Path) -> None:
    single = [
        {**SINGLE, "seed": seed, "records": curve([4.0, 3.0, 2.0], {3: 2.5 + seed / 10})}
        for seed in (0, 1, 2)
    ]
    ddp = [
        {"seed": seed, "records": curve([4.0, 3.0, 2.0], {3: val})}
        for seed, val in ((0, 2.4), (1, 2.6))
    ]
    found = _compare(tmp_path, [*single, *ddp])
    assert [row.label for row in found.rows] == ["single", "ddp"]
    one, two = found.rows
    assert one.values["val_loss_last"].mean == pytest.approx(2.6)
    assert one.values["val_loss_last"].spread == pytest.approx(0.1)
    # By seed: 2.4 - 2.5 and 2.6 - 2.6, so their mean is -0.05 and the deviation 0.1 / sqrt(2).
    assert two.values["loss_difference"].mean == pytest.approx(-0.05)
    assert two.values["loss_difference"].spread == pytest.approx(0.1 / math.sqrt(2))
    assert [each["loss_difference"] for each in two.each] == [
        pytest.approx(-0.1),
        pytest.approx(0.0),
    ]
    assert two.note == ""


def test_without_a_seed_in_common_means_are_compared_and_that_is_noted(tmp_path: Path) -> None:
    single = [
        {**SINGLE, "seed": seed, "records": curve([2.0], {1: val})}
        for seed, val in ((0, 2), (1, 4))
    ]
    found = _compare(tmp_path, [*single, {"seed": 7, "records": curve([2.5], {1: 3.5})}])
    row = _row(found, "ddp")
    assert row.values["loss_difference"] == Value(0.5)
    assert row.values["curve_difference"] == Value(None)
    assert row.note == "seed 7, not 0, 1"


def test_the_curve_s_difference_is_the_largest_relative_one(tmp_path: Path) -> None:
    kinds = [
        {**SINGLE, "records": curve([4.0, 3.0, 2.0, 1.0], {})},
        {"records": curve([4.0, 3.3, 1.9], {})},
    ]
    row = _row(_compare(tmp_path, kinds), "ddp")
    assert row.values["curve_difference"].mean == pytest.approx(0.1)
    # No validation: the training loss at step 3, the last that both have.
    assert row.values["loss_difference"].mean == pytest.approx(-0.1)


def test_a_run_that_is_not_at_its_end_is_held_against_the_same_step(tmp_path: Path) -> None:
    kinds = [
        {**SINGLE, "records": curve([4.0, 3.0, 2.0], {2: 3.5, 3: 2.5})},
        {"status": "failed", "error": {"cause": "x"}, "records": curve([4.0, 3.0], {2: 3.75})},
    ]
    row = _row(_compare(tmp_path, kinds), "ddp")
    assert row.values["loss_difference"].mean == 0.25
    assert row.values["val_loss_last"].mean == 3.75
    assert row.status == "failed"


def test_speed_and_memory_are_of_the_reference(tmp_path: Path) -> None:
    fast = {"throughput": {"samples_per_s": 96.0}, "peak_memory_bytes": [10, 30]}
    found = _compare(tmp_path, [SINGLE, fast])
    assert _row(found, "ddp").values["speed_up"] == Value(1.5)
    assert _row(found, "ddp").values["peak_memory_bytes"] == Value(30)
    assert _row(found, "single").values["speed_up"] == Value(1.0)
    assert found.rows[0].values.keys() == set(COLUMNS)


FAILED: Kind = {"status": "failed", "error": {"cause": "boom", "rank": 0}}


@pytest.mark.parametrize(
    ("kinds", "reference"),
    [
        ([{}, {**SINGLE, "precision": "bf16"}, SINGLE], "single fp32"),
        ([{}, {**SINGLE, "precision": "bf16"}], "single bf16"),
        ([{"precision": "bf16"}, {}, {"parallel": "fsdp"}], "ddp fp32"),
        ([{"precision": "fp16"}, {"precision": "bf16"}], "fp16"),
        ([{**SINGLE, **FAILED}, {"precision": "bf16"}, {}], "ddp fp32"),
        ([{**SINGLE, **FAILED}, {**SINGLE, "seed": 1}, {}], "single"),
    ],
)
def test_the_reference_is_the_plainest_row_that_completed(
    tmp_path: Path, kinds: list[Kind], reference: str
) -> None:
    found = _compare(tmp_path, kinds)
    assert found.reference is not None
    assert found.reference.label == reference
    assert [row.label for row in found.rows if row.is_reference] == [reference]


def test_without_a_completed_run_there_is_no_reference(tmp_path: Path) -> None:
    found = _compare(tmp_path, [{**SINGLE, **FAILED}, FAILED])
    assert found.reference is None
    assert found.rows[1].values["loss_difference"] == Value(None)
    assert found.rows[1].values["train_loss_last"] == Value(2.0)


def test_a_reference_may_be_named_by_label_or_folder(tmp_path: Path) -> None:
    found = _compare(tmp_path, [SINGLE, {}], "ddp")
    assert found.reference is found.rows[1]
    runs = [result for row in found.rows for result in row.results]
    assert compare(runs, "1_run").reference == found.reference
    with pytest.raises(
        ConfigError, match=r"--reference dpd: no row.*Did you mean ddp.*single, ddp"
    ):
        compare(runs, "dpd")


def test_a_row_of_several_ends_counts_those_that_completed(tmp_path: Path) -> None:
    kinds = [
        {**SINGLE, "seed": 0, "records": curve([4.0, 2.0], {2: 2.0})},
        {**SINGLE, "seed": 1, "records": curve([9.0], {1: 9.0}), **FAILED},
        {**SINGLE, "seed": 2, "records": curve([4.0, 2.0], {2: 3.0})},
    ]
    (row,) = _compare(tmp_path, kinds).rows
    assert row.status == "2 of 3 completed"
    assert row.values["val_loss_last"].mean == 2.5
    assert [each["val_loss_last"] for each in row.each] == [2.0, 9.0, 3.0]


def test_a_refused_run_stands_with_its_cell(tmp_path: Path) -> None:
    refused = {"precision": "fp16", "status": "refused", "error": {"cause": "no"}}
    found = _compare(tmp_path, [SINGLE, refused, {"precision": "fp16", "seed": 1}])
    row = _row(found, "ddp fp16")
    assert row.status == "1 of 2 completed"
    assert [result.name for result in row.results] == ["1_run", "2_run"]


def test_all_runs_refused_is_a_comparison_too(tmp_path: Path) -> None:
    kinds = [{"precision": p, "status": "refused", "error": {"cause": p}} for p in ("fp16", "bf16")]
    found = _compare(tmp_path, kinds)
    assert [(row.label, row.status) for row in found.rows] == [
        ("fp16", "refused"),
        ("bf16", "refused"),
    ]
    assert found.reference is None


def test_losses_that_are_not_finite_are_rows_like_others(tmp_path: Path) -> None:
    kinds: list[Kind] = [
        {**SINGLE, "records": curve([4.0, 3.0], {2: 3.0})},
        {"records": curve([4.0, None], {2: None})},
        {"parallel": "fsdp", "records": curve([4.0, math.inf], {2: math.inf})},
        {"parallel": "fsdp", "records": curve([4.0, -math.inf], {2: -math.inf}), "seed": 1},
    ]
    found = _compare(tmp_path, kinds)
    nan, inf = _row(found, "ddp").values, _row(found, "fsdp").values
    assert all(
        math.isnan(nan[name].mean or 0)
        for name in ("val_loss_last", "loss_difference", "curve_difference")
    )
    assert math.isnan(inf["val_loss_last"].mean or 0)
    assert inf["curve_difference"].mean == math.inf


@pytest.mark.parametrize(
    ("other", "note"),
    [
        (_typed("global_batch_size", 64), "global_batch_size 64, not 32"),
        (_typed("steps", 5), "steps 5, not 3"),
        ({"seed": 3}, "seed 3, not 0"),
        ({"provenance": {"data": {"fingerprint": "sha256:ff"}}}, "other data"),
        (_typed("data.seq_len", 64), "other data"),
        (_typed("data.num_workers", 2), ""),
        (_typed("optimizer.lr", 1.0), ""),
        (
            {"summary": {"stopped_early": "no progress", "steps": 2}},
            "stopped early after 2 of 3 steps",
        ),
    ],
)
def test_what_is_no_fair_comparison_of_losses_is_noted(
    tmp_path: Path, other: Kind, note: str
) -> None:
    found = _compare(tmp_path, [SINGLE, other])
    assert [row.note for row in found.rows] == ["", note]


def test_the_subject_is_what_varies(tmp_path: Path) -> None:
    cells = [("ddp", 0), ("ddp", 1), ("fsdp", 0)]
    runs = [
        read_run(write_run(tmp_path / str(number), parallel=parallel, seed=seed))
        for number, (parallel, seed) in enumerate(cells)
    ]
    assert {*compare(runs).subject.split(" × ")} == {"parallel", "seed"}
    assert compare(runs[:1]).subject == "1 run"
