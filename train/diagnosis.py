"""Why Hydra would not compose: each override's own mistake, with the nearest name and the cure."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from train.config_tree import full_keys, key_exists
from train.groups import REQUIRED
from train.hydra_api import Composer, Override, OverrideParseException
from train.nearest import hint, nearest
from train.options_with import options_with

NOISE = (
    "To append to",
    "See http",
    "Set the environment variable",
    "Config search path",
    "provider=",
    "full_key:",
    "object_type=",
)
"""Beginnings of lines in Hydra's messages that hint at a wrong cure, or at none."""


def unparsable(composer: Composer, overrides: list[str]) -> list[str]:
    """The overrides that break the grammar, each with what to write instead."""
    problems = []
    for text in overrides:
        try:
            composer.parse([text])
        except OverrideParseException:
            problems.append(f"{text}: {_grammar(text)}")
    return problems


def _grammar(text: str) -> str:
    key, equals, value = text.partition("=")
    if not equals:
        return f"an override is written key=value, so {text}=... ({text}=null for no value)."
    for opening, closing in ("[]", "{}", "()"):
        if value.count(opening) != value.count(closing):
            return f"{opening} and {closing} do not pair up in the value."
    if not key.strip("+~"):
        return "there is no key in front of the = sign."
    return (
        "the value does not parse. Quote what holds = , : ' \" or brackets, "
        f"inside the shell's quotes: '{key}=\"{value}\"'"
    )


def open_choices(composer: Composer, base: DictConfig, overrides: list[str]) -> list[str]:
    """The groups for which an option must be chosen and was not, a sweep's choices counted."""
    swept = {o.key_or_group for o in composer.parse(overrides) if o.is_sweep_override()}
    choices: Any = OmegaConf.to_container(base.hydra.runtime.choices)
    return [
        f"{group}: an option must be chosen, as in {group}={options[0]}. "
        f"The options are {', '.join(options)}."
        for group, choice in choices.items()
        if choice == "???" and group not in swept
        for options in [composer.options(group) or ["..."]]
    ]


def several_values(composer: Composer, overrides: list[str]) -> list[str]:
    """The overrides that only a sweep can take, for a run that is none."""
    problems = []
    for override in composer.parse(overrides):
        if not override.is_sweep_override():
            continue
        text, key = override.input_line or "", override.key_or_group
        value = text.partition("=")[2]
        cure = "Add -m to run one job a value"
        if "(" not in value:
            cure += f"; for a list write '{key}=[{value}]', for text '{key}=\"{value}\"'"
        problems.append(f"{text}: several values for one run. {cure}.")
    return problems


def explain(
    composer: Composer, overrides: list[str], error: Exception, *, multirun: bool = False
) -> list[str]:
    """The mistakes behind a failed composition.

    Args:
        overrides: parsable ones, with which composing raised `error`.
        multirun: whether values of a sweep were left out.

    Returns:
        One text a mistake, at least one.
    """
    parsed = composer.parse(overrides)
    groups = [o for o in parsed if _chooses(composer, o)]
    problems = [p for o in groups for p in _wrong_option(composer, o, multirun)]
    if problems:
        return problems
    try:
        config = composer.compose([o.input_line or "" for o in groups], multirun=multirun)
    except Exception as inner:
        return [_plain(inner)]
    swept = [o.key_or_group for o in groups if o.is_sweep_override()]
    values = [o for o in parsed if o not in groups]
    problems = [p for o in values for p in _wrong_value(composer, config, o, swept)]
    return problems or [_plain(error)]


def _chooses(composer: Composer, override: Override) -> bool:
    """Whether an override chooses an option of a group."""
    return composer.is_group(override.key_or_group) and not isinstance(override.value(), dict)


def _wrong_option(composer: Composer, override: Override, multirun: bool) -> list[str]:
    group = override.key_or_group
    if override.is_delete():
        return []
    if override.is_sweep_override():
        if not (multirun and override.is_discrete_sweep()):
            return []
        values = [str(value) for value in override.sweep_iterator()]
    else:
        value = override.value()
        if value is None:
            return [_left_out(composer, group)]
        values = [str(v) for v in value] if isinstance(value, list) else [str(value)]
    options = composer.options(group)
    return [
        f"{group}={value}: {group} has no option {value}. "
        + f"{hint(value, options)} The options are {', '.join(options)}.".lstrip()
        for value in values
        if value not in options and not composer.has_option(group, value)
    ]


def _left_out(composer: Composer, group: str) -> str:
    if group not in REQUIRED:
        return f"{group}=null: to leave a group out, write ~{group} instead."
    options = ", ".join(composer.options(group))
    return f"{group}=null: a run needs a choice of {group}. The options are {options}."


def _wrong_value(
    composer: Composer, config: DictConfig, override: Override, swept: list[str]
) -> list[str]:
    key, text = override.key_or_group, override.input_line or ""
    if override.is_sweep_override():
        return _unknown(composer, config, key, text, swept) if not override.is_add() else []
    exists = key_exists(config, key)
    value = override.value()
    if override.is_add():
        taken = exists and OmegaConf.select(config, key, throw_on_missing=False) is not None
        if taken and not isinstance(value, (dict, list)):
            return [f"{text}: {key} exists already. Drop the +: {text.lstrip('+')}"]
    elif not override.is_force_add() and not exists:
        return _unknown(composer, config, key, text, swept)
    if override.is_delete():
        return []
    try:
        OmegaConf.update(config.copy(), key, value, merge=True, force_add=True)
    except OmegaConfBaseException as error:
        return [f"{text}: {_plain(error)}"]
    return []


def _unknown(
    composer: Composer, config: DictConfig, key: str, text: str, swept: list[str]
) -> list[str]:
    if key_exists(config, key):
        return []
    known = full_keys(config)
    if key.startswith("hydra."):
        node = DictConfig({"hydra": config.hydra})
        known = [f"hydra.{name}" for name in full_keys(node.hydra)]
    message = f"{text}: there is no key {key}."
    root = key.partition(".")[0]
    if root in swept:
        return [
            f"{message} Not every option of {root} in this sweep has it, and the first config "
            f"is composed without the sweep: write ++{text.lstrip('+')} to set it in every job."
        ]
    elsewhere = options_with(composer, config, root, [key]) if "." in key else []
    if elsewhere:
        words = " or ".join(f"{root}={option}" for option in elsewhere)
        has = "has" if len(elsewhere) == 1 else "have"
        return [f"{message} {root}={_chosen(config, root)} has none; {words} {has} it."]
    found = nearest(key, known if "." in key else [*known, *composer.groups()])
    if found:
        return [f"{message} Did you mean {found[0]}?"]
    siblings = OmegaConf.select(config, key.rpartition(".")[0]) if "." in key else config
    if siblings is None:
        parent = key.rpartition(".")[0]
        return [f"{message} The config has no mapping {parent}: +{text.lstrip('+')} adds it."]
    if not OmegaConf.is_dict(siblings):
        return [message]
    names = [str(n) for n in siblings if n != "hydra" and not str(n).startswith("_")]
    message += f" The keys there are {', '.join(names)}."
    if "_target_" in siblings and not text.startswith("~"):
        message += (
            f" If {siblings._target_} takes it as an argument, +{text} adds it and it is "
            "checked against the signature."
        )
    return [message]


def _chosen(config: DictConfig, group: str) -> str:
    return str(config.hydra.runtime.choices.get(group))


def _plain(error: BaseException) -> str:
    """An error's own words without hints at Hydra's inside; the innermost one's if it has none."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(NOISE)]
    cause = error.__cause__
    if cause is not None and str(cause).strip():
        inner = _plain(cause)
        if inner not in kept:
            kept.append(inner)
    return " ".join(kept) or type(error).__name__
