"""What the fork server imports before a run's ranks are forked from it."""

from __future__ import annotations

from omegaconf import DictConfig

from components.errors import ConfigError
from components.logger.base import Logger
from train.targets import build

ALWAYS = ("train.worker", "components.checkpoint.saver")


def preload(config: DictConfig) -> tuple[str, ...]:
    """The project's own modules behind a config, and what its loggers ask for.

    A user's module is left out: what its import does must not happen in the fork server.
    """
    targets = [str(config[group].get("_target_", "")) for group in ("parallel", "model", "data")]
    own = [name.rpartition(".")[0] for name in targets if name.startswith("components.")]
    asked = []
    for node in config.logger.values():
        try:
            sink = None if node is None else build(node, "logger")
        except ConfigError:
            continue  # refused by whoever checks the config
        asked += list(sink.preload) if isinstance(sink, Logger) else []
    return (*ALWAYS, *own, *asked)
