"""From what stands behind `resume=` to a run's folder, and a checkpoint if one is named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from components.checkpoint import folders
from components.errors import ConfigError
from train import status
from train.identity import OUTPUTS

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
    if not path.is_dir():
        raise ConfigError(f"resume={text}: there is no such folder. {CURE}")
    return Located(_run(path, text))


def _run(folder: Path, text: str) -> Path:
    if not (folder / status.FILE).exists():
        inside = f" It holds {len(_runs(folder))} runs: name one." if _runs(folder) else ""
        raise ConfigError(f"resume={text}: {folder} is no run's folder.{inside} {CURE}")
    return folder


def _runs(folder: Path) -> list[Path]:
    return [path.parent for path in folder.glob(f"*/{status.FILE}")]


def _latest() -> Path:
    """The run under outputs/ that began, or went on, last; those refused have nothing to go on."""
    begun: dict[str, Path] = {}
    for path in OUTPUTS.glob(f"**/{status.FILE}"):
        state = status.read(path.parent)
        if state.get("status") != "refused" and "started" in state:
            begun[state.get("attempt_started") or state["started"]] = path.parent
    if not begun:
        raise ConfigError(f"resume={LATEST}: there is no run in {OUTPUTS.absolute()}.")
    return begun[max(begun)]
