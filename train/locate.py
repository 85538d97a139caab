"""Finding what a `_target_` names, with the real cause when it cannot be found."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import traceback
from types import ModuleType
from typing import Any

from train.nearest import hint


class NotFound(Exception):
    """A target that does not resolve; the message is the innermost cause, with the cure."""


def locate(path: str) -> Any:
    """The object at a dotted path: the longest importable module, then its attributes.

    Raises:
        NotFound: a missing package, an error inside a module while it is
            imported (with its own message and place), or a missing attribute
            (with the nearest name).
    """
    parts = path.split(".")
    if not all(part.isidentifier() for part in parts):
        raise NotFound(f"'{path}' is not a dotted path such as torch.nn.Linear")
    module: ModuleType | None = None
    found = 0
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        imported = _import(name)
        if imported is None:
            break
        module, found = imported, count
    if module is None:
        raise NotFound(
            f"No module named {parts[0]}. {hint(parts[0], _top_level())} ".rstrip()
            + " Install it, or run from (or put in PYTHONPATH) the folder that holds it."
        )
    return _attributes(module, parts[found:], path)


def _import(name: str) -> ModuleType | None:
    """The module, or None where no module has this name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            return None
        raise NotFound(
            f"{_reason(error)} Install {(error.name or '').partition('.')[0]}, or mend the import."
        ) from None
    except Exception as error:
        raise NotFound(_reason(error)) from None
    except SystemExit as error:
        raise NotFound(f"importing {name} ends the process ({error.code}).") from None


def _reason(error: Exception) -> str:
    """An import error's own words and the line that raised it."""
    return f"{message(error)} ({place(error)})."


def message(error: BaseException) -> str:
    """`ValueError: depth must be even`; the innermost cause's, where errors are chained."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    kind = type(error).__name__
    if isinstance(error, ModuleNotFoundError):
        return text
    return f"{kind}: {text}" if text else kind


def place(error: BaseException) -> str:
    """`file:line` of the code that raised, relative to the current folder where it is inside."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if "importlib" not in f.filename and "/hydra/" not in f.filename]
        if not own:
            return "no line known"
        file, line = own[-1].filename, own[-1].lineno
    relative = os.path.relpath(file)
    return f"{file if relative.startswith('..') else relative}:{line}"


def _attributes(module: ModuleType, names: list[str], path: str) -> Any:
    value: Any = module
    done = module.__name__
    for name in names:
        try:
            value = getattr(value, name)
        except AttributeError:
            known = [known for known in dir(value) if not known.startswith("_")]
            if isinstance(value, ModuleType) and hasattr(value, "__path__"):
                known += [found.name for found in pkgutil.iter_modules(value.__path__)]
            raise NotFound(f"{done} has no {name}. {_near(done, name, known)}".rstrip()) from None
        done = f"{done}.{name}"
    return value


def _near(parent: str, name: str, known: list[str]) -> str:
    found = hint(name, known)
    return found.replace("Did you mean ", f"Did you mean {parent}.") if found else ""


def _top_level() -> list[str]:
    loaded = {name.partition(".")[0] for name in sys.modules}
    return [name for name in {*loaded, "components", "train"} if not name.startswith("_")]
