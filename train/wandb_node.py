"""Where a config puts its W&B runs."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf

TARGET = "components.logger.wandb.WandbLogger"


def wandb_options(config: DictConfig) -> dict[str, Any]:
    """The arguments of a resolved config's W&B logger; empty if it has none."""
    for node in (config.get("logger") or {}).values():
        if node is not None and node.get("_target_") == TARGET:
            plain = OmegaConf.to_container(node, resolve=True)
            assert isinstance(plain, dict)
            return {str(key): value for key, value in plain.items() if key != "_target_"}
    return {}
