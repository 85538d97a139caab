"""A config's identity: the same for every attempt at the same run, and for its twin elsewhere."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from omegaconf import DictConfig, OmegaConf

VOLATILE = (
    *("resume", "resume_allow", "run_id", "dry_run", "allowed_targets", "memory_check"),
    *("sweep", "hydra"),
)
"""Root keys that say how a run is started, not what it is."""


def lasting(config: DictConfig | dict[str, Any]) -> dict[str, Any]:
    """The config as plain containers, without what says only how a run is started."""
    plain = config if isinstance(config, dict) else OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items() if key not in VOLATILE}


def config_hash(config: DictConfig) -> str:
    """SHA-256 of `lasting`, in hexadecimal."""
    text = json.dumps(lasting(config), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
