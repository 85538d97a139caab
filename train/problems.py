"""Several mistakes of one configuration, told in one message."""

from __future__ import annotations

from components.errors import ConfigError


def refuse(problems: list[str]) -> None:
    """Raise one ConfigError that lists all `problems`; return if there are none.

    Raises:
        ConfigError: a single problem as it stands, several as a numbered list.
    """
    if not problems:
        return
    if len(problems) == 1:
        raise ConfigError(problems[0])
    lines = "\n".join(f"  {number}. {text}" for number, text in enumerate(problems, start=1))
    raise ConfigError(f"{len(problems)} mistakes in the configuration:\n{lines}")
