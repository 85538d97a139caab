"""From what stands behind `resume=` to a run's folder, and a checkpoint if one is named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from components.checkpoint import folders
from components.errors import ConfigError
from train import status
from train.compare.find import runs_in
from train.identity import OUTPUTS
from train.nearest import hint

LATEST = "latest"
CURE = (
    "Give a run's folder, a checkpoint of it (checkpoints/step-...), `latest`, or `auto` beside "
    "run_id or hydra.run.dir."
)


@dataclass(frozen=True)
class Located:
    """A run's folder, and the checkpoint that was named in it."""

    folder: Path
    checkpoint: Path | None = None


def locate(text: str) -> Located:
    """What `resume=text` means.

    Raises:
        ConfigError: when it is no run, or no checkpoint of one.
    """
    if text == LATEST:
        return Located(_latest())
    path = Path(text)
    if folders.step_of(path) is not None and path.parent.name == folders.PLACE:
        if not path.is_dir():
            there = ", ".join(found.name for found in folders.found(path.parent.parent))
            raise ConfigError(
                f"resume={text}: there is no such checkpoint. {path.parent} has {there or 'none'}."
            )
        return Located(_run(path.parent.parent, text), path)
    if path.name == folders.PLACE and (path.parent / status.FILE).exists():
        path = path.parent
    if path.is_file():
        raise ConfigError(
            f"resume={text} is a file. {CURE} A new run that begins with its weights: "
            f"init_from={text}"
        )
    if not path.is_dir():
        near = hint(path.name, [run.name for run in _runs(path.parent)] + [LATEST, "auto"])
        raise ConfigError(f"resume={text}: there is no such folder. {near or CURE}")
    return Located(_run(path, text))


def _run(folder: Path, text: str) -> Path:
    if not (folder / status.FILE).exists():
        names = ", ".join(sorted(run.name for run in _runs(folder))[:5])
        inside = f" Name a run in it: {names}." if names else ""
        raise ConfigError(f"resume={text}: {folder} is no run's folder.{inside} {CURE}")
    return folder


def _runs(folder: Path) -> list[Path]:
    return [path.parent for path in folder.glob(f"*/{status.FILE}")]


def _latest() -> Path:
    """The run under outputs/ that began, or went on, last; those refused have nothing to go on."""
    begun: dict[str, Path] = {}
    for folder in runs_in(OUTPUTS):
        state = status.read(folder)
        if state.get("status") != "refused" and "started" in state:
            begun[state.get("attempt_started") or state["started"]] = folder
    if not begun:
        raise ConfigError(f"resume={LATEST}: there is no run in {OUTPUTS.absolute()}.")
    return begun[max(begun)]
