"""Which `_target_`s a config may name: any of the user's own, few of one that a run's folder says.

A `_target_` is code that is called, and a run's folder may come from somebody else. What goes on
with a run or a sweep is therefore held against a list before anything that it names is imported.
"""

from __future__ import annotations

import functools
import importlib.util
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from train.config_tree import join
from train.locate import NotFound, locate
from train.problems import refuse

if TYPE_CHECKING:
    from train.command_line import CommandLine, Job

KEY = "allowed_targets"
NAMING = ("_target_", "comm_hook")
"""Keys whose values are dotted paths of what will be called."""

OWN_GROUPS = (
    *("model", "objective", "data", "optimizer", "scheduler", "parallel", "precision", "logger"),
    *("cluster.cluster", "checkpoint.checkpoint", "device"),
)
ALWAYS = (
    *(f"components.{group}" for group in OWN_GROUPS),
    *("torch.nn", "torch.optim", "torch._C._nn", "torch.distributed.algorithms"),
)
"""What can be called with any arguments: nothing in it starts a program, or runs what it loads.

So not all of torch, as torch.hub runs code that it fetches, nor what else is in `components`.
"""

KNOWN = "this project's components, torch.nn, torch.optim and modules of your own"


@dataclass(frozen=True)
class Limit:
    """The packages that targets may be of, beside `ALWAYS` and modules of the user's own.

    Attributes:
        packages: dotted names, as `torchvision` or `torchvision.models`.
        folder: where the config was read; nothing inside it is the user's own.
        key: the setting that allows more; None where there is none.
    """

    packages: tuple[str, ...]
    folder: Path | None = None
    key: str | None = KEY

    def admits(self, name: str) -> bool:
        """Whether a dotted name is allowed; its module is looked for, and not imported."""
        return any(_within(name, package) for package in (*ALWAYS, *self.packages)) or _own(
            name.partition(".")[0], self.folder
        )


def check_allowed(line: CommandLine, jobs: Iterable[Job]) -> None:
    """Hold every `_target_` of a command's jobs against what is allowed there.

    Raises:
        ConfigError: listing those that are not, each with its key and the cure.
    """
    problems: dict[str, None] = {}
    for job in jobs:
        given = line.allowed if line.taken_from else job.config.get(KEY)
        if given is not None:
            problems |= dict.fromkeys(_problems(job.config, _limit(given, line.taken_from)))
    refuse([*problems])


def check_node(node: DictConfig, key: str, folder: Path) -> None:
    """Hold a node that was read from a run's folder against what is allowed there.

    Raises:
        ConfigError: as `check_allowed`.
    """
    refuse(_problems(node, Limit((), folder, None), key))


def _limit(given: Sequence[str], folder: Path | None) -> Limit:
    return Limit(tuple(package.rstrip(".") for package in given), folder)


def _problems(config: DictConfig, limit: Limit, key: str = "") -> list[str]:
    targets = list(_targets(OmegaConf.to_container(config, resolve=True), key))
    named = [_refusal(at, name, name, limit) for at, name in targets if not limit.admits(name)]
    if named:
        return named
    # A module of a permitted package has others among its attributes: components.oom.os.system.
    real = [(at, name, _real_name(name)) for at, name in targets]
    return [_refusal(at, name, is_, limit) for at, name, is_ in real if not limit.admits(is_)]


def _targets(node: Any, key: str) -> Iterator[tuple[str, str]]:
    """Each target of a plain node with its key."""
    if isinstance(node, list):
        for i, item in enumerate(node):
            yield from _targets(item, join(key, i))
    elif isinstance(node, dict):
        for name in NAMING:
            if isinstance(node.get(name), str):
                yield join(key, name), node[name]
        for name, child in node.items():
            yield from _targets(child, join(key, name))


def _real_name(name: str) -> str:
    """Where the object behind a name was defined; the name itself if there is none."""
    try:
        found = locate(name)
    except NotFound:
        return name  # told later, with the cause
    while isinstance(found, functools.partial):
        found = found.func
    module = getattr(found, "__module__", None) or type(found).__module__
    return f"{module}.{getattr(found, '__qualname__', type(found).__qualname__)}"


def _refusal(key: str, name: str, is_: str, limit: Limit) -> str:
    what = f"{key}={name}" + ("" if name == is_ else f", which is {is_},")
    package = is_.partition(".")[0]
    if limit.folder is None:
        return (
            f"{what} is not allowed by {KEY}=[{', '.join(limit.packages)}], which leaves {KNOWN} "
            f"and what it lists. Add {package} to it, or set {KEY}=null."
        )
    cure = f" If you trust this one, add {limit.key}=[{package}]." if limit.key else ""
    return (
        f"{what} was read in {limit.folder}, and calling it could do anything. A run's folder may "
        f"name {KNOWN} only.{cure}"
    )


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _own(module: str, folder: Path | None) -> bool:
    """Whether a top-level module is neither installed nor inside a run's folder, or is nowhere."""
    if module in ("components", "train"):
        return False
    try:
        spec = importlib.util.find_spec(module)  # finds a top-level module without importing it
    except ValueError:
        return False
    if spec is None:
        return True
    places = [*(spec.submodule_search_locations or [])] or [spec.origin or ""]
    return all(_is_own(Path(place), folder) for place in places)


def _is_own(place: Path, folder: Path | None) -> bool:
    if not place.is_absolute():  # built into the interpreter, or frozen
        return False
    place = place.resolve()
    installed = {Path(path).resolve() for path in _installed()}
    if any(place.is_relative_to(path) for path in installed):
        return False
    if folder is None:
        return True
    inside = folder.resolve()
    return not place.is_relative_to(inside) and not inside.is_relative_to(place)


def _installed() -> list[str]:
    paths = sysconfig.get_paths()
    return [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
