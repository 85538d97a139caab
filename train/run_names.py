"""Folder names made of overrides: short, legible, safe as one part of a path.

A name holds letters, digits, `.`, `-` and `_` only. So it never nests, it fits
every file system, and a run's folder pastes as it is behind `init_from=`.
The overrides themselves are kept in the run's `.hydra/overrides.yaml`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

from train.config_tree import as_written
from train.hydra_api import register_resolver

LIMIT = 80
"""Bytes of a short name. With the time or a job's number in front it stays under 100."""

FIRST = ("parallel", "precision")
LAST = ("logger", "log_every", "dry_run")

UNSAFE = re.compile(r"[^A-Za-z0-9.]+")


_left_out: set[str] = set()


def register() -> None:
    """Make `${run_name:...}` known to configs: call before Hydra composes. May be called again."""
    register_resolver("run_name", lambda overrides: short_name(telling(as_written(overrides))))


def leave_out(overrides: set[str]) -> None:
    """Overrides that the names of a sweep's jobs need not say, for all of them share these."""
    _left_out.clear()
    _left_out.update(overrides)


def left_out() -> list[str]:
    """The same, in order."""
    return sorted(_left_out)


def telling(overrides: Sequence[str]) -> list[str]:
    """The overrides that a job's name has to say."""
    return [text for text in overrides if text not in _left_out]


def short_name(overrides: Sequence[str]) -> str:
    """One part of a path that says what was overridden; `default` if nothing was.

    `["parallel=fsdp", "optimizer.lr=0.01"]` gives `parallel-fsdp_lr-0.01`. A key is
    cut to its last part where that is unique. A name over `LIMIT` bytes ends in
    eight hex digits of the SHA-256 of all overrides, so that two of them differ.
    """
    pairs = sorted((_pair(text) for text in overrides), key=_place)
    last = Counter(key.rpartition(".")[2] for key, _ in pairs)
    parts = []
    for key, value in pairs:
        short = key.rpartition(".")[2]
        parts.append(_safe(f"{short if last[short] == 1 else key}-{value}"))
    name = "_".join(part for part in parts if part) or "default"
    if len(name) <= LIMIT:
        return name
    digest = hashlib.sha256("\n".join(overrides).encode()).hexdigest()[:8]
    return f"{name[: LIMIT - 9].rstrip('-_.')}-{digest}"


def _place(pair: tuple[str, str]) -> int:
    """What a reader looks for comes first, and is not cut away; what changes no result last."""
    key = pair[0]
    return 0 if key in FIRST else 2 if key.split(".")[0] in LAST else 1


def _pair(override: str) -> tuple[str, str]:
    key, _, value = override.partition("=")
    if key.startswith("~"):
        return f"no-{key[1:]}", value
    return key.lstrip("+"), value


def _safe(text: str) -> str:
    text = re.sub(r"(?<=\d)e\+(?=\d)", "e", text)  # 1e+30 is not to read as 1e-30
    return UNSAFE.sub("-", text).strip("-.")
