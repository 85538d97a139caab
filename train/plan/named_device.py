"""Devices by name: those of conf/device, and the one that is here."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from components.device import Device
from components.errors import ConfigError
from train.hydra_api import Composer, HydraException
from train.kinds import build_kind
from train.nearest import hint
from train.plan.measured_device import read_device

CORE = "cpu_core"
"""What stands for each core of a CPU."""


def device_named(
    composer: Composer, name: str, key: str, here: str = "auto, cpu and cuda, for this machine"
) -> Device:
    """A device of conf/device, or the one that a check's file describes.

    Args:
        key: that names it, for messages.
        here: what the key takes besides.

    Raises:
        ConfigError: when there is none.
    """
    if name.endswith(".json"):
        return read_device(Path(name), key)
    if ".." in name or not composer.has_option("device", name):
        known = composer.options("device")
        raise ConfigError(
            f"{key}={name}: no such device. {hint(name, known)} ".rstrip()
            + f" Known are {here}, and {', '.join(known)}; another is a file in conf/device, or "
            "in device/ of a --config-dir, or one of python -m train.check --json."
        )
    try:
        config = composer.compose([f"+device={name}"])
        node = DictConfig(OmegaConf.to_container(config.device, resolve=True))
    except (OmegaConfBaseException, HydraException, YAMLError, AttributeError) as error:
        told = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ConfigError(f"{key}={name}: its file is no config of a device ({told}).") from error
    if "_target_" not in node:
        raise ConfigError(
            f"{key}={name}: its file has no _target_. Begin it with defaults: [a100_80gb], and "
            "change what differs."
        )
    device: Device = build_kind(Device, node, "device")
    return device


def device_here(composer: Composer, kind: str, threads: float) -> Device | None:
    """The figures of this machine's device, as far as they are known; None where they are not.

    Args:
        kind: `cuda` or `cpu`.
        threads: of one rank, where that is a CPU's; less than one where ranks share a core.
    """
    if kind == "cpu":
        core = device_named(composer, CORE, "device")
        flops = {name: threads * rate for name, rate in core.flops.items()}
        return replace(core, name=f"{core.name}, {threads:g} a rank", flops=flops)
    import torch

    return same_kind(composer, torch.cuda.get_device_name(0), torch.cuda.get_device_properties(0))


def same_kind(composer: Composer, name: str, properties: object) -> Device | None:
    """Of the known devices with a GPU's name the one whose memory is nearest to its own."""
    known = [device_named(composer, word, "device") for word in composer.options("device")]
    alike = [d for d in known if re.sub(r" \d+ GB.*", "", d.name) in name]
    memory = getattr(properties, "total_memory", 0)
    return min(alike, key=lambda d: abs(d.memory_bytes - memory), default=None)
