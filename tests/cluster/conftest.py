"""The Slurm that the tests here share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.slurm import Slurm, missing


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
