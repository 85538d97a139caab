"""The keys of `hydra.launcher` under `hydra/launcher=slurm`: what is asked of Slurm for a job."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from components.errors import ConfigError
from train.annotations import mismatch, written
from train.hydra_api import SLURM_LAUNCHER, launcher_of
from train.nearest import hint
from train.problems import refuse

ROOT = "hydra.launcher"

TIME = re.compile(r"\d+(:\d{1,2}){0,2}|\d+-\d{1,2}(:\d{1,2}){0,2}")
MEMORY = re.compile(r"\d+[KMGT]?")
GPUS = re.compile(r"([A-Za-z][\w.-]*:)?[1-9]\d*")
FLAG = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

OURS: dict[str, str] = {
    "partition": "partition",
    "account": "account",
    "qos": "qos",
    "time": "time",
    "cpus-per-task": "cpus",
    "mem": "memory",
    "gpus-per-node": "gpus",
    "requeue": "requeue",
    "no-requeue": "requeue",
    "signal": "grace_s",
}
"""Flags of sbatch that have a key of their own."""

FIXED = (
    *("array", "nodes", "ntasks", "ntasks-per-node", "job-name", "output", "error", "open-mode"),
    *("chdir", "parsable", "wait", "wrap", "test-only", "help", "version", "input", "quiet"),
)
"""Flags that the submission itself needs to set."""

MAX_GRACE_S = 65535
"""The most that sbatch takes behind --signal."""


@dataclass(frozen=True, kw_only=True)
class SlurmOptions:
    """What is asked for each job, and how it is followed. See conf/hydra/launcher/slurm.yaml.

    Attributes:
        cpus, memory, gpus: of each node.
        parallel: elements of an array that run at once; None leaves it to Slurm.
        grace_s: how long before its time limit a job is warned, seconds; 0: not at all.
        requeue: whether a job that was warned, preempted or lost a node goes into the queue again.
        setup: lines of shell, before the run.
        sbatch: further flags, by name; True is a flag without a value, None and False are none.
        wait: whether the command follows its jobs to their ends.
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time: str | int | None = None
    cpus: int | None = None
    memory: str | int | None = None
    gpus: str | int | None = None
    parallel: int | None = None
    grace_s: int = 120
    requeue: bool = True
    setup: list[str] = field(default_factory=list)
    sbatch: dict[str, str | int | bool | None] = field(default_factory=dict)
    wait: bool = True

    @property
    def gpus_per_node(self) -> int:
        """The number in `gpus`, whatever kind it names."""
        return 0 if self.gpus is None else int(str(self.gpus).rpartition(":")[2])


KEYS = tuple(field.name for field in dataclasses.fields(SlurmOptions))


def chosen(config: DictConfig) -> bool:
    """Whether a composed config, with its `hydra` node, is to be submitted."""
    return launcher_of(config) == SLURM_LAUNCHER


def options_of(config: DictConfig) -> SlurmOptions:
    """The options in a composed config that is to be submitted.

    Raises:
        ConfigError: listing what is wrong with them.
    """
    try:
        node = OmegaConf.to_container(config.hydra.launcher, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError(f"{ROOT}: {str(error).splitlines()[0]}. Give a plain value.") from None
    assert isinstance(node, dict)
    plain: dict[str, Any] = {str(key): value for key, value in node.items() if key != "_target_"}
    refuse([*_unknown(plain), *_mismatched(plain)])
    refuse(_out_of_range(plain))
    return SlurmOptions(**plain)


def refuse_setup_of(config: DictConfig, own: Collection[str], folder: Path) -> None:
    """Refuse lines of shell that nobody has typed: the folder may be somebody else's.

    Args:
        config: composed, with words that were read in a folder.
        own: keys of the words that were typed.

    Raises:
        ConfigError: with the lines.
    """
    lines = options_of(config).setup
    if lines and not {f"{ROOT}.setup", "hydra/launcher"} & {*own}:
        raise ConfigError(
            f"{ROOT}.setup={lines} was read in {folder}, and a job would run these lines. If they "
            f"are yours, give {ROOT}.setup again, or the whole command with sweep.resume={folder}."
        )


def _unknown(plain: dict[str, Any]) -> list[str]:
    return [
        " ".join(filter(None, [f"{ROOT}.{key}: there is no such key.", hint(key, list(KEYS))]))
        for key in plain
        if key not in KEYS
    ]


def _mismatched(plain: dict[str, Any]) -> list[str]:
    hints = typing.get_type_hints(SlurmOptions)
    return [
        f"{ROOT}.{key}={written(value)}: {wrong}."
        for key, value in plain.items()
        if key in hints and (wrong := mismatch(hints[key], value)) is not None
    ]


def _out_of_range(plain: dict[str, Any]) -> list[str]:
    problems = []

    def wrong(key: str, what: str) -> None:
        problems.append(f"{ROOT}.{key}={written(plain[key])}: {what}.")

    for key, form, what in (
        ("time", TIME, "must be a time as Slurm writes it: 90 (minutes), 2:00:00 or 1-12:00:00"),
        ("memory", MEMORY, "must be an amount as Slurm writes it: 64G, or megabytes"),
        ("gpus", GPUS, "must be a number above 0, or a kind and a number as a100:8"),
    ):
        if plain.get(key) is not None and not form.fullmatch(str(plain[key])):
            wrong(key, what)
    for key in ("cpus", "parallel"):
        if plain.get(key) is not None and plain[key] < 1:
            wrong(key, "must be 1 or more")
    if not 0 <= plain.get("grace_s", 0) <= MAX_GRACE_S:
        wrong("grace_s", f"must be 0 to {MAX_GRACE_S} seconds")
    for key in ("partition", "account", "qos"):
        if plain.get(key) is not None and not _one_line(plain[key]):
            wrong(key, "must be a name")
    problems += [
        f"{ROOT}.setup: {line!r} is more than a line. Make it several of the list."
        for line in plain.get("setup", [])
        if not _one_line(line)
    ]
    return problems + _flags(plain.get("sbatch", {}))


def _flags(given: dict[str, Any]) -> list[str]:
    problems = []
    for name, value in given.items():
        key = f"{ROOT}.sbatch.{name}"
        if not FLAG.fullmatch(str(name)):
            problems.append(f"{key}: must be a flag of sbatch without its dashes, as constraint.")
        elif name in OURS:
            problems.append(f"{key}: has a key of its own: {ROOT}.{OURS[name]}.")
        elif name in FIXED:
            problems.append(f"{key}: is set by the submission itself. Leave it out.")
        elif isinstance(value, str) and not _one_line(value):
            problems.append(f"{key}={value!r}: must be one line, and not empty.")
    return problems


def _one_line(text: str) -> bool:
    return bool(text.strip()) and text.isprintable()
