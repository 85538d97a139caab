"""Does a config's value fit an annotation? Only what YAML can hold is judged.

A value is text, a number, a bool, null, a list or a mapping. A type that YAML
has no value for (a tensor, a dtype, a callable) is left to the constructor.
"""

from __future__ import annotations

import collections.abc
import enum
import os
import types
import typing
from typing import Any, Literal, Union

from omegaconf import OmegaConf

SEQUENCES = (
    list,
    tuple,
    set,
    frozenset,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Iterable,
    collections.abc.Collection,
    collections.abc.Set,
)
MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def mismatch(annotation: Any, value: Any) -> str | None:
    """What is wrong with `value` for `annotation`, with the cure; None if it fits.

    int fits float, bool does not fit int, a YAML list fits any sequence; nodes
    with a `_target_` fit anything, as they are built before they are passed.
    """
    if _fits(annotation, value) is not False:
        return None
    cure = _cure(annotation, value)
    return f"expects {describe(annotation)}, got {shown(value)}{'. ' + cure if cure else ''}"


def written(value: Any) -> str:
    """A value as one writes it in an override: `null`, `true`, `0.1`, text as it is."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def shown(value: Any) -> str:
    """A value with its kind, as in `the text 'sixteen'`."""
    if isinstance(value, str):
        return f"the text '{value}'"
    kinds = {bool: "the bool ", int: "the int ", float: "the float ", list: "the list "}
    return f"{kinds.get(type(value), '')}{written(value)}"


def describe(annotation: Any) -> str:
    """An annotation as one would write it: `int | None`, `'a' or 'b'`, `list[int]`."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in (None, type(None)):
        return "null"
    if origin is Literal:
        return " or ".join("null" if a is None else repr(a) for a in args)
    if origin in (Union, types.UnionType):
        return " | ".join(describe(a) for a in args)
    if origin is not None and args:
        inner = ", ".join("..." if a is Ellipsis else describe(a) for a in args)
        return f"{getattr(origin, '__name__', origin)}[{inner}]"
    return getattr(annotation, "__name__", str(annotation))


def _fits(annotation: Any, value: Any) -> bool | None:
    """True or False; None where the annotation says nothing of YAML's values."""
    if OmegaConf.is_config(value):
        value = OmegaConf.to_container(value)
    if isinstance(value, dict) and "_target_" in value:
        return None
    annotation = _unwrapped(annotation)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return _fits_union(args, value)
    if origin is Literal:
        return any(type(value) is type(a) and value == a for a in args)
    judge = _SCALARS.get(annotation) if isinstance(annotation, collections.abc.Hashable) else None
    if judge is not None:
        return judge(value)
    kind = origin or annotation
    if not isinstance(kind, type):
        return None
    if kind in SEQUENCES:
        return _fits_sequence(kind, args, value)
    if kind in MAPPINGS or typing.is_typeddict(kind):
        return _fits_mapping(args, value)
    if issubclass(kind, os.PathLike):
        return isinstance(value, str)
    return None


def _unwrapped(annotation: Any) -> Any:
    """Through `Annotated`, `NewType` and `type X = ...` to what they stand for."""
    while True:
        if typing.get_origin(annotation) is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        elif hasattr(annotation, "__value__"):
            annotation = annotation.__value__
        else:
            return annotation


def _fits_union(args: tuple[Any, ...], value: Any) -> bool | None:
    answers = [_fits(a, value) for a in args]
    if True in answers:
        return True
    # `float | Tensor` refuses text, but `Dtype | None` may make something of it: a member
    # that YAML has no value for is believed only where no number, text or list is offered.
    judged = [a for a, known in zip(args, answers, strict=True) if known is False]
    if None in answers and all(_unwrapped(a) in (None, type(None)) for a in judged):
        return None
    return False


def _fits_sequence(kind: type, args: tuple[Any, ...], value: Any) -> bool | None:
    if isinstance(value, str):
        # Text is a sequence of characters, hardly ever meant; an Iterable may be a str.
        return None if kind is collections.abc.Iterable and args == (str,) else False
    if not isinstance(value, (list, tuple)):
        return False
    if kind is tuple and args and Ellipsis not in args:
        if len(value) != len(args):
            return False
        return all(_fits(a, item) is not False for a, item in zip(args, value, strict=True))
    return all(_fits(args[0], item) is not False for item in value) if args else True


def _fits_mapping(args: tuple[Any, ...], value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if len(args) != 2:
        return True
    return all(
        _fits(args[0], key) is not False and _fits(args[1], item) is not False
        for key, item in value.items()
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_SCALARS: dict[Any, Any] = {
    bool: lambda value: isinstance(value, bool),
    int: lambda value: isinstance(value, int) and not isinstance(value, bool),
    float: _is_number,
    str: lambda value: isinstance(value, str),
    None: lambda value: value is None,
    type(None): lambda value: value is None,
}


def _cure(annotation: Any, value: Any) -> str:
    members = {_unwrapped(a) for a in _members(annotation)}
    if isinstance(value, str) and members & {int, float}:
        try:
            number = float(value)
        except ValueError:
            return ""
        if float in members:
            text = f"{number!r}" if "e" not in value.lower() else _scientific(number)
            return f"Write {text} without quotes"
        return f"Write {int(number)} without quotes" if number.is_integer() else ""
    if isinstance(value, float) and int in members and value.is_integer():
        return f"Write {int(value)}"
    if _is_number(value) and str in members:
        return f"Quote it: \"'{value}'\""
    return ""


def _members(annotation: Any) -> tuple[Any, ...]:
    annotation = _unwrapped(annotation)
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,) if not isinstance(annotation, enum.EnumMeta) else ()


def _scientific(number: float) -> str:
    """`1.0e-4`: with the point that every YAML reader takes for a number."""
    mantissa, _, exponent = f"{number:e}".partition("e")
    mantissa = mantissa.rstrip("0")
    return f"{mantissa}{'0' if mantissa.endswith('.') else ''}e{int(exponent)}"
