"""Checks of one composed config: values left open, interpolations, keys that nobody reads."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationToMissingValueError

from train.config_tree import Entry, entries, key_exists, raw_text, references
from train.hydra_api import Composer, resolving
from train.options_with import options_with
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
    needs: dict[str, list[tuple[str, str]]] = {}  # by group: (key, the key that it needs)
    with resolving(config):
        for key, node, place in _own_entries(config):
            if not OmegaConf.is_interpolation(node, place):
                continue
            text = raw_text(node, place)
            try:
                node[place]
            except InterpolationToMissingValueError:
                continue  # told by the missing key itself
            except Exception as error:  # OmegaConf's, or a resolver's own
                absent = [ref for ref in references(text) if not key_exists(config, ref)]
                if absent:
                    needs.setdefault(absent[0].partition(".")[0], []).append((key, absent[0]))
                else:
                    problems.append(f"{key}={text} does not resolve: {_first_line(error)}")
    return problems + [_needing(composer, config, group, pairs) for group, pairs in needs.items()]


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _needing(
    composer: Composer, config: DictConfig, group: str, pairs: list[tuple[str, str]]
) -> str:
    """Which keys need what another group's choice does not provide, and which choices would."""
    choices = config.hydra.runtime.choices
    keys = ", ".join(dict.fromkeys(key for key, _ in pairs))
    needed = list(dict.fromkeys(need for _, need in pairs))
    verb = "needs" if len(pairs) == 1 else "need"
    own = " ".join(f"{key}=..." for key, _ in pairs)
    if choices.get(group) is None:
        return f"{keys} {verb} {', '.join(needed)}, which does not exist. Set {own}"
    message = f"{keys} {verb} {', '.join(needed)}, which {group}={choices[group]} does not provide"
    needing = keys.partition(".")[0]
    if needing != group and choices.get(needing):
        message += f" (asked for by {needing}={choices[needing]})"
    providing = options_with(composer, config, group, needed)
    if providing:
        return f"{message}. Take {group}={' or '.join(providing)}, or set {own}"
    return f"{message}. Take another {needing}, or set {own}"
