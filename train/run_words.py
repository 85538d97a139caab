"""The words of a command that goes on with a run: its own, and those the run was started with."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from omegaconf import ListConfig, OmegaConf
from yaml import YAMLError

from components.errors import ConfigError
from train.command_line import CommandLine, parse
from train.config_tree import as_written
from train.folder_words import check_config_folder, check_words
from train.hydra_api import CONF
from train.merge import folder_word, key_of, merged

AUTO = "auto"
GO_ON = ("resume", "sweep.resume")
"""Keys that name what a command goes on with."""


def read(argv: list[str]) -> CommandLine:
    """The command line; words that only what is gone on with has a place for included.

    Raises:
        ConfigError: as from `parse`, unless a run or a sweep that is resumed has still to be asked.
    """
    try:
        return parse(argv)
    except ConfigError:
        asked = [text for text in argv if _is_override(text) and key_of(text) in GO_ON]
        rest = [text for text in argv if _is_override(text) and text not in asked]
        if not asked:
            raise
        bare = parse([text for text in argv if text not in rest])
        named = [OmegaConf.select(bare.base, key) for key in GO_ON]
        if all(name in (None, AUTO) for name in named):
            raise
        return replace(bare, overrides=[*bare.overrides, *rest], argv=[*bare.argv, *rest])


def _is_override(text: str) -> bool:
    return text.startswith("~") or ("=" in text and not text.startswith("-"))


def continued(line: CommandLine, folder: Path) -> CommandLine:
    """The command in full: the words with which the run in `folder` was started, and its own.

    Raises:
        ConfigError: when it cannot be read how the run was started.
    """
    own = _own_words(folder)
    words = merged(own.overrides, line.overrides, [*line.composer.groups()])
    return with_folder(parse([*_flags(line, own, folder), *words]), folder).with_words_of(
        folder, line
    )


def with_folder(line: CommandLine, folder: Path) -> CommandLine:
    """The same command in a given folder: one run, whatever its config says of sweeps."""
    others = [text for text in line.argv if key_of(text) not in ("hydra.run.dir", "hydra.mode")]
    mode = ["hydra.mode=RUN"] if line.multirun else []
    return parse([*others, *mode, folder_word("hydra.run.dir", folder)])


@dataclass(frozen=True)
class _Words:
    """What a run was started with."""

    overrides: list[str]
    flags: dict[str, str]


def _own_words(folder: Path) -> _Words:
    """Overrides, and the flags that name configs outside the project."""
    try:
        overrides = OmegaConf.load(folder / ".hydra" / "overrides.yaml")
        hydra = OmegaConf.load(folder / ".hydra" / "hydra.yaml").hydra
        name = str(hydra.job.config_name)
        sources = {one.provider: str(one.path) for one in hydra.runtime.config_sources}
        if not isinstance(overrides, ListConfig):
            raise AttributeError("overrides.yaml holds no list")
    except (OSError, AttributeError, TypeError, YAMLError) as error:
        raise ConfigError(
            f"resume={folder}: its .hydra folder, which says how the run was started, cannot be "
            f"read ({str(error).splitlines()[0]}). Give the same overrides again with "
            f"hydra.run.dir={folder} resume=auto."
        ) from error
    words = [str(text) for text in as_written(overrides)]
    check_words(words, folder, "resume")
    flags = {"--config-name": name}
    main = sources.get("main", str(CONF))
    if not Path(main).is_dir():
        print(f"resume={folder}: {main} is gone, and {CONF} takes its place", file=sys.stderr)
    elif main != str(CONF):
        flags["--config-path"] = main
    if "command-line" in sources:
        flags["--config-dir"] = sources["command-line"].removeprefix("file://")
    return _Words(words, flags)


def _flags(line: CommandLine, own: _Words, folder: Path) -> list[str]:
    """The command's flags, and the run's own where it gives none.

    Raises:
        ConfigError: when one of the run's own names configs inside its folder.
    """
    given = line.argv[: len(line.argv) - len(line.overrides)]
    names = {flag.partition("=")[0] for flag in given}
    added = {name: value for name, value in own.flags.items() if name not in names}
    for flag in ("--config-path", "--config-dir"):
        if flag in added:
            check_config_folder(added[flag], folder, "resume")
    return [*given, *(f"{name}={value}" for name, value in added.items())]
