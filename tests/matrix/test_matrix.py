"""Every pair of precision and strategy, as one sweep of the command line on two CPU ranks."""

from __future__ import annotations

import pytest

from tests.runs import Outcome, Run, run_train

TWO_RANKS = ("single", "dp", "ddp", "fsdp", "zero1", "zero2", "zero3", "pipeline")
PRECISIONS = ("fp32", "bf16", "fp16")
CELLS = [
    *((parallel, precision) for parallel in TWO_RANKS for precision in PRECISIONS),
    *(("hsdp", precision) for precision in PRECISIONS),
]
STEPS = 20

TINY = (
    "cluster.device=cpu",
    "cluster.threads_per_rank=1",
    "data=synthetic",
    "data.vocab_size=32",
    "data.seq_len=16",
    "data.train_samples=512",
    "data.val_samples=16",
    "data.masked_fraction=0.2",
    "model.layers=2",
    "model.heads=2",
    "model.width=16",
    "global_batch_size=16",
    f"steps={STEPS}",
    "optimizer.lr=0.02",
    "log_every=1",
    "eval_every=10",
)

HALF = {"bf16": "bfloat16", "fp16": "float16"}
BAND = {"fp32": 1e-5, "bf16": 2e-2, "fp16": 2e-3}
"""How far a loss may lie, relatively, from that of `single` in the same precision: rounding
alone in fp32; in the half types 2 to 3 decimal digits, amplified over the steps."""
GAP = {"bf16": 3e-2, "fp16": 5e-3}
"""How far from `single` in fp32."""


def expected_dtypes(parallel: str, precision: str) -> dict[str, str]:
    """What each strategy is to hold. Masters, optimizer state and reductions are always fp32."""
    compute = HALF.get(precision, "float32")
    types = {
        "param": "float32",
        "grad": "float32",
        "optimizer": "float32",
        "compute": compute,
        "reduce": "float32",
    }
    if parallel.startswith("zero"):
        # DeepSpeed updates a flat fp32 copy, and computes with parameters of the half type.
        types |= {"master": "float32", "param": compute}
    if (parallel, precision) == ("zero1", "bf16"):
        # The half gradients stay beside the fp32 buffer that they are added up in.
        types |= {"grad": "bfloat16,float32"}
    return types


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    cwd = tmp_path_factory.mktemp("matrix")
    axes = (f"parallel={','.join(TWO_RANKS)}", f"precision={','.join(PRECISIONS)}")
    return run_train(cwd, "-m", *axes, *TINY).completed()


@pytest.fixture(scope="session")
def cells(sweep: Outcome, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Run]:
    cwd = tmp_path_factory.mktemp("hybrid")
    axes = ("parallel=hsdp", f"precision={','.join(PRECISIONS)}", "cluster.nproc_per_node=4")
    hybrid = run_train(cwd, "-m", *axes, *TINY).completed()
    runs = [*sweep.runs, *hybrid.runs]
    return {(run.overrides["parallel"], run.overrides["precision"]): run for run in runs}


def test_a_sweep_is_one_folder_of_24_runs(sweep: Outcome) -> None:
    assert len(sweep.runs) == len({run.folder for run in sweep.runs}) == 24
    assert len({run.folder.parent for run in sweep.runs}) == 1
    assert "24 of 24 jobs completed" in sweep.stderr


@pytest.mark.parametrize(("parallel", "precision"), CELLS)
def test_a_cell_trains(cells: dict[tuple[str, str], Run], parallel: str, precision: str) -> None:
    run = cells[parallel, precision]
    assert run.status["status"] == "completed"
    assert run.status["steps"] == run.summary["updates"] == STEPS
    losses = run.column("train/loss")
    assert len(losses) == STEPS
    assert losses[-1] < losses[0] - 0.5


@pytest.mark.parametrize(("parallel", "precision"), CELLS)
def test_the_record_says_where_the_cell_ran(
    cells: dict[tuple[str, str], Run], parallel: str, precision: str
) -> None:
    world = 1 if parallel in ("single", "dp") else 4 if parallel == "hsdp" else 2
    assert cells[parallel, precision].summary["cell"] == {
        "precision": precision,
        "parallel": parallel,
        "cluster": f"1x{world}-cpu",
        "world_size": world,
    }


@pytest.mark.parametrize(("parallel", "precision"), CELLS)
def test_types_are_those_that_the_strategy_promises(
    cells: dict[tuple[str, str], Run], parallel: str, precision: str
) -> None:
    run = cells[parallel, precision]
    assert run.summary["dtypes"] == expected_dtypes(parallel, precision)
    assert run.provenance["dtypes"] == run.summary["dtypes"]
    assert {str(weight.dtype) for weight in run.weights().values()} == {"torch.float32"}


@pytest.mark.parametrize(("parallel", "precision"), CELLS)
def test_curves_agree_between_strategies(
    cells: dict[tuple[str, str], Run], parallel: str, precision: str
) -> None:
    run, single = cells[parallel, precision], cells["single", precision]
    for name in ("train/loss", "val/loss"):
        assert run.column(name) == pytest.approx(single.column(name), rel=BAND[precision])
    assert run.column("lr") == single.column("lr")
    assert run.column("samples") == single.column("samples") == [16 * n for n in range(1, 21)]
    if precision == "fp32":
        norms = single.column("train/grad_norm")
        assert run.column("train/grad_norm") == pytest.approx(norms, rel=1e-5)


@pytest.mark.parametrize("precision", GAP)
def test_half_types_follow_fp32(cells: dict[tuple[str, str], Run], precision: str) -> None:
    full = cells["single", "fp32"].column("train/loss")
    half = cells["single", precision].column("train/loss")
    assert half == pytest.approx(full, rel=GAP[precision])
    assert half != full


@pytest.mark.parametrize(("parallel", "precision"), CELLS)
def test_only_fp16_has_a_loss_scale(
    cells: dict[tuple[str, str], Run], parallel: str, precision: str
) -> None:
    scales = set(cells[parallel, precision].column("loss_scale"))
    assert scales == ({65536.0} if precision == "fp16" else {1.0})


@pytest.mark.parametrize(("parallel", "precision"), CELLS)
def test_every_number_of_the_record_is_one(
    cells: dict[tuple[str, str], Run], parallel: str, precision: str
) -> None:
    """A pipeline knows its loss on the last stage alone: no stand-in for it reaches the record."""
    run = cells[parallel, precision]
    losses = run.column("train/loss")
    assert min(losses) > 1.0  # the best possible is ln 4
    best = run.summary["best"]["train/loss"]
    assert best == {"value": min(losses), "step": losses.index(min(losses)) + 1}
    assert run.summary["last"]["val/loss"] == run.column("val/loss")[-1]


@pytest.mark.parametrize(("parallel", "precision"), CELLS)
def test_the_peak_is_what_was_forecast(
    cells: dict[tuple[str, str], Run], parallel: str, precision: str
) -> None:
    """The rank that needs the most, as counted while it stepped."""
    run = cells[parallel, precision]
    memory = run.summary["memory"]
    assert memory["measured_bytes"] == max(run.summary["peak_memory_bytes"])
    assert memory["forecast_bytes"] == pytest.approx(memory["measured_bytes"], rel=0.1)
    assert memory["error"] == memory["forecast_bytes"] / memory["measured_bytes"] - 1
