"""The forms of an export: the plain module's state dict, and a folder that transformers loads."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from components.checkpoint.sources import Source
from components.errors import ConfigError
from components.model.huggingface import CausalLM
from train.export_model import Known

PREFIX = "model."
"""Before transformers' own names in a `CausalLM`."""


@dataclass(frozen=True)
class Form:
    """How weights are written.

    Attributes:
        stem: of the files' names.
        names: of the tensors, each with the source's name for it.
        beside: files that come with them.
        write_beside: writes those into a folder, for weights of a type.
    """

    stem: str
    names: dict[str, str]
    beside: tuple[str, ...] = ()
    write_beside: Callable[[Path, torch.dtype], None] = lambda folder, dtype: None


def plain(known: Known, source: Source) -> Form:
    """The plain module's state dict: a shared tensor under each of its names."""
    # The model's come last: it knows of shared buffers, which are saved under their first name.
    return Form("weights", {**{name: name for name in source.layouts}, **known.first_names()})


def transformers(known: Known, source: Source) -> Form:
    """What `AutoModelForCausalLM.from_pretrained` loads: it shares what the config says itself.

    Raises:
        ConfigError: when the model is none of transformers, or cannot be built.
    """
    model = known.model
    if not isinstance(model, CausalLM):
        cause = known.unknown or f"this one is a {type(model).__name__}"
        raise ConfigError(
            "--format transformers writes what AutoModelForCausalLM loads, and is for runs with "
            f"model=transformers: {cause}. Take --format safetensors."
        )
    inner = model.model

    def write_configs(folder: Path, dtype: torch.dtype) -> None:
        config = copy.deepcopy(inner.config)
        config.architectures = [type(inner).__name__]
        config.dtype = dtype
        config.save_pretrained(folder)
        inner.generation_config.save_pretrained(folder)

    names = {
        name.removeprefix(PREFIX): name for name in dict.fromkeys(known.first_names().values())
    }
    return Form("model", names, ("config.json", "generation_config.json"), write_configs)


FORMATS = {"safetensors": plain, "transformers": transformers}


def default_format(known: Known) -> str:
    """The form for those who ask for none."""
    return "transformers" if isinstance(known.model, CausalLM) else "safetensors"
