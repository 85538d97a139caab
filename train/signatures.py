"""Do a node's arguments fit the signature of its target?"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any

from train.annotations import mismatch, written
from train.config_tree import join
from train.nearest import hint

POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
UNKNOWN = Parameter.empty


@dataclass(frozen=True)
class Arguments:
    """What a node passes to its target.

    Attributes:
        named: by name.
        positional: the node's `_args_`.
        complete: whether nothing is added later (`_partial_` is false).
    """

    named: Mapping[str, Any]
    positional: list[Any] = field(default_factory=list)
    complete: bool = True


def misfits(target: Callable[..., Any], name: str, key: str, given: Arguments) -> list[str]:
    """What does not fit: unknown, missing and doubly given arguments, and wrong types.

    Args:
        target: the callable; one without a signature (some written in C) passes.
        name: how messages name it.
        key: the node's full config key.
        given: its arguments.
    """
    try:
        signature = inspect.signature(target)
    except (ValueError, TypeError):
        return []
    parameters = list(signature.parameters.values())
    annotations = _annotations(target, parameters)
    named = {p.name: p for p in parameters if p.kind in NAMED}
    takes_any = any(p.kind is Parameter.VAR_KEYWORD for p in parameters)
    takes_more = any(p.kind is Parameter.VAR_POSITIONAL for p in parameters)
    positional = [p for p in parameters if p.kind in POSITIONAL]
    filled = positional[: len(given.positional)]

    problems = []
    if len(given.positional) > len(positional) and not takes_more:
        problems.append(
            f"{join(key, '_args_')}: {name} takes {len(positional)} positional arguments, "
            f"{len(given.positional)} are given."
        )
    for index, (parameter, value) in enumerate(zip(filled, given.positional, strict=False)):
        place = join(key, f"_args_.{index}")
        problems += _typed(place, name, annotations.get(parameter.name, UNKNOWN), value)
    for argument, value in given.named.items():
        full = join(key, argument)
        parameter_of = named.get(argument)
        if parameter_of is None:
            if not takes_any:
                problems.append(_unknown(full, name, argument, value, list(named)))
        elif parameter_of in filled:
            problems.append(f"{full}: {name} gets {argument} in _args_ already. Keep one of them.")
        else:
            problems += _typed(full, name, annotations.get(argument, UNKNOWN), value)
    if given.complete:
        absent = [
            p.name
            for p in parameters
            if p.kind in (*POSITIONAL, Parameter.KEYWORD_ONLY)
            and p.default is Parameter.empty
            and p not in filled
            and p.name not in given.named
        ]
        if absent:
            keys = ", ".join(join(key, argument) for argument in absent)
            problems.append(
                f"{keys}: required by {name} and not given. Add "
                + " ".join(f"+{join(key, argument)}=..." for argument in absent)
            )
    return problems


def _typed(key: str, name: str, annotation: Any, value: Any) -> list[str]:
    wrong = None if annotation is UNKNOWN else mismatch(annotation, value)
    return [] if wrong is None else [f"{key}={written(value)}: {name} {wrong}."]


def _unknown(key: str, name: str, argument: str, value: Any, known: list[str]) -> str:
    cure = hint(argument, known) or "Take it out."
    takes = f" It takes {', '.join(known)}." if known else " It takes no named arguments."
    return f"{key}={written(value)}: {name} has no argument {argument}. {cure}{takes}"


def _annotations(target: Callable[..., Any], parameters: list[Parameter]) -> dict[str, Any]:
    """Annotations by parameter, those written as text evaluated; one that fails is left out."""
    namespaces = _namespaces(target)
    found = {}
    for parameter in parameters:
        annotation = parameter.annotation
        if isinstance(annotation, str):
            annotation = _evaluated(annotation, namespaces)
        found[parameter.name] = annotation
    return found


def _namespaces(target: Callable[..., Any]) -> list[dict[str, Any]]:
    """Where the names in a target's annotations are looked up, most likely first."""
    modules = []
    if inspect.isclass(target):
        init = inspect.unwrap(target.__init__)
        modules.append(getattr(init, "__globals__", {}))
        modules += [
            vars(sys.modules[c.__module__]) for c in target.__mro__ if c.__module__ in sys.modules
        ]
    else:
        modules.append(getattr(inspect.unwrap(target), "__globals__", {}))
    return [*modules, vars(typing)]


def _evaluated(text: str, namespaces: list[dict[str, Any]]) -> Any:
    for namespace in namespaces:
        try:
            return eval(text, namespace)
        except Exception:
            continue
    return UNKNOWN
