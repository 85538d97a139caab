"""The foot of the page: the code, versions and machines behind the runs, and how to repeat them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from train.compare.comparison import Comparison
from train.compare.report.markup import escape
from train.compare.report.numbers import byte_scale

FEW = 4
"""How many different values of a fact are shown at once; more are folded away."""

VERSIONS = ("torch", "deepspeed", "hydra-core", "wandb", "numpy")


def origin(comparison: Comparison) -> str:
    """A list of facts; each value once, with the number of runs if they differ. May be empty."""
    known = [
        result.provenance for row in comparison.rows for result in row.results if result.provenance
    ]
    facts = [
        ("command", _distinct(known, lambda noted: noted.get("command"))),
        ("folder", _distinct(known, lambda noted: noted.get("cwd"))),
        ("commit", _distinct(known, _commit)),
        ("versions", _distinct(known, _versions)),
        ("machine", _distinct(known, _machine)),
        ("cluster", _distinct(known, _cluster)),
        ("data", _distinct(known, lambda noted: noted.get("data", {}).get("fingerprint"))),
    ]
    return "".join(
        f"<dt>{name}</dt><dd>{'<br>'.join(values)}</dd>" for name, values in facts if values
    )


def _distinct(known: Iterable[dict[str, Any]], fact: Callable[[dict[str, Any]], Any]) -> list[str]:
    counts: dict[str, int] = {}
    for noted in known:
        if value := fact(noted):
            counts[value] = counts.get(value, 0) + 1
    if len(counts) == 1:
        return [f"<code>{escape(value)}</code>" for value in counts]
    told = [
        f"<code>{escape(value)}</code> <small>{count} run{'s' if count > 1 else ''}</small>"
        for value, count in counts.items()
    ]
    if len(told) <= FEW:
        return told
    return [f"<details><summary>{len(told)} different ones</summary>{'<br>'.join(told)}</details>"]


def _commit(noted: dict[str, Any]) -> str | None:
    git = noted.get("git") or {}
    if not git.get("commit"):
        return None
    return str(git["commit"]) + (" with the changes of dirty.patch" if git.get("dirty") else "")


def _versions(noted: dict[str, Any]) -> str:
    packages = noted.get("packages", {})
    names = [f"{name} {packages[name]}" for name in VERSIONS if name in packages]
    return ", ".join([*([f"Python {noted['python']}"] if noted.get("python") else []), *names])


def _machine(noted: dict[str, Any]) -> str:
    machine = noted.get("machine", {})
    memory = machine.get("memory_bytes")
    facts = [
        machine.get("host"),
        machine.get("processor"),
        f"{machine['cores']} cores" if machine.get("cores") else None,
        byte_scale([memory]).with_unit(memory) if memory else None,
        machine.get("system"),
    ]
    return ", ".join(str(fact) for fact in facts if fact)


def _cluster(noted: dict[str, Any]) -> str | None:
    return noted.get("cell", {}).get("cluster")
