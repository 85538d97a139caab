"""The keys of `hydra.launcher`, as typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import ConfigError
from train.command_line import parse
from train.slurm.options import chosen, options_of, refuse_setup_of

SLURM = "hydra/launcher=slurm"


def test_the_defaults_ask_slurm_for_nothing() -> None:
    options = options_of(parse([SLURM]).base)
    assert (options.partition, options.time, options.cpus, options.gpus) == (None, None, None, None)
    assert (options.requeue, options.wait, options.grace_s) == (True, True, 120)


def test_without_it_nothing_is_submitted() -> None:
    assert chosen(parse([SLURM]).base)
    assert not chosen(parse([]).base)
    assert not chosen(parse(["--help"]).base)


@pytest.mark.parametrize(
    ("words", "gpus"),
    [("hydra.launcher.gpus=8", 8), ("hydra.launcher.gpus=a100:4", 4), ("hydra.launcher.cpus=2", 0)],
)
def test_gpus_may_be_of_a_kind(words: str, gpus: int) -> None:
    assert options_of(parse([SLURM, words]).base).gpus_per_node == gpus


@pytest.mark.parametrize(
    "word",
    [
        "hydra.launcher.time=90",
        "hydra.launcher.time=2:00:00",
        "hydra.launcher.time=1-12",
        "hydra.launcher.memory=64G",
        "hydra.launcher.memory=4000",
        "+hydra.launcher.sbatch.constraint='h100&ib'",
        "+hydra.launcher.sbatch.exclusive=true",
        "hydra.launcher.setup=['module load cuda','export A=\"b c\"']",
    ],
)
def test_what_slurm_takes(word: str) -> None:
    options_of(parse([SLURM, word]).base)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("hydra.launcher.time=soon", "time=soon: must be a time"),
        ("hydra.launcher.memory=64GB", "memory=64GB: must be an amount"),
        ("hydra.launcher.gpus=0", "gpus=0: must be a number above 0"),
        ("hydra.launcher.cpus=0", "cpus=0: must be 1 or more"),
        ("hydra.launcher.cpus=many", "cpus=many"),
        ("hydra.launcher.parallel=-1", "parallel=-1: must be 1 or more"),
        ("hydra.launcher.grace_s=70000", "grace_s=70000: must be 0 to 65535"),
        ("hydra.launcher.requeue=often", "requeue=often"),
        ("hydra.launcher.partition=''", "partition=: must be a name"),
        (
            "+hydra.launcher.partitions=a",
            "partitions: there is no such key.",
        ),
        ("+hydra.launcher.sbatch.array=0-9", "sbatch.array: is set by the submission itself"),
        ("+hydra.launcher.sbatch.mem=9G", "its own: hydra.launcher.memory"),
        ("+hydra.launcher.sbatch.no-requeue=true", "its own: hydra.launcher.requeue"),
        ("+hydra.launcher.sbatch.Exclusive=true", "without its dashes"),
        ("+hydra.launcher.sbatch.comment=''", "must be one line, and not empty"),
        ('hydra.launcher.setup=["a\nb"]', "more than a line"),
    ],
)
def test_what_it_does_not(word: str, said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        options_of(parse([SLURM, word]).base)
    assert said in str(refusal.value)


def test_a_file_of_one_s_own_keeps_a_cluster_s_values(tmp_path: Path) -> None:
    file = tmp_path / "hydra" / "launcher" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("defaults: [slurm]\npartition: gpu\nsbatch: {constraint: h100}\n")
    base = parse(["--config-dir", str(tmp_path), "hydra/launcher=mine"]).base
    assert chosen(base)
    options = options_of(base)
    assert (options.partition, options.sbatch) == ("gpu", {"constraint": "h100"})


def test_lines_of_shell_are_not_taken_from_a_folder(tmp_path: Path) -> None:
    base = parse([SLURM, "hydra.launcher.setup=['rm -rf /']"]).base
    with pytest.raises(ConfigError, match=r"rm -rf .* was read in .*, and a job would run"):
        refuse_setup_of(base, {"seed"}, tmp_path)
    refuse_setup_of(base, {"hydra.launcher.setup"}, tmp_path)
    refuse_setup_of(parse([SLURM]).base, {"seed"}, tmp_path)
