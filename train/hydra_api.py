"""All that this project takes from Hydra's inside, and what its version 1.4 deprecates.

`version_base`, resolver registration, `instantiate` and Hydra's internals (its
argument parser, its config loader, the way its sweeper splits a sweep) are
used here alone, so that a new Hydra is one file's work. Nothing here imports torch.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import hydra
from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.default_element import GroupDefault
from hydra.core.hydra_config import HydraConfig
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.core.utils import JobRuntime, run_job, setup_globals
from hydra.errors import HydraException, InstantiationException, OverrideParseException
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from components.errors import ConfigError

__all__ = [
    "Composer",
    "HydraException",
    "InstantiationException",
    "Override",
    "OverrideParseException",
    "argument_parser",
    "current_folder",
    "enter_job",
    "instantiate",
    "is_own_search",
    "is_search",
    "launcher_of",
    "place_job",
    "register_resolver",
    "resolved",
    "resolving",
    "run",
    "run_sweep",
]

CONF = Path(__file__).resolve().parent.parent / "conf"
VERSION_BASE = "1.3"
BASIC_LAUNCHER = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"
BASIC_SWEEPER = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"
OWN_SWEEPER = "hydra_plugins.shardlab.Search"
SLURM_LAUNCHER = "hydra_plugins.shardlab.Slurm"


def argument_parser() -> argparse.ArgumentParser:
    """Hydra's own parser of flags and overrides."""
    return get_args_parser()


def run(task: Callable[[DictConfig], Any], argv: list[str]) -> None:
    """Enter Hydra: make the run folder (or those of a sweep) and call `task` with each config.

    Args:
        task: a function of a module that can be imported, so that other launchers can send it.
        argv: flags and overrides, as `CommandLine.argv` has them.
    """
    sys.argv[1:] = argv
    hydra.main(version_base=VERSION_BASE, config_path=str(CONF), config_name="config")(task)()


def run_sweep(
    launcher: type[Launcher], slurm: type[Launcher], search: type[Sweeper], argv: list[str]
) -> None:
    """Enter Hydra for a sweep, whose sweeper hands its jobs to a launcher of this project's.

    Hydra takes plugins from its own packages only, so the launcher of this machine goes by the name
    of its default, and the others by names in the package of plugins, which need not exist.
    """
    known = Plugins.instance().class_name_to_class
    known[BASIC_LAUNCHER] = launcher
    known[SLURM_LAUNCHER] = slurm
    known[OWN_SWEEPER] = search
    # It would compose each job once more, for a check that has been made.
    setattr(known[BASIC_SWEEPER], "validate_batch_is_legal", lambda sweeper, batch: None)  # noqa: B010
    run(_no_task, argv)


def _no_task(config: DictConfig) -> None:
    """The launcher does not call what Hydra would have it call."""


def place_job(config: DictConfig, folder: Path, number: int) -> None:
    """Point a job's composed config, with its `hydra` node, at its folder and place in a sweep."""
    with read_write(config.hydra), open_dict(config.hydra):
        config.hydra.mode = RunMode.MULTIRUN
        config.hydra.job.id = config.hydra.job.num = number
        config.hydra.sweep.dir, config.hydra.sweep.subdir = str(folder.parent), folder.name


def enter_job(context: HydraContext, config: DictConfig) -> DictConfig:
    """Make a placed job's folder with what Hydra keeps in it; the job's resolved config."""
    result = run_job(
        hydra_context=context,
        task_function=resolved,
        config=config,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )
    return cast(DictConfig, result.return_value)


def is_search(config: DictConfig) -> bool:
    """Whether the sweeper decides on its jobs while it runs."""
    return bool(config.hydra.sweeper.get("_target_") != BASIC_SWEEPER)


def is_own_search(config: DictConfig) -> bool:
    """Whether that sweeper is this project's."""
    return bool(config.hydra.sweeper.get("_target_") == OWN_SWEEPER)


def launcher_of(config: DictConfig) -> str | None:
    """The class that is to start the jobs."""
    launcher = config.hydra.launcher.get("_target_") if config else None
    return None if launcher is None else str(launcher)


def current_folder() -> Path:
    """Inside a run: its folder, absolute."""
    return Path(HydraConfig.get().runtime.output_dir).absolute()


def resolved(config: DictConfig) -> DictConfig:
    """A job's config with every interpolation replaced by its value."""
    plain = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    OmegaConf.set_struct(plain, True)
    return cast(DictConfig, plain)


def register_resolver(name: str, function: Callable[..., Any]) -> None:
    """Make `${name:...}` available to configs. May be called again."""
    OmegaConf.register_new_resolver(name, function, replace=True)


@contextmanager
def resolving(config: DictConfig, number: int | None = None) -> Iterator[None]:
    """Inside, `${hydra:...}` in a composed config resolves as it will in the job.

    The folder that a job runs in is known only there; until then it is `.`.

    Args:
        config: with its `hydra` node, which keeps the folder and the number.
        number: the job's place in a sweep.
    """
    instance = HydraConfig.instance()
    before = instance.cfg
    with read_write(config.hydra):
        config.hydra.runtime.output_dir = "."
        if number is not None:
            config.hydra.job.num = number
    instance.set_config(config)
    try:
        yield
    finally:
        instance.cfg = before


class Composer:
    """Composes configs as Hydra would for a command line, and makes nothing else.

    No folder, no process, and none of Hydra's global state but its resolvers
    and the name of the job.

    Args:
        config_path: a primary config folder instead of the project's own.
        config_name: the primary config's name.
        config_dir: a further folder of groups, searched as well.

    Raises:
        ConfigError: if a folder or the primary config does not exist.
    """

    def __init__(
        self,
        config_path: str | None = None,
        config_name: str | None = None,
        config_dir: str | None = None,
    ) -> None:
        version.setbase(VERSION_BASE)
        setup_globals()
        JobRuntime().set("name", "train")
        search_path = create_config_search_path(config_path or str(CONF))
        if config_dir is not None:
            folder = os.path.abspath(config_dir)
            if not os.path.isdir(folder):
                raise ConfigError(
                    f"--config-dir {config_dir}: there is no such folder ({folder}). "
                    "Give the folder that holds your groups, as in conf/model/my_model.yaml."
                )
            search_path.prepend(
                provider="command-line",
                path=f"file://{folder}",
                anchor=SearchPathQuery(provider="schema"),
            )
        self.name = config_name or "config"
        self.loader = ConfigLoaderImpl(config_search_path=search_path)
        self._check_primary(config_path)

    def _check_primary(self, config_path: str | None) -> None:
        repository = self.loader.repository
        if not repository.config_exists(self.name):
            where = f"--config-path {config_path}" if config_path else str(CONF)
            options = self.loader.get_group_options("", ObjectType.CONFIG)
            found = ", ".join(name for name in options if not name.startswith("_"))
            raise ConfigError(
                f"--config-name {self.name}: {where} holds no {self.name}.yaml; "
                f"it holds {found or 'no config at all'}."
            )

    def parse(self, overrides: Iterable[str]) -> list[Override]:
        """The overrides, parsed by Hydra's grammar.

        Raises:
            OverrideParseException: for the first that breaks the grammar.
        """
        return OverridesParser.create(config_loader=self.loader).parse_overrides(list(overrides))

    def compose(self, overrides: list[str], *, multirun: bool = False) -> DictConfig:
        """One config with its `hydra` node. With `multirun`, the values of a sweep are left out."""
        return self.loader.load_configuration(
            config_name=self.name,
            overrides=overrides,
            run_mode=RunMode.MULTIRUN if multirun else RunMode.RUN,
            validate_sweep_overrides=not multirun,
        )

    def primary_groups(self) -> list[str]:
        """The groups in the primary config's defaults list, in its order."""
        loaded = self.loader.repository.load_config(self.name)
        assert loaded is not None
        defaults = loaded.defaults_list or []
        return [d.group for d in defaults if isinstance(d, GroupDefault) and d.group]

    def is_group(self, key: str) -> bool:
        """Whether `key`, as in `model` or `logger/wandb`, is a folder of options."""
        return bool(self.loader.repository.group_exists(key))

    def groups(self, parent: str = "") -> list[str]:
        """The groups in `parent`, the user's included, Hydra's own left out."""
        found = self.loader.list_groups(parent)
        return [f"{parent}/{g}" if parent else g for g in found if parent or g != "hydra"]

    def options(self, group: str) -> list[str]:
        """The options of a group, the user's included."""
        return sorted(self.loader.get_group_options(group, ObjectType.CONFIG))

    def has_option(self, group: str, option: str) -> bool:
        """Whether `group=option` names a config, `model=mine/wide` in a folder of it included."""
        return bool(self.loader.repository.config_exists(f"{group}/{option}"))

    def is_multirun(self, config: DictConfig) -> bool:
        """Whether the config itself asks for a sweep (`hydra.mode: MULTIRUN`)."""
        return bool(config.hydra.mode == RunMode.MULTIRUN)

    def sweep_dir(self, config: DictConfig) -> Path:
        """The folder of the sweep that would start now; it is not made."""
        with resolving(config):
            return Path(config.hydra.sweep.dir)

    def split(self, config: DictConfig, overrides: list[str]) -> list[list[str]] | None:
        """The overrides of each job of a sweep, in the sweeper's order.

        None for a sweeper that decides on its jobs while it runs.
        """
        sweeper = config.hydra.sweeper
        if is_search(config):
            return None
        params = [f"{key}={value}" for key, value in (sweeper.get("params") or {}).items()]
        parsed = self.parse([*params, *overrides])
        batches = BasicSweeper.split_arguments(parsed, None)
        return [job for batch in batches for job in batch]
