from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from components.cluster.cluster import Cluster
from components.cluster.joined import Joined
from components.errors import ConfigError
from train.command_line import compose_jobs, parse
from train.groups import check_groups
from train.preflight import preflight
from train.targets import build, check_jobs

SMALL = [
    "cluster.device=cpu",
    "model=mlp",
    "data=digits",
    "logger=none",
    "steps=20",
]
TORCH = "scheduler._target_=torch.optim.lr_scheduler"


class Lazy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.LazyLinear(10)


class Leaves:
    def __init__(self) -> None:
        raise SystemExit(0)


def checked(folder: Path, *argv: str) -> None:
    jobs = compose_jobs(parse([*SMALL, *argv]))
    check_groups(jobs)
    check_jobs(jobs)
    for job in jobs:
        preflight(job.config, None, folder)


def refused(folder: Path, *argv: str) -> str:
    with pytest.raises(ConfigError) as error:
        checked(folder, *argv)
    return str(error.value)


def test_the_small_run_itself_is_fine(tmp_path: Path) -> None:
    checked(tmp_path)


def test_ranks_of_a_launcher_over_nodes_read_where_to_meet(tmp_path: Path) -> None:
    """Each of them builds the cluster from the config that rank 0 hands out."""
    gang = Joined("srun", 0, 4, 0, 2, nnodes=2, host="gpu03", port=20077, hosted=False)
    (job,) = compose_jobs(parse(SMALL))
    config = preflight(job.config, gang, tmp_path).config
    cluster: Cluster = build(config.cluster, "cluster")
    assert (cluster.nnodes, cluster.rdzv_endpoint) == (2, "gpu03:20077")


@pytest.mark.parametrize(
    "group",
    ["scheduler", "optimizer", "precision", "parallel", "checkpoint", "cluster", "logger"],
)
def test_a_group_left_out_is_named(tmp_path: Path, group: str) -> None:
    argv = [word for word in SMALL if not word.startswith(group)]
    with pytest.raises(ConfigError, match=rf"^{group}(: a run needs one|=null: must be)"):
        check_groups(compose_jobs(parse([*argv, f"~{group}"])))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["precision=[]"], "precision: a run needs one"),
        (["~model._target_"], "model._target_: is missing"),
        (["+logger.x=7"], "logger.x=7: a sink is a mapping with a _target_"),
        (["+logger.x.level=7"], "logger.x={'level': 7}: a sink is a mapping with a _target_"),
        (["optimizer=null"], "optimizer=null: a run needs a choice of optimizer. The options are"),
        (["objective=null"], "objective=null: to leave a group out, write ~objective instead."),
    ],
)
def test_a_group_without_a_target(tmp_path: Path, words: list[str], message: str) -> None:
    assert refused(tmp_path, *words).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# nothing", "model"),
        ("width: 3", "model._target_: is missing"),
    ],
)
def test_a_model_file_without_a_target(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text(text)
    argv = ["--config-dir", str(tmp_path), "model=mine"]
    assert refused(tmp_path, *argv).startswith(message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["+logger.x._target_=os.getcwd"],
            "logger.x._target_=os.getcwd gives a str; a logger is a components.logger.base.Logger.",
        ),
        (
            ["precision=fp32", "++precision._target_=builtins.dict"],
            "precision._target_=builtins.dict gives a dict; "
            "a precision is a components.precision.Precision.",
        ),
        (
            ["+objective._target_=collections.OrderedDict"],
            "objective._target_=collections.OrderedDict gives a OrderedDict; "
            "an objective is a class with count, loss_sum, metrics.",
        ),
        (
            ["checkpoint._target_=builtins.dict"],
            "checkpoint._target_=builtins.dict gives a dict; a checkpoint is a "
            "components.checkpoint.checkpoint.Checkpoint.",
        ),
    ],
)
def test_a_component_of_another_kind(tmp_path: Path, words: list[str], message: str) -> None:
    assert refused(tmp_path, *words) == message


def scheduled(name: str, *settings: str) -> list[str]:
    return [f"{TORCH}.{name}", "~scheduler.lr_lambda", *(f"+scheduler.{text}" for text in settings)]


def test_schedules_that_last_as_long_as_the_run_pass(tmp_path: Path) -> None:
    checked(tmp_path, *scheduled("ExponentialLR", "gamma=0.9"))
    checked(tmp_path, *scheduled("OneCycleLR", "max_lr=0.1", "total_steps=20"))


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["OneCycleLR", "max_lr=0.1", "total_steps=19"], ["ValueError", "19"]),
        (["StepLR", "step_size=0"], ["ZeroDivisionError"]),
        (["ReduceLROnPlateau"], ["TypeError", "metrics"]),
    ],
)
def test_a_schedule_that_would_fail_during_the_run(
    tmp_path: Path, words: list[str], parts: list[str]
) -> None:
    message = refused(tmp_path, *scheduled(*words))
    assert message.startswith(f"{TORCH}.{words[0]} refuses its settings: ")
    assert all(part in message for part in parts)


def with_optimizer(tmp_path: Path, name: str) -> list[str]:
    (tmp_path / "optimizer").mkdir()
    text = f"_target_: torch.optim.{name}\n_partial_: true\nlr: 0.1\n"
    (tmp_path / "optimizer" / "mine.yaml").write_text(text)
    return ["--config-dir", str(tmp_path), "optimizer=mine"]


@pytest.mark.parametrize(("name", "part"), [("LBFGS", "closure"), ("SparseAdam", "dense")])
def test_an_optimizer_that_cannot_step_as_the_loop_does(
    tmp_path: Path, name: str, part: str
) -> None:
    message = refused(tmp_path, *with_optimizer(tmp_path, name))
    assert message.startswith(f"optimizer._target_=torch.optim.{name} refuses its settings: ")
    assert part in message


@pytest.mark.parametrize("name", ["AdamW", "Adagrad", "Adafactor", "RMSprop", "NAdam"])
def test_other_optimizers_of_torch_pass(tmp_path: Path, name: str) -> None:
    checked(tmp_path, *with_optimizer(tmp_path, name))


def with_model(tmp_path: Path, name: str) -> list[str]:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text(f"_target_: {__name__}.{name}\n")
    return ["--config-dir", str(tmp_path), "model=mine"]


def test_lazy_parameters(tmp_path: Path) -> None:
    message = refused(tmp_path, *with_model(tmp_path, "Lazy"))
    assert "parameters without a shape (out.weight, out.bias)" in message
    assert "in_features" in message


def test_a_constructor_that_exits_is_no_success(tmp_path: Path) -> None:
    message = refused(tmp_path, *with_model(tmp_path, "Leaves"))
    assert message.startswith(f"model: {__name__}.Leaves cannot be built. SystemExit: 0")


def test_a_folder_that_takes_no_file() -> None:
    message = refused(Path("/proc/foo"))
    assert message.startswith("hydra.run.dir=/proc/foo: nothing can be written in /proc (")
    assert "GB" not in message
