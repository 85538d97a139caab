"""TensorBoard event files, for those who have it."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from components.errors import ConfigError
from components.logger.base import Logger, RunInfo
from components.logger.jsonl import plain
from components.logger.secrets import without_secrets

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


METRIC = "val/loss"
"""What the table of hyperparameters shows beside them."""


def _values(config: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers and words of a nested config by dotted key."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _values(value, f"{before}{key}.")
        elif isinstance(value, bool | int | float | str) and key != "_target_":
            yield f"{before}{key}", value


class TensorBoardLogger(Logger):
    """Scalars by step into `<run folder>/<folder>`, and the config as text and as hyperparameters.

    Args:
        folder: where the event files go, inside the run's folder.
        flush_s: seconds between flushes, done on a thread of TensorBoard's own.

    Raises:
        ConfigError: the `tensorboard` package is not installed.
    """

    def __init__(self, folder: str = "tensorboard", flush_s: int = 10) -> None:
        if importlib.util.find_spec("tensorboard") is None:
            raise ConfigError(
                "logger=tensorboard needs the tensorboard package, which is not installed. "
                "Install it with: pip install 'shardlab[tensorboard]', "
                "or take logger=default."
            )
        self.folder = folder
        self.flush_s = flush_s
        self._writer: SummaryWriter | None = None

    def start(self, info: RunInfo) -> None:
        from torch.utils.tensorboard import SummaryWriter
        from torch.utils.tensorboard.summary import hparams

        self._writer = SummaryWriter(str(info.folder / self.folder), flush_secs=self.flush_s)
        config = without_secrets(info.config)
        self._writer.add_text("config", f"```json\n{json.dumps(config, indent=2)}\n```")
        # Not add_hparams: it would make a second run beside each.
        for part in hparams(dict(_values({**config, "cell": info.cell})), {METRIC: 0.0}):
            self._writer._get_file_writer().add_summary(part)

    def log(self, record: dict[str, Any]) -> None:
        if self._writer is None:
            return
        for key, value in plain(record).items():
            # Step and time are the axes of every curve, not curves.
            if key not in ("step", "time") and isinstance(value, int | float):
                self._writer.add_scalar(key, value, record["step"], record["time"])

    def finish(self, status: str, summary: dict[str, Any]) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
