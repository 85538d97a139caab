"""Causal language models of the `transformers` library, built from a configuration."""

from __future__ import annotations

import difflib
import importlib.util
from typing import Any

from torch import Tensor, nn

from components.errors import ConfigError


class CausalLM(nn.Module):
    """A transformers model with random weights: (rows, time) ids to (rows, time, vocab) logits.

    Parameters keep transformers' own names behind `model.`. It has blocks to
    shard and re-compute by, but no stem and head: it cannot be a pipeline.
    """

    def __init__(self, *, architecture: str, config: dict[str, Any]) -> None:
        """Build `architecture` from its own config class; nothing is downloaded.

        Args:
            architecture: a class of transformers, such as `LlamaForCausalLM`.
            config: arguments of its config class, such as `hidden_size`.

        Raises:
            ConfigError: when transformers is not installed, has no such causal
                language model, or its config does not know or accept a setting.
        """
        super().__init__()
        model_class = causal_lm_class(architecture)
        settings = build_config(model_class.config_class, config)
        try:
            self.model = model_class(settings)
        except (TypeError, ValueError, KeyError, RuntimeError) as error:
            raise ConfigError(f"model.config does not make a {architecture}: {error}") from error
        # Kept as a number, because a sharded weight may be empty later.
        self.flops = training_flops(self.model)

    @property
    def blocks(self) -> nn.ModuleList:
        """The transformer's layers: the list with as many modules as the config has layers.

        Raises:
            AttributeError: for an architecture without such a list.
        """
        layers = self.model.config.num_hidden_layers
        for module in self.model.modules():
            if isinstance(module, nn.ModuleList) and len(module) == layers:
                return module
        raise AttributeError("blocks")

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of next tokens; without a key-value cache."""
        return self.model(input_ids=inputs, use_cache=False).logits

    def flops_per_sample(self) -> float:
        """Floating-point operations of a forward and backward over a sequence of full length.

        Counted as for the built-in GPT; architectures of which a token uses a
        part only (experts) are overestimated.
        """
        return self.flops


def training_flops(model: Any) -> float:
    """6 per matrix weight and token, 12 x layers x hidden size x length per token for attention.

    Chowdhery et al., 2022, appendix B. Matrices are read off the parameters,
    as transformers has several kinds of linear layer; embeddings are looked up.
    """
    weights = sum(
        parameter.numel()
        for module in model.modules()
        if not isinstance(module, nn.Embedding)
        for parameter in module.parameters(recurse=False)
        if parameter.dim() >= 2
    )
    length = model.config.max_position_embeddings
    attention = 12 * model.config.num_hidden_layers * model.config.hidden_size * length
    return float(length * (6 * weights + attention))


def causal_lm_class(architecture: str) -> Any:
    """The class of that name, which must be a causal language model of transformers."""
    if importlib.util.find_spec("transformers") is None:
        raise ConfigError(
            "model=transformers needs the transformers library, which is not installed: "
            "pip install 'shardlab[transformers]'."
        )
    import transformers

    known = set(transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
    if architecture not in known:
        near = difflib.get_close_matches(architecture, known, n=3)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        raise ConfigError(
            f"model.architecture={architecture} is not a causal language model of transformers "
            f"{transformers.__version__}.{hint}"
        )
    return getattr(transformers, architecture)


def build_config(config_class: Any, settings: dict[str, Any]) -> Any:
    """The config object; unlike transformers, which keeps any key, unknown ones are refused."""
    from huggingface_hub.errors import StrictDataclassError

    default = config_class()
    known = default.to_dict().keys() | default.attribute_map.keys()
    unknown = sorted(settings.keys() - known)
    if unknown:
        raise ConfigError(
            f"model.config.{unknown[0]}={settings[unknown[0]]} is not a setting of "
            f"{config_class.__name__}. Remove it with ~model.config.{unknown[0]}, or take one of "
            f"{', '.join(sorted(known))}."
        )
    try:
        return config_class(**settings)
    except (TypeError, ValueError, StrictDataclassError) as error:
        raise ConfigError(f"model.config is refused by {config_class.__name__}: {error}") from error
