"""Which optimizers may run on pieces of the parameters."""

from __future__ import annotations

from torch import optim
from torch.optim import Optimizer

from components.errors import ConfigError

ELEMENTWISE = (
    optim.ASGD,
    optim.Adadelta,
    optim.Adagrad,
    optim.Adam,
    optim.AdamW,
    optim.Adamax,
    optim.NAdam,
    optim.RAdam,
    optim.RMSprop,
    optim.Rprop,
    optim.SGD,
)
"""Torch's own that update each element from its own gradient and state alone."""


def refuse_unless_elementwise(optimizer: Optimizer, parallel: str) -> None:
    """Refuse an optimizer that needs whole parameters where each rank updates pieces of them.

    Row means, matrix products or norms of a piece are not those of the whole, so such an
    optimizer would run, and train to other numbers. A class says what it is in a class
    attribute `elementwise`; without one, torch's known ones and their subclasses pass.

    Args:
        optimizer: as built, on whatever parameters.
        parallel: the strategy's word.

    Raises:
        ConfigError: naming the class and the cure.
    """
    cls = type(optimizer)
    if not getattr(cls, "elementwise", isinstance(optimizer, ELEMENTWISE)):
        raise ConfigError(
            f"optimizer._target_={cls.__module__}.{cls.__qualname__} is not known to work under "
            f"parallel={parallel}, where each rank updates pieces of the parameters: an optimizer "
            "that looks at whole rows, matrices or their norms would give other numbers there. "
            "Take parallel=ddp, or an elementwise optimizer, as torch.optim.AdamW; if this class "
            "is one, set `elementwise = True` in it (in a subclass, if it is not your own)."
        )
