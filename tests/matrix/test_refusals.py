"""Combinations that cannot go together, refused before any process starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import ConfigError
from tests.runs import PROBES
from train.command import command


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(PROBES))


def refusal(*words: str) -> str:
    argv = [f"--config-dir={PROBES / 'conf'}", "dry_run=true", "cluster.device=cpu", *words]
    with pytest.raises(ConfigError) as caught:
        command(argv, None)
    assert not list(Path.cwd().iterdir())
    return str(caught.value)


def test_half_weights_are_refused_by_name_under_fp16() -> None:
    message = refusal("model=plain", "data=digits", "model.half=true", "precision=fp16")
    assert "down.weight (float16), down.bias (float16)" in message
    assert "precision=fp16" in message


def test_reentrant_recomputation_under_the_search_for_unused_parameters() -> None:
    message = refusal(
        "data=synthetic",
        "model.checkpointing=reentrant",
        "parallel=ddp",
        "parallel.find_unused_parameters=true",
    )
    assert "model.checkpointing=reentrant" in message
    assert "model.checkpointing=full" in message


def test_fewer_micro_batches_than_stages() -> None:
    message = refusal("data=synthetic", "parallel=pipeline", "accumulation=1")
    assert "accumulation=1" in message
    assert "2 stages" in message


def test_rows_that_do_not_divide_into_micro_batches() -> None:
    message = refusal(
        "data=synthetic", "parallel=pipeline", "global_batch_size=8", "accumulation=3"
    )
    assert "global_batch_size=8" in message
    assert "accumulation=3" in message


def test_a_learning_rate_in_quotes_is_no_number() -> None:
    message = refusal("data=synthetic", 'optimizer.lr="1e-4"')
    assert "optimizer.lr" in message


def test_a_loss_scale_for_a_type_that_needs_none() -> None:
    message = refusal("data=synthetic", "precision=bf16", "+precision.enabled=true")
    assert "precision.enabled=true" in message
    assert "precision=fp16" in message


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (("parallel=zero3",), "parallel=fsdp compile=true"),
        (("parallel=dp",), "parallel=ddp, or parallel=single, with compile=true"),
        (("model.checkpointing=selective",), "model.checkpointing=none or full"),
        (("model=plain", "data=digits"), "set compile=false"),
    ],
)
def test_what_is_not_compiled(words: tuple[str, ...], nearest: str) -> None:
    message = refusal("compile=true", *words)
    assert "compile=true" in message
    assert nearest in message


def test_selective_checkpointing_where_parameters_come_and_go_within_a_block() -> None:
    message = refusal("parallel=zero3", "model.checkpointing=selective")
    assert "parallel=zero3 model.checkpointing=full" in message
    assert "parallel=fsdp model.checkpointing=selective" in message


def test_checkpointing_is_an_option_of_any_model() -> None:
    assert "model.checkpointing=full" in refusal(
        "model=plain", "data=digits", "model.checkpointing=full"
    )
    assert "take none, full, selective or reentrant" in refusal("model.checkpointing=half")


def test_a_dry_sweep_names_the_refused_job_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("-m", "dry_run=true", "cluster.device=cpu", "data=synthetic", "accumulation=1")
    assert command([*words, "parallel=pipeline,ddp"], None) == 2
    said = capsys.readouterr()
    assert said.err.startswith("refused: parallel=pipeline: accumulation=1 ")
    assert said.err.count("refused: ") == 1
    assert "parallel=ddp" in said.out
    assert not list(Path.cwd().iterdir())
