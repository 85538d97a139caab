"""Progress on the console: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
from typing import Any

from components.logger.base import Logger, RunInfo
from components.logger.jsonl import plain
from components.logger.stream import ConsoleStream

BAR_WIDTH = 16


class ConsoleLogger(Logger):
    """What a user follows while a run goes on.

    On a terminal one live line shows the last training record, and evaluations
    stay above it; without one every record is a line. Nothing runs between records.

    Args:
        stream: the console, shared with log lines and prints.
    """

    def __init__(self, stream: ConsoleStream) -> None:
        self._stream = stream
        self._steps = 0
        self._warm = False
        self._bar: _Bar | None = None

    def start(self, info: RunInfo) -> None:
        self._steps = info.steps
        if self._stream.isatty():
            self._bar = _Bar(self._stream, info.steps)

    def log(self, record: dict[str, Any]) -> None:
        record = plain(record)
        if "train/loss" in record:
            # The first window holds the warm-up, and would promise a far too late end.
            warm, self._warm = self._warm, True
            text = training_line(record, self._steps, eta=warm)
            if self._bar is not None:
                self._bar.show(record["step"], text)
            else:
                self._stream.write(text + "\n")
        if evaluation := evaluation_line(record, self._steps):
            self._stream.write(evaluation + "\n")

    def finish(self, status: str, summary: dict[str, Any]) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class _Bar:
    """The live line: a bar, and the last training record beside it."""

    def __init__(self, stream: ConsoleStream, steps: int) -> None:
        from rich.console import Console

        self._stream = stream
        self._steps = steps
        # Rich colours and crops the line; the stream puts it in its place. Rich's own
        # live display would redraw from a thread and hide the cursor, for good if killed.
        self._rich = Console(file=io.StringIO(), force_terminal=True, highlight=False)

    def show(self, step: int, text: str) -> None:
        """Move the bar to `step` with `text` beside it."""
        from rich.text import Text

        done = BAR_WIDTH * step // max(self._steps, 1)
        line = Text.assemble(
            ("━" * done, "green"), ("━" * (BAR_WIDTH - done), "bright_black"), f" {text}"
        )
        self._rich.width = self._stream.width - 1
        with self._rich.capture() as rendered:
            self._rich.print(line, no_wrap=True, overflow="ellipsis", end="")
        self._stream.live(rendered.get())

    def stop(self) -> None:
        """Leave the line as it stands and give the console back."""
        self._stream.live(None)


def training_line(record: dict[str, Any], steps: int, eta: bool = True) -> str:
    """A training record in words; what it does not hold is left out."""
    step, step_time = record["step"], record.get("step_time_s")
    loss, skipped = record["train/loss"], record.get("skipped_steps", 0)
    # Null is not finite, and is what there is of a loss when all steps were skipped.
    told = "of no update" if loss is None and skipped else _metric(loss)
    parts = [f"step {step}/{steps}", f"loss {told}"]
    if eta and step_time and step < steps:
        # Early in the line: a narrow terminal cuts its end off.
        parts.insert(1, f"eta {_duration((steps - step) * step_time)}")
    if "train/grad_norm" in record:
        parts.append(f"grad {_number(record['train/grad_norm'], '.3g')}")
    if "lr" in record:
        parts.append(f"lr {_number(record['lr'], '.2e')}")
    scale = record.get("loss_scale", 1.0)
    if scale not in (None, 1.0):
        parts.append(f"scale {_number(scale, 'g')}")
    if skipped or scale not in (None, 1.0):
        parts.append(f"skipped {skipped}")
    if step_time and step and record.get("samples"):
        # The mean global batch over the time of a step: right after a resume, too.
        parts.append(f"{_short(record['samples'] / step / step_time)} samples/s")
    if record.get("tokens_per_s"):
        parts.append(f"{_short(record['tokens_per_s'])} tok/s")
    if record.get("mfu") is not None:
        parts.append(f"mfu {record['mfu']:.1%}")
    return "  ".join(parts)


def evaluation_line(record: dict[str, Any], steps: int) -> str | None:
    """An evaluation record in words; None if it holds no `val/` key."""
    metrics = [f"{key} {_metric(value)}" for key, value in record.items() if key.startswith("val/")]
    return "  ".join([f"eval {record['step']}/{steps}", *metrics]) if metrics else None


def _metric(value: float | None) -> str:
    """A metric with four decimals, or in powers of ten where those would show next to nothing."""
    return _number(value, ".4f" if not value or abs(value) >= 0.01 else ".3e")


def _number(value: float | None, spec: str) -> str:
    """A number; `plain` has made null of what is not finite."""
    return "not finite" if value is None else format(value, spec)


def _short(value: float) -> str:
    """A rate with three digits and a unit prefix, as in 12.3k."""
    unit = ""
    for larger in "kMG":
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.3g}{unit}"


def _duration(seconds: float) -> str:
    """Seconds as 45s, 3m20s or 2h05m."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
