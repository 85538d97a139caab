"""One checkpoint's content: written by all ranks together, read by each alone.

    .metadata, __N_0.distcp   tensors: `model.<name>`, `optimizer.<name>.<entry>`
    training.pt               everything else that is the same on all ranks
    rank-N.pt                 random state and own buffers of each rank
    config.yaml               the run's config, as text
    manifest.json             what this is, and the files with their checksums

All load with `weights_only=True`: nothing in them runs code.
"""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from components.checkpoint import folders, storage
from components.checkpoint.manifest import Manifest, digest, write_manifest
from components.checkpoint.storage import Unreadable
from components.cluster.control import Control
from components.parallel.shard import Shard
from components.parallel.state import Layout, Scalar

TRAINING = "training.pt"

MODEL, OPTIMIZER = "model.", "optimizer."


class SaveFailed(Exception):
    """A checkpoint could not be written; those before it are whole."""


@dataclass
class Snapshot:
    """What one rank hands over to be saved.

    Attributes:
        weights, optimizer: this rank's pieces; optimizer entries by parameter and entry.
        scalars: optimizer entries that are no tensors of elements, of this rank's parameters.
        training: plain containers, the same on all ranks: read from the main rank.
        own: this rank's random state and buffers.
        config: the run's, as YAML.
        manifest: without `files`.
    """

    weights: dict[str, Shard]
    optimizer: dict[str, dict[str, Shard]]
    scalars: dict[str, dict[str, Scalar]]
    training: dict[str, Any]
    own: dict[str, Any]
    config: str
    manifest: Manifest

    def tensors(self) -> dict[str, Shard]:
        """All pieces by their names in the checkpoint."""
        return named(self.weights, self.optimizer)

    def copied(self) -> Snapshot:
        """The same in memory of its own, which training does not change."""
        return replace(
            self,
            weights={name: shard.copied() for name, shard in self.weights.items()},
            optimizer={
                name: {entry: shard.copied() for entry, shard in entries.items()}
                for name, entries in self.optimizer.items()
            },
            training=deepcopy(self.training),
        )


def named(weights: dict[str, Shard], optimizer: dict[str, dict[str, Shard]]) -> dict[str, Shard]:
    """Pieces under their names in a checkpoint."""
    entries = {
        f"{OPTIMIZER}{name}.{entry}": shard
        for name, own in optimizer.items()
        for entry, shard in own.items()
    }
    return {**{f"{MODEL}{name}": shard for name, shard in weights.items()}, **entries}


def save(
    folder: Path, snapshot: Snapshot, control: Control, may_commit: Callable[[], None]
) -> Path:
    """Write a checkpoint into a run's folder; returns where it is. Call on all ranks.

    Args:
        control: of this thread's own.
        may_commit: called on the main rank before the checkpoint gets its name; an exception
            leaves it without.

    Raises:
        SaveFailed: on all ranks, with the cause; what was written is gone.
    """
    step = snapshot.manifest.step
    partial = folders.place_of(folder, step).with_suffix(folders.PARTIAL)
    main = control.ranks.main

    def on_main(act: Callable[[], Any]) -> None:
        """Run `act` on the main rank; all ranks learn whether it went well."""
        problem = None
        if main:
            try:
                act()
            except Exception as error:
                problem = _in_words(error)
        _all_well([control.tell(problem)], partial, step, main)

    on_main(lambda: folders.begin(folder, step))
    own, problem = {}, None
    try:
        storage.write(snapshot.tensors(), partial, control.group)
        own_file = partial / f"rank-{control.ranks.rank}.pt"
        _save_plain(snapshot.own, own_file)
        pattern = f"__{control.ranks.rank}_*.distcp"
        own = {path.name: digest(path) for path in (own_file, *partial.glob(pattern))}
    except Exception as error:
        problem = _in_words(error)
    entries = {name: sorted(pieces) for name, pieces in snapshot.optimizer.items()}
    words = control.gather((problem, own, snapshot.scalars, entries))
    problems = control.tell([word[0] for word in words] if main else None)
    _all_well(problems, partial, step, main)

    def complete() -> None:
        scalars: dict[str, dict[str, Scalar]] = {}
        tensors: dict[str, list[str]] = {}
        files: dict[str, dict[str, Any]] = {}
        for _, rank_files, rank_scalars, rank_entries in words:
            files |= rank_files
            scalars |= rank_scalars
            tensors |= rank_entries
        listed = {
            name: [*tensors.get(name, []), *sorted(scalars.get(name, {}))]
            for name in {**tensors, **scalars}
        }
        training = {**snapshot.training, "optimizer": scalars, "optimizer_entries": listed}
        _save_plain(training, partial / TRAINING)
        (partial / folders.CONFIG).write_text(snapshot.config)
        for name in (storage.INDEX, TRAINING, folders.CONFIG):
            files[name] = digest(partial / name)
        _refuse_unseen(partial, files)
        write_manifest(partial, replace(snapshot.manifest, files=dict(sorted(files.items()))))
        may_commit()
        folders.commit(partial)

    on_main(complete)
    return folders.place_of(folder, step)


def _refuse_unseen(partial: Path, files: dict[str, Any]) -> None:
    for name in files:
        if not (partial / name).exists():
            raise FileNotFoundError(
                f"{partial / name} was written by another rank and is not seen here: a checkpoint "
                "needs a folder that all nodes share"
            )


def _all_well(problems: list[str | None], partial: Path, step: int, main: bool) -> None:
    """Raise what any rank met, after the main rank has taken the remains away."""
    bad = [(rank, problem) for rank, problem in enumerate(problems) if problem]
    if not bad:
        return
    if main:
        folders.discard(partial)
    rank, problem = bad[0]
    raise SaveFailed(
        f"the checkpoint at step {step} could not be written (rank {rank}: {problem}). Earlier "
        f"ones in {partial.parent} are whole. Make room or mend the folder, then go on with "
        f"resume={partial.parent.parent}"
    )


def _in_words(error: BaseException) -> str:
    """The cause in a line: a full disk is what it is, wherever a library met it."""
    for link in _links(error):
        if isinstance(link, OSError) and link.errno is not None:
            reason = os.strerror(link.errno)
            return f"{reason}: {link.filename}" if link.filename else reason
        if "No space left on device" in str(link):
            return os.strerror(errno.ENOSPC)
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _links(error: BaseException) -> list[BaseException]:
    """An exception, those it came of, and those that torch collected from the ranks."""
    found, queue = [], [error]
    while queue:
        link = queue.pop()
        if link in found:
            continue
        found.append(link)
        queue += [e for e in (link.__cause__, link.__context__) if e is not None]
        queue += [wrapped[0] for wrapped in getattr(link, "failures", {}).values()]
    return found


def _save_plain(content: dict[str, Any], path: Path) -> None:
    with path.open("wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())


def load_plain(path: Path) -> dict[str, Any]:
    """A file of plain containers and tensors.

    Raises:
        Unreadable: when it is damaged or missing, or holds anything else.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError, ValueError) as error:
        lines = str(error).splitlines()
        raise Unreadable(f"{path}: {lines[0] if lines else type(error).__name__}") from error
    if not isinstance(content, dict):
        raise Unreadable(f"{path} holds no dictionary")
    return content


@dataclass
class Contents:
    """What stands in a checkpoint, tensors by their layout alone.

    Attributes:
        weights: by plain name.
        optimizer: by parameter and entry.
    """

    weights: dict[str, Layout] = field(default_factory=dict)
    optimizer: dict[str, dict[str, Layout]] = field(default_factory=dict)


def contents(checkpoint: Path) -> Contents:
    """The tensors of a checkpoint.

    Raises:
        Unreadable: when its index is damaged.
    """
    out = Contents()
    for name, layout in storage.layout(checkpoint).items():
        if name.startswith(MODEL):
            out.weights[name.removeprefix(MODEL)] = layout
        elif name.startswith(OPTIMIZER):
            parameter, _, entry = name.removeprefix(OPTIMIZER).rpartition(".")
            out.optimizer.setdefault(parameter, {})[entry] = layout
    return out


def read_weights(checkpoint: Path, tensors: dict[str, Tensor]) -> None:
    """Fill whole tensors, by plain name and in place, from a checkpoint.

    Raises:
        Unreadable: when one is missing, of another shape, or damaged.
    """
    storage.read({f"{MODEL}{name}": Shard.whole(t) for name, t in tensors.items()}, checkpoint)


def read_optimizer(checkpoint: Path, pieces: dict[str, dict[str, Shard]]) -> None:
    """Fill this rank's pieces of the optimizer's state, in place.

    Raises:
        Unreadable: when one is missing, of another shape, or damaged.
    """
    storage.read(named({}, pieces), checkpoint)
