"""A number of parameters without a model: something to plan for, and nothing to train."""

from __future__ import annotations

from torch import nn

from components.errors import ConfigError


class Parameters(nn.Module):
    """Stands in a config for a model of which only the number of parameters is known."""

    def __init__(self, *, count: float) -> None:
        """`count`: how many.

        Raises:
            ConfigError: always, as there is nothing to build.
        """
        check_count(count)
        raise ConfigError(
            f"model=parameters is a bare number ({count:,.0f} parameters) without layers: it can "
            "be planned for, as in python -m train.plan model=parameters model.count="
            f"{count:g}, and not trained. Choose a model, as in model=gpt_nano."
        )


def check_count(count: float) -> int:
    """The number of parameters.

    Raises:
        ConfigError: when it is none.
    """
    if not 1 <= count < 1e18 or count != int(count):
        raise ConfigError(
            f"model.count={count} must be a whole number of parameters, as in 7.5e9, at least 1."
        )
    return int(count)
