"""Hosts, made once, with all cables in the switch at the start of each test; and a Slurm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.hosts import Host, network
from tests.cluster.slurm import Slurm, missing


@pytest.fixture(scope="session")
def _network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Host]]:
    with network(tmp_path_factory.mktemp("network")) as hosts:
        yield hosts


@pytest.fixture
def hosts(_network: list[Host]) -> Iterator[list[Host]]:
    yield _network
    for host in _network:
        host.heal()


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    absent = missing()
    if absent is not None:
        pytest.fail(f"no Slurm can be started here: {absent}", pytrace=False)
    cluster = Slurm()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
