"""The check of raw DeepSpeed keys: DeepSpeed itself passes over misspelt ones in silence."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterator
from typing import Any, get_args

from components.errors import ConfigError
from components.parallel.zero_keys import OWNED, PLAIN_SECTIONS, TOP_LEVEL
from components.precision import Precision


def check_extra(extra: dict[str, Any], precision: Precision, stage: int) -> None:
    """Refuse raw keys that DeepSpeed would ignore, or that the run says elsewhere.

    Raises:
        ConfigError: for a misspelt key with the nearest right one, for a key that the run
            owns with that one, for "auto", and for a value that DeepSpeed refuses.
    """
    if not extra:
        return
    _refuse_unknown(extra, TOP_LEVEL, "parallel.extra")
    for path, value in _leaves(extra):
        _refuse_owned(path, value, precision)
        if value == "auto":
            raise ConfigError(
                f'parallel.extra.{path}="auto" has no meaning here: DeepSpeed drops the key. '
                "Give the value, or leave the key out."
            )
    for section, keys in PLAIN_SECTIONS.items():
        if section in extra:
            _refuse_unknown(extra[section], keys, f"parallel.extra.{section}")
    for section, model in _section_models().items():
        given = _at(extra, section)
        if given is not None:
            where = f"parallel.extra.{section}"
            _refuse_unknown_fields(given, model, where)
            base = {"stage": stage} if section == "zero_optimization" else {}
            try:
                model(**base, **given)
            except (ValueError, AssertionError) as error:
                reason = " ".join(str(error).split())
                raise ConfigError(f"{where}={given}: DeepSpeed refuses it: {reason}") from None


def quiet_import() -> None:
    """Import deepspeed where nothing is computed: it must not look for a GPU.

    `DS_ACCELERATOR` is read once, at import, and is not left behind for other processes.
    """
    before = os.environ.get("DS_ACCELERATOR")
    os.environ["DS_ACCELERATOR"] = before or "cpu"
    try:
        import deepspeed  # noqa: F401
    finally:
        if before is None:
            del os.environ["DS_ACCELERATOR"]


def _at(extra: dict[str, Any], path: str) -> Any:
    """What stands at a dotted path, None where nothing does."""
    found: Any = extra
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _leaves(section: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in section.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _refuse_owned(path: str, value: Any, precision: Precision) -> None:
    for owned, ours in OWNED.items():
        if path == owned or path.startswith(f"{owned}."):
            said = f"precision={precision.name}" if ours == "precision" else ours
            raise ConfigError(
                f"parallel.extra.{path}={value} says again what {said} says. "
                f"Leave it out of parallel.extra and set {ours.split(' (')[0]}."
            )


def _refuse_unknown(given: Any, known: Collection[str], where: str) -> None:
    if not isinstance(given, dict):
        raise ConfigError(f"{where}={given} must be a section of keys, as in {{key: value}}.")
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key), sorted(known), n=1, cutoff=0.0)
            raise ConfigError(
                f"{where}.{key}={given[key]}: DeepSpeed has no such key and would ignore it. "
                f"Nearest: {where}.{near[0]}."
            )


def _refuse_unknown_fields(given: Any, model: Any, where: str) -> None:
    """The same for a pydantic model, down into its sections."""
    fields = {f.alias or name: f for name, f in model.model_fields.items()}
    fields |= model.model_fields
    _refuse_unknown(given, fields, where)
    for key, value in given.items():
        inner = _inner_model(fields[key].annotation)
        if inner is not None and isinstance(value, dict):
            _refuse_unknown_fields(value, inner, f"{where}.{key}")


def _inner_model(annotation: Any) -> Any:
    """The pydantic model in a field's annotation, if there is one."""
    for part in (annotation, *get_args(annotation)):
        if hasattr(part, "model_fields"):
            return part
    return None


def _section_models() -> dict[str, Any]:
    """The sections that DeepSpeed describes by a pydantic model."""
    quiet_import()
    from deepspeed.comm.config import CommsLoggerConfig
    from deepspeed.compile.config import CompileConfig
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
    from deepspeed.utils.config import DeepSpeedThroughputTimerConfig

    return {
        "zero_optimization": DeepSpeedZeroConfig,
        "comms_logger": CommsLoggerConfig,
        "compile": CompileConfig,
        "timers.throughput": DeepSpeedThroughputTimerConfig,
    }
