"""Which storages are born and die while a step runs, real or fake tensors alike."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

Event = tuple[str, int, int]
"""(`+` a birth or `-` a death, storage number, bytes)."""


class Tracker(TorchDispatchMode):
    """Writes down, in order, each storage that an operation makes and each that is dropped.

    Bytes are those of storages, not of tensors: a view adds nothing, and a storage lives until
    its last view is gone.

    Args:
        known: tensors that are there before; their storages are not counted.

    Attributes:
        events: what has happened.
        called: told of each operation, its arguments and its result.
    """

    def __init__(self, known: list[Tensor]) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.called: Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None] | None = None
        self._numbers: dict[int, tuple[int, int]] = {}
        self._known = [t.untyped_storage() for t in known]  # kept, so that no other takes its place
        self._ignored = {storage._cdata for storage in self._known}
        self._next = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        for made in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(made, Tensor):
                self.note(made)
        if self.called is not None:
            self.called(func, args, kwargs, result)
        return result

    def note(self, tensor: Tensor) -> int | None:
        """The number of a tensor's storage, counted from now on; None for one known before."""
        if not in_memory(tensor):
            return None
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._ignored:
            return None
        if key not in self._numbers:
            self._numbers[key] = (self._next, storage.nbytes())
            self.events.append(("+", self._next, storage.nbytes()))
            self._next += 1
            weakref.finalize(storage, self._dropped, key).atexit = False
        return self._numbers[key][0]

    def resized(self, storage: torch.UntypedStorage) -> None:
        """A counted storage has another size than before."""
        number, size = self._numbers.get(storage._cdata, (-1, 0))
        if number >= 0 and size != storage.nbytes():
            self.events += [("-", number, size), ("+", number, storage.nbytes())]
            self._numbers[storage._cdata] = (number, storage.nbytes())

    @contextmanager
    def noting_resizes(self) -> Iterator[None]:
        """Inside, storages that a library gives another size count so: FSDP frees what it gathers
        that way."""
        resize = torch.UntypedStorage.resize_

        def noted(storage: torch.UntypedStorage, size: int) -> Any:
            result = resize(storage, size)
            self.resized(storage)
            return result

        torch.UntypedStorage.resize_ = noted  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            torch.UntypedStorage.resize_ = resize  # type: ignore[method-assign]

    def _dropped(self, key: int) -> None:
        number, size = self._numbers.pop(key)
        self.events.append(("-", number, size))


def in_memory(tensor: Tensor) -> bool:
    """Whether a tensor has a storage of its own: not shapes alone, nor a wrapper of others, as a
    sparse tensor is of its indices and values."""
    return (
        tensor.device.type != "meta"
        and tensor.layout is torch.strided
        and not is_traceable_wrapper_subclass(tensor)
    )
