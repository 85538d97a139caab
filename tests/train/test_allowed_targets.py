from __future__ import annotations

import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from components.errors import ConfigError
from tests.train.conftest import write_files
from train.allowed_targets import Limit, check_allowed, check_node
from train.command_line import CommandLine, Job, compose_jobs, parse
from train.hydra_api import CONF
from train.merge import merged


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working tree with a module of the user's, and a run's folder with one that came with it."""
    code = "import os\nimport torch.hub\nclass Net: ...\nopen('was_imported', 'w').close()\n"
    write_files(tmp_path, {"my_nets.py": code, "outputs/run/planted.py": code})
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_nets", raising=False)
    return tmp_path


def command(*words: str) -> tuple[CommandLine, list[Job]]:
    line = parse(list(words))
    return line, compose_jobs(line)


def from_folder(folder: Path, *words: str, given: str = "seed=0") -> tuple[CommandLine, list[Job]]:
    """A command whose words were read in a folder, with one of its own."""
    line, jobs = command(*words)
    return line.with_words_of(folder, parse([given])), jobs


def refusal(folder: Path, target: str, given: str = "seed=0") -> str:
    line, jobs = from_folder(folder, f"model._target_={target}", given=given)
    with pytest.raises(ConfigError) as refused:
        check_allowed(line, jobs)
    return str(refused.value)


def test_a_command_of_ones_own_names_what_it_likes(own: Path) -> None:
    check_allowed(*command("model._target_=os.system"))


@pytest.mark.parametrize(
    "target", ["components.model.mlp.MLP", "torch.nn.Linear", "my_nets.Net", "torch.nn.GELU"]
)
def test_what_a_runs_folder_may_name(own: Path, target: str) -> None:
    check_allowed(*from_folder(own / "outputs" / "run", f"model._target_={target}"))


@pytest.mark.parametrize(
    ("target", "package"),
    [
        ("os.system", "os"),
        ("subprocess.run", "subprocess"),
        ("builtins.eval", "builtins"),
        ("torch.hub.load", "torch"),
        ("torch.load", "torch"),
        ("hydra.utils.get_method", "hydra"),
        ("numpy.load", "numpy"),
        ("components.checkpoint.folders.clean", "components"),
        ("train.command.main", "train"),
        ("outputs.run.planted.Net", "outputs"),
    ],
)
def test_what_it_may_not(own: Path, target: str, package: str) -> None:
    told = refusal(own / "outputs" / "run", target)
    assert told.startswith(f"model._target_={target} was read in {own}/outputs/run, and calling it")
    assert told.endswith(f"If you trust this one, add allowed_targets=[{package}].")
    assert not Path("was_imported").exists()


@pytest.mark.parametrize(
    ("target", "real"),
    [("my_nets.os.system", "posix.system"), ("my_nets.torch.hub.load", "torch.hub.load")],
)
def test_a_detour_over_a_module_that_is_allowed(own: Path, target: str, real: str) -> None:
    told = refusal(own / "outputs" / "run", target)
    assert told.startswith(f"model._target_={target}, which is {real}, was read in ")


def test_nested_targets_are_found(own: Path) -> None:
    folder = own / "outputs" / "run"
    line, jobs = from_folder(folder, "+optimizer.hooks=[{a:{_target_:os.system}}]")
    with pytest.raises(ConfigError, match=r"optimizer\.hooks\.0\.a\._target_=os\.system was"):
        check_allowed(line, jobs)


def test_the_command_allows_more_and_the_folder_does_not(own: Path) -> None:
    folder, model = own / "outputs" / "run", "model._target_=os.path.join"
    check_allowed(*from_folder(folder, model, given="allowed_targets=[os,posixpath]"))
    line, jobs = from_folder(folder, model, "allowed_targets=[os,posixpath]")
    with pytest.raises(ConfigError, match=r"add allowed_targets=\[os\]"):
        check_allowed(line, jobs)


def test_a_runs_own_list_is_not_handed_on() -> None:
    assert merged(["allowed_targets=[os]", "steps=3"], ["resume=x"], []) == ["steps=3"]


def test_a_limit_of_ones_own(own: Path) -> None:
    check_allowed(*command("allowed_targets=[]", "model._target_=my_nets.Net"))
    line, jobs = command("allowed_targets=[torchvision]", "model._target_=os.system")
    with pytest.raises(ConfigError) as refused:
        check_allowed(line, jobs)
    assert str(refused.value) == (
        "model._target_=os.system is not allowed by allowed_targets=[torchvision], which leaves "
        "this project's components, torch.nn, torch.optim and modules of your own and what it "
        "lists. Add os to it, or set allowed_targets=null."
    )


def test_a_package_is_not_allowed_by_how_its_name_begins() -> None:
    assert Limit(("os",)).admits("os.path.join")
    assert not Limit(("o", "torch.optimus")).admits("os.system")
    assert not Limit(()).admits("torch.nnx")


def test_a_node_of_a_folder(own: Path) -> None:
    node = OmegaConf.create({"_target_": "os.system", "command": "true"})
    with pytest.raises(ConfigError) as refused:
        check_node(node, "model", own)
    assert str(refused.value).endswith("torch.optim and modules of your own only.")


def test_every_target_of_the_projects_own_configs_may_stand_in_a_runs_folder() -> None:
    found = {
        line.partition("_target_:")[2].strip()
        for path in CONF.rglob("*.yaml")
        if path.parent.name != "sweeper"
        for line in path.read_text().splitlines()
        if line.strip().startswith("_target_:")
    }
    assert {"components.cluster.cluster.Cluster", "torch.optim.AdamW"} <= found
    assert [name for name in found if not Limit(()).admits(name)] == []


def test_a_hook_is_held_against_the_list_before_it_is_imported(own: Path) -> None:
    folder, hook = own / "outputs" / "run", "parallel.comm_hook=outputs.run.planted.Net"
    line, jobs = from_folder(folder, "parallel=ddp", hook)
    with pytest.raises(ConfigError, match=f"{hook} was read in"):
        check_allowed(line, jobs)
    assert not Path("was_imported").exists()
    for known in (
        "components.parallel.comm_hooks.bf16_compress",
        "torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook",
    ):
        check_allowed(*from_folder(folder, "parallel=ddp", f"parallel.comm_hook={known}"))
