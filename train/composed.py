"""Checks of one composed config: values left open, interpolations, keys that nobody reads."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationToMissingValueError, OmegaConfBaseException

from train.config_tree import Entry, entries, key_exists, raw_text, references
from train.hydra_api import Composer, resolving
from train.settings import check_settings


def check_composed(composer: Composer, config: DictConfig) -> list[str]:
    """What is wrong with a composed config (with its `hydra` node); empty if nothing is."""
    return [
        *_missing(config),
        *_unresolved(composer, config),
        *check_settings(config),
    ]


def _own_entries(config: DictConfig) -> list[Entry]:
    return [entry for entry in entries(config) if entry[0].split(".")[0] != "hydra"]


def _missing(config: DictConfig) -> list[str]:
    keys = [key for key, node, place in _own_entries(config) if OmegaConf.is_missing(node, place)]
    if not keys:
        return []
    example = " ".join(f"{key}=..." for key in keys)
    values = "a value" if len(keys) == 1 else "values"
    return [
        f"{', '.join(keys)}: must be given, the config leaves {values} open (???). Add {example}"
    ]


def _unresolved(composer: Composer, config: DictConfig) -> list[str]:
    problems = []
    with resolving(config):
        for key, node, place in _own_entries(config):
            if not OmegaConf.is_interpolation(node, place):
                continue
            try:
                node[place]
            except InterpolationToMissingValueError:
                continue  # told by the missing key itself
            except OmegaConfBaseException as error:
                problems.append(_explain(composer, config, key, raw_text(node, place), error))
            except Exception as error:  # a resolver's own
                problems.append(f"{key}={raw_text(node, place)}: {error}")
    return problems


def _explain(
    composer: Composer, config: DictConfig, key: str, text: str, error: OmegaConfBaseException
) -> str:
    absent = [ref for ref in references(text) if not key_exists(config, ref)]
    if not absent:
        return f"{key}={text} does not resolve: {str(error).splitlines()[0]}"
    needed = absent[0]
    group = needed.partition(".")[0]
    choices = config.hydra.runtime.choices
    chosen, needing = choices.get(group), key.partition(".")[0]
    if chosen is None:
        return f"{key} needs {needed}, and there is no such key. Set {key}=..."
    message = f"{key} needs {needed}, which {group}={chosen} does not provide"
    if needing != group and choices.get(needing):
        message += f" (asked for by {needing}={choices[needing]})"
    providing = [o for o in composer.options(group) if _provides(composer, config, needed, o)]
    if providing:
        return f"{message}. Take {group}={' or '.join(providing)}, or set {key}=..."
    return f"{message}. Take another {needing}, or set {key}=..."


def _provides(composer: Composer, config: DictConfig, key: str, option: str) -> bool:
    group = key.partition(".")[0]
    if option == config.hydra.runtime.choices.get(group):
        return False
    try:
        return key_exists(composer.compose([f"{group}={option}"]), key)
    except Exception:
        return False
