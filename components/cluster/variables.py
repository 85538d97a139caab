"""Numbers that a launcher gives a process through its environment."""

from __future__ import annotations

from collections.abc import Mapping

from components.errors import ConfigError


def number(environ: Mapping[str, str], name: str, default: int | None = None, low: int = 0) -> int:
    """A variable's whole number, `default` where it is not set.

    Raises:
        ConfigError: when it is missing and has no default, or is no whole number from `low` on.
    """
    text = environ.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isdecimal() or int(text) < low:
        given = f"{name} is missing from" if text is None else f"{name}={text} in"
        raise ConfigError(
            f"{given} the environment: a launcher gives it as a whole number, {low} or more. "
            "Start the run by torchrun or srun, or unset the launcher's variables."
        )
    return int(text)


def below(environ: Mapping[str, str], rank: str, size: str) -> int:
    """A rank, which must be one of the gang's.

    Raises:
        ConfigError: when it is none.
    """
    found = number(environ, rank)
    if found >= number(environ, size):
        raise ConfigError(
            f"{rank}={environ[rank]} in the environment is not below {size}={environ[size]}: "
            f"ranks count from 0 to {size} - 1."
        )
    return found
