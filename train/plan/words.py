"""From the words of the command to the cells that are planned for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from components.device import Device
from components.errors import ConfigError
from train.command_line import Job, compose_jobs, parse
from train.diagnosis import unparsable
from train.groups import check_groups
from train.hydra_api import Composer
from train.merge import key_of
from train.plan.named_device import device_named
from train.plan.place import ELSEWHERE
from train.targets import check_jobs

OWN = ("plan.json", "plan.page", "plan.all")
"""Keys of this command alone."""

DEVICE = "cluster.device"
KINDS = ("auto", "cpu", "cuda")
SIZES = ("global_batch_size", "micro_batch_size", "accumulation")
RANKS = ("cluster.nnodes", "cluster.nproc_per_node")


@dataclass(frozen=True)
class Asked:
    """A cell that is asked for.

    Attributes:
        device: the named one.
        overrides: as their user has typed them.
    """

    job: Job
    device: Device | None
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Words:
    """What is asked for.

    Attributes:
        cells: in the order in which they are shown.
        json, page: files for all numbers, and for their picture.
        several: whether cells are compared.
        sizes_given: whether a size of a step is among the words.
        notes: what is planned otherwise than a run of these words would be.
    """

    cells: list[Asked]
    json: Path | None
    page: Path | None
    several: bool
    sizes_given: bool
    notes: tuple[str, ...] = ()


def read(argv: list[str]) -> Words:
    """Read and compose.

    Args:
        argv: the words behind `python -m train.plan`.

    Raises:
        ConfigError: for the first thing that cannot be.
    """
    own = {key: value for key, value in map(_own, argv) if key}
    for key in ("plan.json", "plan.page"):
        if own.get(key) in ("", "null"):
            raise ConfigError(f"{key}={own[key]} must name a file.")
    words = [word for word in argv if not _own(word)[0]]
    named = [word for word in words if key_of(word) == DEVICE]
    words = [word for word in words if word not in named]
    added = _of_nodes(words)
    words += added
    growing = _growing(words)
    words += growing
    if _is_true(own.get("plan.all", "false")):
        words += _every(words)
    cells, several = [], False
    for name, device in _devices(named[-1], words) if named else [("auto", None)]:
        # What ranks compute on; there need be no such device here, so nobody looks for it.
        kind = name if device is None else device.kind
        own_kind = [f"{DEVICE}={kind}"] if named else []
        line = parse([*words, *own_kind])
        if line.passthrough:
            raise ConfigError(
                f"python -m train.plan takes overrides, -m, --config-dir, {_listed(OWN)}; "
                "--help of its own, and not --cfg. Ask python -m train for these."
            )
        jobs = compose_jobs(line)
        check_groups(jobs)
        check_jobs(jobs)
        several = line.multirun
        typed = [f"{DEVICE}={name}"] if named else []
        untyped = {*added, *own_kind}  # one that grows has to be typed for a run too
        cells += [
            Asked(job, device, (*typed, *(word for word in job.overrides if word not in untyped)))
            for job in jobs
        ]
    if not cells:
        raise ConfigError(f"{named[-1]} names no device.")
    return Words(
        cells=cells,
        json=Path(own["plan.json"]) if own.get("plan.json") else None,
        page=Path(own["plan.page"]) if own.get("plan.page") else None,
        several=several,
        sizes_given=any(key_of(word) in SIZES for word in words),
        notes=(GROWS,) if growing else (),
    )


def _devices(word: str, words: list[str]) -> list[tuple[str, Device | None]]:
    """The names and the devices, None for what is here; several are compared as other words are.

    Raises:
        ConfigError: when there are several without -m, the word is none of Hydra's, or a device
            is not known.
    """
    names, line = [word.partition("=")[2]], parse(words)
    if re.search(r"[,(]", names[0]):
        for problem in unparsable(line.composer, [word]):
            raise ConfigError(problem)
        if not line.multirun:
            raise ConfigError(
                f"{word}: several devices are compared with -m: python -m train.plan -m"
            )
        (several,) = line.composer.parse([word])
        if several.is_sweep_override():
            names = list(several.sweep_string_iterator())
    return [
        (name, None if name in KINDS else device_named(line.composer, name, DEVICE))
        for name in names
    ]


def _own(word: str) -> tuple[str, str]:
    """A word of this command's own, as (key, value); empty for another's."""
    key, _, value = word.lstrip("+").partition("=")
    if key in OWN:
        return key, value
    if key == "plan" or key.startswith("plan."):
        raise ConfigError(
            f"{word}: the plan has no such word; it has {_listed(f'{k}=...' for k in OWN)}."
        )
    return "", ""


def _listed(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}"


def _is_true(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ConfigError(f"plan.all={value} must be true or false.")
    return value.lower() == "true"


def _of_nodes(words: list[str]) -> list[str]:
    """What several nodes need besides: a plan has no node of its own."""
    given = {key_of(word) for word in words}
    if not given & {"cluster.nnodes"} and "cluster=multi_node" not in words:
        return []
    more = [] if "cluster" in given else ["cluster=multi_node"]
    wanted = {"cluster.node_rank": "0", "cluster.rdzv_endpoint": ELSEWHERE}
    return more + [f"{key}={value}" for key, value in wanted.items() if key not in given]


GROWS = (
    "the micro-batch is given and the global batch is not: over several numbers of ranks it grows "
    "with them, by global_batch_size=null, which a run has to be given too"
)


def _growing(words: list[str]) -> list[str]:
    """Weak scaling: the default global batch is not held over several numbers of ranks.

    A run of some of these words would make up for fewer ranks by accumulation, and one of others
    would be refused: one sweep of two kinds.
    """
    given = {key_of(word) for word in words}
    swept = any(key_of(word) in RANKS and re.search(r"[,(]", word) for word in words)
    if swept and "micro_batch_size" in given and "global_batch_size" not in given:
        return ["global_batch_size=null"]
    return []


def _every(words: list[str]) -> list[str]:
    """Every strategy and precision, but for those that the words choose."""
    given = {key_of(word) for word in words}
    composer = Composer()
    chosen = [
        f"{group}={','.join(word for word in composer.options(group) if word != 'auto')}"
        for group in ("parallel", "precision")
        if group not in given
    ]
    return ["--multirun", *chosen] if "-m" not in words and "--multirun" not in words else chosen
