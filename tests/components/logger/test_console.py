from __future__ import annotations

import io
from pathlib import Path

from components.logger.base import RunInfo
from components.logger.console import ConsoleLogger, evaluation_line, training_line
from components.logger.stream import ERASE, ConsoleStream

INFO = RunInfo(Path(), "id", "name", {}, {}, None, 400)

TRAINING = {
    "step": 100,
    "time": 1.0,
    "train/loss": 2.34567,
    "train/grad_norm": 0.98765,
    "lr": 1e-3,
    "loss_scale": 1.0,
    "skipped_steps": 0,
    "samples": 3200,
    "tokens_per_s": 12_345.0,
    "step_time_s": 0.5,
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class ClosedPipe(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_training_record_as_one_line() -> None:
    # 32 samples a step over 0.5 s; 300 steps of 0.5 s to go.
    assert training_line(TRAINING, 400) == (
        "step 100/400  eta 2m30s  loss 2.3457  grad 0.988  lr 1.00e-03  64 samples/s  12.3k tok/s"
    )


def test_scale_skips_and_mfu_show_when_there_are_any() -> None:
    record = {**TRAINING, "loss_scale": 65536.0, "skipped_steps": 2, "mfu": 0.4131}
    line = training_line(record, 400)
    assert "scale 65536  skipped 2" in line
    assert "mfu 41.3%" in line
    assert "loss of no update" in training_line({**record, "train/loss": None}, 400)
    assert "skipped 2" in training_line({**TRAINING, "skipped_steps": 2}, 400)
    assert "scale" not in training_line({**TRAINING, "skipped_steps": 2}, 400)
    assert "loss not finite" in training_line({**TRAINING, "train/loss": None}, 400)


def test_an_evaluation_as_one_line() -> None:
    record = {"step": 100, "time": 1.0, "val/loss": 1.5, "val/accuracy": 0.75}
    assert evaluation_line(record, 400) == "eval 100/400  val/loss 1.5000  val/accuracy 0.7500"
    assert evaluation_line(TRAINING, 400) is None
    assert (
        evaluation_line({"step": 1, "val/loss": 3.456789e-6}, 2) == "eval 1/2  val/loss 3.457e-06"
    )


def test_without_a_terminal_every_record_is_a_plain_line() -> None:
    out = io.StringIO()
    logger = ConsoleLogger(ConsoleStream(out))
    logger.start(INFO)
    logger.log(TRAINING)
    logger.log({"step": 100, "time": 1.0, "val/loss": float("nan")})
    logger.finish("completed", {})
    assert out.getvalue() == (
        training_line(TRAINING, 400, eta=False) + "\neval 100/400  val/loss not finite\n"
    )


def test_on_a_terminal_other_lines_stand_above_the_bar() -> None:
    out = Terminal()
    stream = ConsoleStream(out)
    logger = ConsoleLogger(stream)
    logger.start(INFO)
    assert out.getvalue() == ""
    logger.log(TRAINING)
    bar = out.getvalue().removeprefix(ERASE)
    assert "step 100/400" in bar
    assert "\n" not in bar
    assert bar.count("━") == 16

    stream.write("half a ")
    assert out.getvalue() == ERASE + bar
    stream.write("line\n")
    assert out.getvalue() == f"{ERASE}{bar}{ERASE}half a line\n{bar}"

    logger.log({"step": 100, "time": 1.0, "val/loss": 1.5})
    assert out.getvalue().endswith(f"{ERASE}eval 100/400  val/loss 1.5000\n{bar}")
    logger.finish("completed", {})
    assert out.getvalue().endswith(f"{bar}\n")
    stream.write("after")
    assert out.getvalue().endswith(f"{bar}\n")
    stream.flush()
    assert out.getvalue().endswith(f"{bar}\nafter")


def test_a_reader_that_went_away_is_no_error() -> None:
    stream = ConsoleStream(ClosedPipe())
    assert stream.write("text\n") == 5
    assert stream.write("more\n") == 5
