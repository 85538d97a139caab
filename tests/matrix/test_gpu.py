"""Every pair of precision and strategy on GPUs with NCCL, beside fp32 on one of them.

Left out of the collection where there are too few GPUs (tests/conftest.py).
"""

from __future__ import annotations

import pytest
import torch

from tests.matrix.test_matrix import GAP, PRECISIONS, TINY, expected_dtypes
from tests.runs import Outcome, run_train

ON_GPU = tuple(word for word in TINY if not word.startswith("cluster.device"))
ONE_RANK = ("single", "dp", "ddp", "fsdp", "zero1", "zero2", "zero3")
SEVERAL = ("ddp", "fsdp", "zero1", "zero2", "zero3", "pipeline")


def _sweep(tmp_path_factory: pytest.TempPathFactory, names: tuple[str, ...], ranks: int) -> Outcome:
    axes = (f"parallel={','.join(names)}", f"precision={','.join(PRECISIONS)}")
    words = (*ON_GPU, "cluster.device=cuda", f"cluster.nproc_per_node={ranks}")
    return run_train(tmp_path_factory.mktemp("gpu"), "-m", *axes, *words).completed()


def _check(sweep: Outcome, parallel: str, precision: str, reference: list[float]) -> None:
    run = sweep.find(parallel=parallel, precision=precision)
    assert run.summary["cell"]["cluster"].endswith("-cuda")
    assert run.summary["dtypes"] == expected_dtypes(parallel, precision)
    assert run.column("train/loss") == pytest.approx(reference, rel=GAP.get(precision, 1e-4))
    assert min(run.summary["peak_memory_bytes"]) > 0


@pytest.fixture(scope="session")
def one_gpu(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return _sweep(tmp_path_factory, ONE_RANK, 1)


@pytest.fixture(scope="session")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return _sweep(tmp_path_factory, SEVERAL, min(2, torch.cuda.device_count()))


@pytest.mark.gpu
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("parallel", ONE_RANK)
def test_one_gpu(one_gpu: Outcome, parallel: str, precision: str) -> None:
    reference = one_gpu.find(parallel="single", precision="fp32").column("train/loss")
    _check(one_gpu, parallel, precision, reference)


@pytest.mark.multigpu
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("parallel", SEVERAL)
def test_two_gpus(one_gpu: Outcome, gpus: Outcome, parallel: str, precision: str) -> None:
    reference = one_gpu.find(parallel="single", precision="fp32").column("train/loss")
    _check(gpus, parallel, precision, reference)
