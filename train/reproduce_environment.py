"""What a run had around it, against what there is now: whether equal bits can be expected."""

from __future__ import annotations

from typing import Any

from train.provenance import PACKAGES

Difference = tuple[str, Any, Any]
"""(what, then, now); None where there was or is nothing."""

NOT_COMPARED = ("SLURM_", "PET_", "PYTHONPATH", "PYTHONSAFEPATH")
"""How variables begin that name a job, or say where code lies."""

HARDWARE = ("processor", "cores", "system")


def before_start(then: dict[str, Any], now: dict[str, Any]) -> list[Difference]:
    """In python, packages and hardware.

    Args:
        then, now: as `train.provenance.provenance` has them.
    """
    return [
        *_differing("", {"python": then.get("python")}, {"python": now.get("python")}),
        *_differing("package ", then.get("packages", {}), now.get("packages", {})),
        *_differing("", _hardware(then), _hardware(now)),
    ]


def after_start(then: dict[str, Any], now: dict[str, Any]) -> list[Difference]:
    """In the run's variables and in what its ranks found: devices, threads, settings, the data.

    Variables are compared here, since imports set some of them.

    Args:
        then, now: the provenance.json of two runs.
    """
    ranks = [run.get("in_force", []) for run in (then, now)]
    found = [("ranks", len(ranks[0]), len(ranks[1]))] if len(ranks[0]) != len(ranks[1]) else []
    for rank, (one, other) in enumerate(zip(*ranks, strict=False)):
        found += _differing(f"rank {rank} ", one, other)
    prints = [{"fingerprint": run.get("data", {}).get("fingerprint")} for run in (then, now)]
    found += _differing("data ", *prints)
    return [*found, *_differing("variable ", _variables(then), _variables(now))]


def bits_expected(then: dict[str, Any], now: dict[str, Any], found: list[Difference]) -> str | None:
    """None when the same bits are to be expected; else why not.

    The libraries that compute, the processor and what ranks found have to be the same. On a GPU
    only `deterministic=true` gives the same bits twice.
    """
    computing = {"python", "processor", *(f"package {name}" for name in PACKAGES)}
    for what, one, other in found:
        if what in computing or what.startswith(("rank", "data ")):
            return f"{what}: {one} -> {other}"
    ranks = now.get("in_force", [])
    if not ranks or not then.get("in_force"):
        return "what its ranks found is not recorded"
    if any(rank["device"] != "cpu" and not rank["deterministic_algorithms"] for rank in ranks):
        return "on a GPU without deterministic=true"
    return None


def in_words(found: list[Difference]) -> list[str]:
    """Differences for the console, one a line."""
    return [f"{what}: {_word(one)} -> {_word(other)}" for what, one, other in found]


def _word(value: Any) -> str:
    return "none" if value is None else str(value)


def _hardware(provenance: dict[str, Any]) -> dict[str, Any]:
    machine = provenance.get("machine", {})
    return {key: machine.get(key) for key in HARDWARE}


def _variables(provenance: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in provenance.get("environment", {}).items()
        if not name.startswith(NOT_COMPARED)
    }


def _differing(kind: str, then: dict[str, Any], now: dict[str, Any]) -> list[Difference]:
    keys = [*then, *(key for key in now if key not in then)]
    return [
        (f"{kind}{key}", then.get(key), now.get(key))
        for key in keys
        if then.get(key) != now.get(key)
    ]
