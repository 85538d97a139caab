"""From the command line to the configs of all its jobs, before anything starts.

`parse` reads flags and overrides, `compose_jobs` composes one config, or those
of a whole sweep. Both refuse by ConfigError; neither makes a folder or a
process, and neither imports torch.
"""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from omegaconf import DictConfig, OmegaConf

from components.errors import ConfigError
from train import places, run_names
from train.beside import is_beside
from train.composed import check_composed
from train.config_tree import as_written
from train.diagnosis import explain, open_choices, several_values, unparsable
from train.hydra_api import Composer, HydraException, argument_parser, is_own_search, resolving
from train.merge import key_of
from train.problems import refuse
from train.slurm.options import chosen
from train.slurm.placed import STAND_IN
from train.sweep.options import ROOT
from train.sweep.space import read_space

OF_THE_COMMAND = tuple(f"{ROOT}.{key}" for key in ("slots", "on_error", "resume", "dry_run"))
"""Keys that say how this command runs its jobs, and nothing of any job."""

GROUP_OVERRIDE = re.compile(r"(\+{0,2})([A-Za-z_]\w*)=(?!\{)(.*)", re.DOTALL)


@dataclass(frozen=True)
class CommandLine:
    """A command line, read but not yet composed.

    Attributes:
        overrides: `key=value` words, with `+` set or dropped as Hydra needs it for groups.
        multirun: whether this is a sweep: by `-m`, or by a config's `hydra.mode: MULTIRUN`.
        passthrough: Hydra alone answers (`--help`, `--cfg job`, ...): nothing to compose here.
        argv: flags and overrides for `hydra_api.run`, equal in meaning to what was typed.
        composer: composes configs from this command line's folders.
        base: the config without a sweep's values; empty for a passthrough.
        taken_from: the folder of the run or sweep that some of the words are from; None otherwise.
        allowed: `allowed_targets` of a command with words from a folder, which has no say in it.
    """

    overrides: list[str]
    multirun: bool
    passthrough: bool
    argv: list[str]
    composer: Composer = field(repr=False, compare=False)
    base: DictConfig = field(repr=False, compare=False)
    taken_from: Path | None = None
    allowed: tuple[str, ...] = ()

    def with_words_of(self, folder: Path, own: CommandLine) -> CommandLine:
        """This command, some of whose words were read in a folder, and the others in `own`."""
        return replace(
            self, taken_from=folder, allowed=tuple(own.base.get("allowed_targets") or ())
        )


@dataclass(frozen=True)
class Job:
    """One job's composed config.

    Attributes:
        overrides: the job's own overrides, a sweep's values put in.
        config: resolved, without missing values and without Hydra's node.
        folder: where the job would run if it started now; the folder is not made.
        composed: with interpolations and Hydra's node: what a job of a sweep resolves and runs.
        number: position in the sweep, from 0; None outside a sweep.
    """

    overrides: list[str]
    config: DictConfig
    folder: Path
    composed: DictConfig = field(repr=False)
    number: int | None = None

    @property
    def label(self) -> str:
        """How messages name the job: empty outside a sweep."""
        if self.number is None:
            return ""
        return f"job {self.number} ({' '.join(self.overrides) or 'no overrides'})"


def parse(argv: list[str]) -> CommandLine:
    """Read flags and overrides, in any order.

    Args:
        argv: the words behind `python -m train`.

    Raises:
        ConfigError: for an unknown flag, flags that exclude each other, a config
            folder that does not exist, and overrides from which nothing can be composed.
    """
    parser = argument_parser()

    def error(message: str) -> NoReturn:
        raise ConfigError(f"{message[0].upper()}{message[1:]}. --help lists what there is.")

    parser.error = error  # type: ignore[method-assign]
    args = parser.parse_intermixed_args(argv)
    asked = (args.help, args.hydra_help, args.cfg, args.info, args.shell_completion)
    if args.experimental_rerun:
        raise ConfigError(
            "--experimental-rerun writes into the folder of the old run. Give the overrides "
            "in that run's .hydra/overrides.yaml again instead: each run has its own folder."
        )
    if sum(map(bool, (*asked, args.run, args.multirun))) > 1:
        raise ConfigError(
            "Only one of --run, --multirun, --help, --hydra-help, --cfg, --info and "
            "--shell-completion can be given."
        )
    if args.config_path and "://" not in args.config_path:
        args.config_path = os.path.abspath(args.config_path)

    run_names.register()
    places.register()
    composer = Composer(args.config_path, args.config_name, args.config_dir)
    primary = composer.primary_groups()
    overrides = [_as_hydra_needs(text, primary, composer) for text in args.overrides]
    passthrough = any(asked) or args.resolve or args.package is not None
    base = OmegaConf.create() if passthrough else _compose_base(composer, overrides)
    if chosen(base):
        places.register(STAND_IN, places.SLURM)
    return CommandLine(
        overrides=overrides,
        multirun=args.multirun or (not passthrough and composer.is_multirun(base)),
        passthrough=passthrough,
        argv=[*_flags(args), *overrides],
        composer=composer,
        base=base,
    )


def compose_jobs(command_line: CommandLine) -> list[Job]:
    """Compose every job of a command line: one, or all of a sweep.

    A sweep is expanded as Hydra's basic sweeper does, `hydra.sweeper.params`
    included. A search decides on its values later: then the jobs here have each
    word and each kind of number of its space once, and with another project's
    sweeper the one job here is the config without them.

    Raises:
        ConfigError: listing what is wrong with any job, each with its cure.
    """
    composer, base = command_line.composer, command_line.base
    if not command_line.multirun:
        refuse(several_values(composer, command_line.overrides))
        refuse(check_composed(composer, base))
        return [_job(base, None)]

    hydra_overrides = as_written(base.hydra.overrides.hydra)
    task_overrides = as_written(base.hydra.overrides.task)
    try:
        split = composer.split(base, task_overrides)
    except HydraException as error:
        raise ConfigError(f"The sweep cannot be expanded: {error}") from None
    if split is None:
        split, shared = _of_search(composer, base, of_jobs(task_overrides))
    else:
        split = [of_jobs(words) for words in split]
        shared = common(split)
    if not split:
        raise ConfigError(
            "The sweep has no job: a range or a glob among its values is empty, as range(0) and "
            f"range(3,1) are. Look at {' '.join(task_overrides)}"
        )

    run_names.leave_out(shared)
    problems: dict[str, str] = {}  # a mistake that several jobs share is told once
    jobs = []
    for number, overrides in enumerate(split):
        job, found = _compose_one(composer, hydra_overrides, overrides, number)
        jobs += [job] if job else []
        for problem in found:
            problems.setdefault(problem, f"job {number} ({' '.join(overrides)}): {problem}")
    refuse(list(problems.values()))
    return jobs


def of_jobs(words: list[str]) -> list[str]:
    """The overrides that say something of jobs, and not only how this command runs them."""
    return [text for text in words if key_of(text) not in OF_THE_COMMAND]


def _of_search(
    composer: Composer, base: DictConfig, words: list[str]
) -> tuple[list[list[str]], set[str]]:
    """Jobs that stand for those of a search, and the overrides that all its jobs share."""
    if is_own_search(base):
        space = read_space(composer, base.hydra.sweeper.get("params") or {}, words)
        return space.probes(), set(space.fixed)
    parsed = composer.parse(words)
    return [[o.input_line or "" for o in parsed if not o.is_sweep_override()]], set()


def compose_job(command_line: CommandLine, overrides: list[str], number: int) -> Job:
    """Compose one job of a sweep whose sweeper decides on values while it runs.

    Raises:
        ConfigError: listing what is wrong with it.
    """
    hydra_overrides = as_written(command_line.base.hydra.overrides.hydra)
    job, found = _compose_one(command_line.composer, hydra_overrides, overrides, number)
    refuse(found)
    assert job is not None
    return job


def _compose_one(
    composer: Composer, hydra_overrides: list[str], overrides: list[str], number: int
) -> tuple[Job | None, list[str]]:
    """One job of a sweep, or what is wrong with it."""
    try:
        config = composer.compose([*hydra_overrides, *overrides])
    except Exception as error:
        return None, explain(composer, [*hydra_overrides, *overrides], error)
    found = check_composed(composer, config)
    return (None if found else _job(config, number)), found


def common(split: list[list[str]]) -> set[str]:
    """The overrides that all jobs of a sweep share: a job's name need not say them."""
    return set.intersection(*map(set, split)) if len(split) > 1 else set()


def _compose_base(composer: Composer, overrides: list[str]) -> DictConfig:
    """The config without a sweep's values; it says whether there is a sweep at all."""
    refuse(unparsable(composer, overrides))
    try:
        config = composer.compose(overrides, multirun=True)
    except Exception as error:
        refuse(explain(composer, overrides, error, multirun=True))
        raise
    refuse(open_choices(composer, config, overrides))
    return config


def _job(composed: DictConfig, number: int | None) -> Job:
    kept = composed.copy()
    with resolving(composed, number):
        own = {key: composed[key] for key in composed if key != "hydra"}
        for value in own.values():
            if OmegaConf.is_config(value):
                OmegaConf.resolve(value)
        places = composed.hydra
        folder = Path(places.run.dir)
        if number is not None:
            folder = Path(places.sweep.dir) / places.sweep.subdir
    config = OmegaConf.create(own)
    OmegaConf.set_struct(config, True)
    return Job(as_written(composed.hydra.overrides.task), config, folder, kept, number)


def _as_hydra_needs(override: str, primary: list[str], composer: Composer) -> str:
    """`group=option` and `+group=option` mean the same: set or drop the `+`.

    Hydra wants it for a group outside the primary defaults list, and refuses it for one inside.
    """
    if is_beside(key_of(override)) and override[0] not in "+~":
        return f"++{override}"
    match = GROUP_OVERRIDE.fullmatch(override)
    if match is None or not composer.is_group(match[2]):
        return override
    plus = "" if match[2] in primary else "+"
    return f"{plus}{match[2]}={match[3]}"


def _flags(args: argparse.Namespace) -> list[str]:
    """The flags again, each in its long form, in front of the overrides."""
    flags = []
    for name, value in vars(args).items():
        if name == "overrides" or value is None or value is False:
            continue
        flag = f"--{name.replace('_', '-')}"
        flags.append(flag if value is True else f"{flag}={value}")
    return flags
