"""Data are prepared once, however long that takes, and a failure is everybody's."""

from __future__ import annotations

from pathlib import Path

from tests.faults.words import SMALL
from tests.processes import family
from tests.runs import run_started


def words(cache: Path, *further: str) -> tuple[str, ...]:
    keys = ("kind", "train_samples", "val_samples", "vocab_size", "seq_len", "masked_fraction")
    return (
        *SMALL,
        "data._target_=probe_faults.Prepared",
        *(f"~data.{key}" for key in (*keys, "seed", "epoch_end", "shuffle", "num_workers")),
        f"+data.cache_dir={cache}",
        "steps=2",
        *further,
    )


def builds(cache: Path) -> int:
    return len((cache / "builds.txt").read_text().splitlines())


def test_once_and_longer_than_a_collective_may_take(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    run_started(tmp_path, *words(cache, "+data.takes_s=4", "cluster.timeout_s=2")).completed()
    assert builds(cache) == 1


def test_a_failure_ends_all_ranks_with_its_own_error(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    with family(tmp_path, *words(cache, "+data.fails=true")) as command:
        ended = command.outcome(60)
        command.gone_after()
    assert ended.code == 1
    assert "RuntimeError: the source of the data is gone" in ended.stderr
    assert ended.run.status["error"]["cause"] == "RuntimeError: the source of the data is gone"


def test_killed_in_the_middle_it_is_done_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    with family(tmp_path, *words(cache, "+data.takes_s=60")) as command:
        command.until((cache / "builds.txt").exists)
        command.first.kill()
        command.gone_after()
    again = tmp_path / "again"
    again.mkdir()
    run_started(again, *words(cache)).completed()
    assert builds(cache) == 2
