"""Giving modules of a model another forward around their own, in place.

The module's class becomes a subclass with the mixin in front: its name, parameters, hooks and
children stay, and so does that a replica or a deep copy of it runs on its own parameters, which
a function put on the instance would not. Modules of one class stay of one class, so that what is
compiled for one serves them all.
"""

from __future__ import annotations

from torch import nn


def mix_in(module: nn.Module, mixin: type[nn.Module]) -> None:
    """Make `mixin.forward` the module's, which finds the former as `super().forward`."""
    own = type(module)
    if (mixin, own) not in _mixed:
        _mixed[mixin, own] = type(own.__name__, (mixin, own), {"__module__": own.__module__})
    module.__class__ = _mixed[mixin, own]


_mixed: dict[tuple[type, type], type] = {}
"""By mixin and a module's own class."""
