"""The figures of a machine that was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.device import Measured
from components.errors import ConfigError
from train.plan.measured_device import device_of, read_device
from train.plan.traffic import Message


def report(device: str = "cpu", **more: Any) -> dict[str, Any]:
    ranks = [
        {
            "device": "EPYC",
            "memory_total_bytes": 24e9,
            "flops": {"fp32": 40e9 + rank, "bf16": 4e9 - rank},
            "copy_bytes_per_s": 5e9 - rank,
            "operation_s": 1e-6 * (rank + 1),
            "attained": {"fp32": 0.5 + rank / 10, "bf16": 0.25},
        }
        for rank in range(2)
    ]
    return {
        "cluster": {"device": device, "nproc_per_node": 2, "world_size": 2, "nnodes": 1},
        "ranks": ranks,
        "links": [{"ranks": [0, 1], "across": False, "bytes_per_s": 1e9}],
        "collectives": [
            {"name": "all-reduce", "bytes": 1000, "seconds": 1e-3},
            {"name": "all-reduce", "bytes": 1_000_000, "seconds": 2e-3},
            {"name": "ring", "bytes": 1000, "seconds": 5e-4},
            {"name": "broadcast", "not_offered": "why"},
        ],
        "quick": False,
        **more,
    }


def test_the_slowest_rank_counts() -> None:
    device = device_of(report(), "check.json")
    assert device.name == "EPYC (check.json)"
    assert device.memory_bytes == 12e9  # ranks of a CPU share its memory
    assert device.flops == {"float32": 40e9, "bfloat16": 4e9 - 1}
    assert device.memory_bytes_per_s == 2 * (5e9 - 1)
    assert device.operation_s == 2e-6
    assert device.attained == {"float32": 0.5, "bfloat16": 0.25}
    assert device.link_bytes_per_s == device.network_bytes_per_s == 1e9
    assert set(device.collectives) == {"all-reduce", "send"}
    assert device_of(report("cuda"), "check.json").memory_bytes == 24e9


def test_fewer_ranks_have_more_of_a_cpu_each() -> None:
    two = device_of(report(), "check.json")
    one, four = two.among(1), two.among(4)
    assert (one.memory_bytes, one.flops["float32"], one.per_node) == (24e9, 80e9, 1)
    assert (four.memory_bytes, four.flops["float32"], four.per_node) == (6e9, 20e9, 4)
    assert two.among(2) is two
    gpu = device_of(report("cuda"), "check.json")
    assert gpu.among(1) is gpu


def test_a_message_takes_what_one_like_it_took() -> None:
    measured = Measured(2, ((1000, 1e-3), (1_000_000, 2e-3)))
    assert measured.seconds(0) == measured.seconds(1000) == 1e-3
    assert measured.seconds(500_500) == pytest.approx(1.5e-3)
    assert measured.seconds(3_000_000) == pytest.approx(6e-3)


def test_calls_count_and_more_ranks_send_more() -> None:
    device = device_of(report(), "check.json")
    # Ten calls of 100 bytes take as long as ten small ones.
    assert Message("all-reduce", 1000, 2, calls=10).seconds(device, 2) == pytest.approx(1e-2)
    # Two ranks send 2 x 1/2 of a message in an all-reduce, four 2 x 3/4.
    two, four = (Message("all-reduce", 1_000_000, n).seconds(device, n) for n in (2, 4))
    assert four == pytest.approx(1.5 * two)
    # What was not measured goes by the link.
    assert Message("all-gather", 4000, 2).seconds(device, 2) == pytest.approx(2000 / 1e9)


@pytest.mark.parametrize(
    ("content", "message"),
    [({}, "no file of a check"), (report(quick=True), "without --quick")],
)
def test_a_file_that_does_not_tell(tmp_path: Path, content: dict, message: str) -> None:
    path = tmp_path / "check.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=message):
        read_device(path, "cluster.device")


@pytest.mark.parametrize(
    ("where", "key", "value"),
    [
        ("ranks", "copy_bytes_per_s", None),
        ("ranks", "copy_bytes_per_s", "fast"),
        ("ranks", "flops", {"fp8": 1e12}),
        ("ranks", "flops", None),
        ("cluster", "nproc_per_node", None),
        ("cluster", "device", "tpu"),
        ("ranks", "attained", {"fp32": 0, "bf16": 0.5}),
        ("ranks", "attained", {"fp32": -0.5, "bf16": 0.5}),
        ("ranks", "operation_s", -1),
        ("ranks", "operation_s", "x"),
        ("cluster", "nproc_per_node", 0),
        ("cluster", "nproc_per_node", 1.5),
        (None, "collectives", [{"name": "all-reduce", "bytes": 8, "seconds": -1.0}]),
        (None, "collectives", [{"name": "all-reduce", "bytes": 8, "seconds": None}]),
        (None, "collectives", ["x"]),
        (None, "links", None),
        (None, "collectives", None),
        (None, "ranks", 3),
        (None, "ranks", {"0": {}}),
    ],
)
def test_a_file_that_was_edited_is_refused_by_name(
    tmp_path: Path, where: str | None, key: str, value: Any
) -> None:
    content = report()
    parts = {None: [content], "cluster": [content["cluster"]], "ranks": content["ranks"]}
    for part in parts[where]:
        part[key] = value
    path = tmp_path / "check.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=r"parallel\.device=.*check\.json: this is no whole file"):
        read_device(path, "parallel.device")
    del content["collectives"]
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="this is no whole file"):
        read_device(path, "parallel.device")


def test_a_check_of_one_node_knows_no_network() -> None:
    assert not device_of(report(), "check.json").knows_network
    across = [{"ranks": [0, 1], "across": True, "bytes_per_s": 1e8}]
    assert device_of(report(links=across), "check.json").knows_network


@pytest.mark.parametrize("text", ["", "{broken", "[1]", "7"])
def test_what_is_no_json_of_a_check(tmp_path: Path, text: str) -> None:
    path = tmp_path / "check.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="no file of a check"):
        read_device(path, "cluster.device")
    with pytest.raises(ConfigError, match="no file of a check"):
        read_device(tmp_path, "cluster.device")
