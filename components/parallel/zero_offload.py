"""Which offloads a ZeRO stage has."""

from __future__ import annotations

from components.errors import ConfigError
from components.parallel.zero_config import ZeroOptions
from components.parallel.zero_extra import quiet_import


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
    nvme = _nvme(options)
    if nvme and options.nvme_path is None:
        raise ConfigError(f"{nvme} needs parallel.nvme_path: a folder on a fast local disk.")


def check_nvme(options: ZeroOptions) -> None:
    """Refuse NVMe offload where DeepSpeed cannot build its asynchronous file access.

    Raises:
        ConfigError: naming what is missing.
    """
    nvme = _nvme(options)
    if not nvme:
        return
    quiet_import()
    from deepspeed.ops.op_builder import AsyncIOBuilder

    if not AsyncIOBuilder().is_compatible(verbose=False):
        raise ConfigError(
            f"{nvme} needs DeepSpeed's async_io operation, which cannot be built here: install "
            "libaio with its headers (libaio-dev) and a C++ compiler, or offload to cpu."
        )


def refuse_to_save_nvme(options: ZeroOptions) -> None:
    """Refuse checkpoints of optimizer state that lives in files.

    Raises:
        ConfigError: naming both settings.
    """
    if nvme := _nvme(options):
        raise ConfigError(
            f"{nvme} keeps state in files of DeepSpeed's own, which a checkpoint cannot read: take "
            "checkpoint=weights, which saves the final weights alone, or offload to cpu."
        )


def _nvme(options: ZeroOptions) -> str:
    """The settings that ask for NVMe, as a phrase; empty when none does."""
    places = {
        "offload_optimizer": options.offload_optimizer,
        "offload_params": options.offload_params,
    }
    return " and ".join(f"parallel.{key}=nvme" for key, where in places.items() if where == "nvme")
