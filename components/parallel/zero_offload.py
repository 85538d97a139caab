"""Which offloads a ZeRO stage has."""

from __future__ import annotations

from components.errors import ConfigError
from components.parallel.zero_config import ZeroOptions


def check_offload(options: ZeroOptions) -> None:
    """Refuse an offload that the stage does not have, or that lacks its folder.

    Raises:
        ConfigError: naming both settings.
    """
    stage, where = options.stage, options.offload_params
    if where != "none" and stage != 3:
        raise ConfigError(
            f"parallel.offload_params={where} moves spread parameters, and parallel.stage={stage} "
            "spreads none: take parallel=zero3, or parallel.offload_params=none."
        )
    if options.offload_optimizer == "nvme" and stage != 3:
        raise ConfigError(
            f"parallel.offload_optimizer=nvme with parallel.stage={stage}: DeepSpeed writes to "
            "disk at stage 3 only and would silently use the CPU. Take parallel=zero3, or "
            "parallel.offload_optimizer=cpu."
        )
    nvme = [
        f"parallel.{key}=nvme"
        for key in ("offload_optimizer", "offload_params")
        if getattr(options, key) == "nvme"
    ]
    if nvme and options.nvme_path is None:
        raise ConfigError(
            f"{' and '.join(nvme)} needs parallel.nvme_path: a folder on a fast local disk."
        )
