"""Figures of devices that can be no figures are refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from components.device import Device, Measured
from components.errors import ConfigError

FIGURES: dict[str, Any] = {
    "name": "toy",
    "memory_bytes": 1e9,
    "flops": {"float32": 1e9, "bfloat16": 2e9},
    "memory_bytes_per_s": 1e9,
    "link_bytes_per_s": 1e9,
    "network_bytes_per_s": 1e8,
    "per_node": 2,
}


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        *(("memory_bytes", value, "device.memory_bytes") for value in (0, -1, "1e9", None, True)),
        ("link_bytes_per_s", math.inf, "device.link_bytes_per_s=inf"),
        ("network_bytes_per_s", math.nan, "device.network_bytes_per_s=nan"),
        ("per_node", 1.5, "device.per_node=1.5"),
        ("operation_s", -1e-6, "device.operation_s"),
        ("operation_s", "fast", "device.operation_s=fast"),
        ("flops", 1e9, "device.flops"),
        ("flops", {"float32": 1e9, "bf16": 2e9}, "device.flops.bf16: the types are float32"),
        ("flops", {"bfloat16": 1e9}, "device.flops has no float32"),
        ("attained", {"float32": 0}, "device.attained.float32=0"),
        ("attained", {"float32": 5}, "shares, up to 1"),
        ("collectives", {"all-reduce": 1}, "device.collectives"),
    ],
)
def test_a_figure_that_is_none(key: str, value: object, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Device(**{**FIGURES, key: value})


@pytest.mark.parametrize(
    ("ranks", "points"),
    [
        (1, ((1, 1e-3),)),
        (2, ()),
        (2, ((1, 1e-3), (1, 2e-3))),
        (2, ((2, 1e-3), (1, 2e-3))),
        (2, ((0, 1e-3),)),
        (2, ((1, -1e-3),)),
        (2, ((1, math.nan),)),
    ],
)
def test_a_collective_that_cannot_have_been_measured(ranks: int, points: Any) -> None:
    with pytest.raises(ConfigError, match="a collective"):
        Measured(ranks, points)


def test_more_of_a_shared_device_for_fewer_ranks() -> None:
    device = Device(**FIGURES, kind="cpu", shared=True)
    assert device.among(1).memory_bytes == 2e9
    assert device.among(4).flops["float32"] == 5e8
    assert Device(**FIGURES).among(1).memory_bytes == 1e9
