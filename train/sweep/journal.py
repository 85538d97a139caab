"""sweep.json: which jobs a sweep has, before the first of them starts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from components.errors import ConfigError
from train.compare.find import runs_in
from train.files import read_json, write_json
from train.identity import OUTPUTS
from train.nearest import hint

FILE = "sweep.json"
LATEST = "latest"


def _new_id() -> str:
    return uuid4().hex[:12]


@dataclass(frozen=True)
class Entry:
    """One job.

    Attributes:
        folder: its name in the sweep's folder.
        overrides: what makes the job.
        config_hash: the identity of its config as composed.
    """

    folder: str
    overrides: list[str]
    config_hash: str


@dataclass
class Journal:
    """The jobs of a sweep, those of earlier commands that went on with it included.

    Attributes:
        folder: the sweep's.
        words: flags and overrides of the command that began it.
        entries: its jobs, in the order in which they were first planned.
        report_id: of the W&B run with the sweep's report.
        shared: overrides that all jobs of the last command share.
    """

    folder: Path
    words: list[str]
    entries: list[Entry]
    report_id: str = field(default_factory=_new_id)
    shared: list[str] = field(default_factory=list)

    def find(self, config_hash: str) -> Entry | None:
        """The job with this config."""
        return next((entry for entry in self.entries if entry.config_hash == config_hash), None)

    def twin(self, overrides: list[str]) -> Entry | None:
        """The last job that was made by these overrides, whatever its config was."""
        return next((e for e in reversed(self.entries) if e.overrides == overrides), None)

    def add(self, entry: Entry) -> None:
        """Note a job, unless it is noted already."""
        if entry not in self.entries:
            self.entries.append(entry)

    def write(self) -> None:
        """Write the file in one move."""
        self.folder.mkdir(parents=True, exist_ok=True)
        content: dict[str, Any] = {
            "words": self.words,
            "report_id": self.report_id,
            "shared": self.shared,
            "jobs": [asdict(e) for e in self.entries],
        }
        write_json(self.folder / FILE, content)


def read_journal(folder: Path) -> Journal:
    """The journal in a sweep's folder.

    Raises:
        ConfigError: when the folder has none, or one that cannot be read.
    """
    path = folder / FILE
    if not path.exists():
        raise ConfigError(_no_sweep(folder))
    try:
        content = read_json(path)
        entries = [Entry(**entry) for entry in content["jobs"]]
        words = [str(word) for word in content["words"]]
        return Journal(folder, words, entries, str(content.get("report_id") or _new_id()))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} is damaged ({error}): put back a copy of it. Without it each run of the sweep "
            "can still be gone on with by resume=<its folder>."
        ) from error


def sweep_folder(text: str) -> Path:
    """What `sweep.resume=text` means.

    Raises:
        ConfigError: when there is no such sweep.
    """
    if text != LATEST:
        return Path(text)
    found = {run.parent for run in runs_in(OUTPUTS) if (run.parent / FILE).exists()}
    if not found:
        raise ConfigError(f"sweep.resume={LATEST}: there is no sweep in {OUTPUTS.absolute()}.")
    return max(found, key=lambda folder: (folder / FILE).stat().st_mtime)


def _no_sweep(folder: Path) -> str:
    told = f"sweep.resume={folder}: "
    if (folder / "status.json").exists():
        return f"{told}that is one run. Go on with it by resume={folder}, without -m."
    if folder.is_dir():
        return f"{told}the folder is no sweep's, it has no {FILE}."
    near = [path.parent.name for path in folder.parent.glob(f"*/{FILE}")]
    return f"{told}there is no such folder. {hint(folder.name, [*near, LATEST])}".rstrip()
