"""A user's code run before a run, for its shapes alone, without being heard."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """What runs inside neither prints, logs nor warns; what it raises passes.

    The ranks will build and run the same model, and rank 0 speaks for them all: what a model
    says of itself would else stand on the console once more for each time it was looked at.
    """
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
