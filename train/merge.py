"""A run's own overrides, and those that are given beside `resume`, which win."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

START_ONLY = ("resume", "resume_allow", "run_id", "dry_run", "allowed_targets")
"""Keys that say how one command starts a run, and are not handed on to the next."""


def merged(before: Sequence[str], given: Sequence[str], groups: Collection[str]) -> list[str]:
    """The overrides of a run that is resumed with further ones.

    One that is given again takes the place of the old. A group that is chosen anew drops what
    was set below it: `parallel=ddp` has no use for `parallel.stage=2`.

    Args:
        before: the run's, as its `.hydra/overrides.yaml` has them.
        given: on the command line, `resume` among them.
        groups: names that are groups, as `parallel`.
    """
    keys = {key_of(text) for text in given}
    chosen = {key for key in keys if key in groups}
    kept = [
        text
        for text in before
        if key_of(text) not in {*keys, *START_ONLY}
        and not any(key_of(text).startswith(f"{group}.") for group in chosen)
    ]
    return [*kept, *(text for text in given if key_of(text) != "resume")]


def key_of(override: str) -> str:
    """The key of `key=value`, `+key=value`, `++key=value`, `~key` or `~key=value`."""
    return override.lstrip("+~").partition("=")[0].partition("@")[0].strip()


def folder_word(key: str, folder: Path) -> str:
    """The override that sets `key` to a folder, whatever characters the folder's name has."""
    text = str(folder).replace("'", "\\'").replace("${", "\\${")
    return f"{key}='{text}'"
