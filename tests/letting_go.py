"""What gloo's threads hold on to when a collective is over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.distributed import Work

PAUSE_S = 0.005


@contextmanager
def letting_go() -> Iterator[None]:
    """Inside, whoever has waited for a collective waits until its thread has let go of the tensors.

    That thread says that the collective is over first, and drops its references then, for which it
    needs the interpreter's lock: a moment later, or much later where a core is missing. How long
    is chance, and what is counted meanwhile would be too.
    """
    wait = Work.wait

    def waited(work: Any, *args: Any) -> Any:
        result = wait(work, *args)
        time.sleep(PAUSE_S)
        return result

    Work.wait = waited
    try:
        yield
    finally:
        Work.wait = wait
