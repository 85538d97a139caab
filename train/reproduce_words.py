"""The command that runs a recorded run again: its words, its folder, its environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from yaml import YAMLError

from components.errors import ConfigError
from train.files import read_json
from train.merge import START_ONLY, folder_word, key_of
from train.reproduce_code import Tree, moved

SWEEPS = (
    "hydra.run",
    "hydra.sweep",
    "hydra.mode",
    "hydra.launcher",
    "hydra/launcher",
    "hydra/sweep",
)
"""How keys begin that say where and how jobs run, `hydra.sweeper` among them."""

LAUNCHERS = (
    *("RANK", "LOCAL_", "WORLD_SIZE", "GROUP_", "ROLE_", "MASTER_", "TORCHELASTIC_"),
    *("SLURM_", "PET_"),
)
"""How the variables begin by which a process knows that a launcher started it."""

RESTORED = ("OMP_", "MKL_", "KMP_", "PYTHONHASHSEED")
"""Variables that are set as they were: threads, and the order of Python's sets."""


NOT_IN_GIT = (
    "was in no git repository, so that only its version is known. Runs that are to be reproduced "
    "start from a clone, or from one that is installed by `pip install -e`."
)


@dataclass(frozen=True)
class Rerun:
    """A command that runs a recorded run again.

    Attributes:
        argv: in full, the interpreter included.
        cwd: where.
        environ: all of its environment.
        pinned: keys of the config that stand for what `auto` meant then.
    """

    argv: list[str]
    cwd: Path
    environ: dict[str, str]
    pinned: tuple[str, ...]


def rerun(
    folder: Path,
    provenance: dict[str, Any],
    config: dict[str, Any],
    trees: Sequence[Tree],
    out: Path,
) -> Rerun:
    """The command for the run in `folder`, with the code in `trees`, into the folder `out`.

    Args:
        provenance, config: what the folder's files say.
        trees: the project's own first.

    Raises:
        ConfigError: when it cannot be read how the run was started, or git has no such code.
    """
    then, project = Path(provenance["cwd"]), _project(provenance, trees)
    cwd = then if then.is_dir() else Path.cwd()
    pinned = pins(config, provenance)
    words = [
        *_words(folder, project, trees),
        *(f"++{key}={value}" for key, value in pinned.items()),
        "hydra.mode=RUN",
        folder_word("hydra.run.dir", out.absolute()),
    ]
    recorded = provenance.get("environment", {})
    environ = environment(os.environ, recorded)
    environ["PYTHONPATH"] = os.pathsep.join(
        _path(then, recorded.get("PYTHONPATH", ""), project, trees)
    )
    # `-m` would put the working folder, whose files have changed since, first of all.
    environ["PYTHONSAFEPATH"] = "1"
    return Rerun([sys.executable, "-m", "train", *words], cwd, environ, tuple(pinned))


def environment(now: Mapping[str, str], recorded: Mapping[str, str]) -> dict[str, str]:
    """The present variables without a launcher's, and those that bear on threads as they were."""
    kept = {k: v for k, v in now.items() if not k.startswith((*LAUNCHERS, *RESTORED))}
    return kept | {k: v for k, v in recorded.items() if k.startswith(RESTORED)}


def pins(config: dict[str, Any], provenance: dict[str, Any]) -> dict[str, Any]:
    """What `auto` meant on the machine of the run: its ranks, their threads, their device."""
    cluster = config.get("cluster", {})
    found = {"nproc_per_node": cluster.get("nproc_per_node")}
    device = provenance["cell"]["cluster"].rpartition("-")[2]
    threads = [rank["threads"] for rank in provenance.get("in_force", [])]
    if cluster.get("device") == "auto":
        found["device"] = device
    if cluster.get("threads_per_rank") == "auto" and threads:
        found["threads_per_rank"] = threads[0]
    return {f"cluster.{key}": value for key, value in found.items() if value is not None}


def _project(provenance: dict[str, Any], trees: Sequence[Tree]) -> Path:
    """Where this project's code lay when the run was made."""
    project = Path(provenance.get("project", trees[0].top))
    entry = project / "train" / "__main__.py"
    if moved(entry, trees) == entry:
        raise ConfigError(f"{project}: the run's code {NOT_IN_GIT}")
    return project


def _words(folder: Path, project: Path, trees: Sequence[Tree]) -> list[str]:
    """Flags and overrides, without those that say where and how the run was started."""
    try:
        hydra = OmegaConf.load(folder / ".hydra" / "hydra.yaml").hydra
        own, task = list(hydra.overrides.hydra), list(hydra.overrides.task)
        sources = {source.provider: str(source.path) for source in hydra.runtime.config_sources}
        flags = [f"--config-name={hydra.job.config_name}"]
    except (OSError, AttributeError, YAMLError) as error:
        raise ConfigError(
            f"{folder}: its .hydra/hydra.yaml, which says how the run was started, cannot be read "
            f"({str(error).splitlines()[0]}). Put it back from a copy of the folder."
        ) from error
    main = sources.get("main", "")
    if main and Path(main) != project / "conf":
        flags.append(f"--config-path={moved(Path(main), trees)}")
    if "command-line" in sources:
        extra = Path(sources["command-line"].removeprefix("file://"))
        flags.append(f"--config-dir={moved(extra, trees)}")
    settled = read_json(folder / "provenance.json").get("auto")
    if settled:  # what parallel=auto came to then
        task = [text for text in task if key_of(text).partition(".")[0] != "parallel"]
        task.append(f"parallel={settled['parallel']}")
    return [
        *flags,
        *(text for text in own if not key_of(text).startswith(SWEEPS)),
        *(text for text in task if key_of(text) not in START_ONLY),
    ]


def _path(cwd: Path, recorded: str, project: Path, trees: Sequence[Tree]) -> list[str]:
    """What the run had on Python's path before its packages, in its order."""
    entries = [cwd, *(cwd / entry for entry in recorded.split(os.pathsep) if entry), project]
    return list(dict.fromkeys(str(moved(entry, trees)) for entry in entries))
