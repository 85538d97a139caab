"""The cells that plans are held against runs in, and the words that choose among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.gang import BF16, FP16, FP32
from tests.measured_memory import Case

STRATEGIES = ("single", "ddp", "fsdp", "hsdp", "zero1", "zero2", "zero3", "pipeline")
PRECISIONS = {"fp32": FP32, "bf16": BF16, "fp16": FP16}
RANKS = (1, 2, 4)
ROWS = (1, 8)
FORMS = ("none", "full", "selective")


@dataclass(frozen=True)
class Model:
    """Sizes for `nano`, and tokens of a sequence."""

    sizes: dict[str, Any]
    tokens: int


MODELS = {
    "gpt_nano": Model({}, 128),
    "gpt_30m": Model(
        {"layers": 8, "width": 512, "heads": 8, "vocab": 4096, "ffn": 2048, "time": 128}, 64
    ),
    "gpt2_124m": Model(
        {
            "layers": 12,
            "width": 768,
            "heads": 12,
            "vocab": 50257,
            "ffn": None,
            "time": 1024,
            "positions": "learned",
            "bias": True,
            "dropout": 0.1,
            "tied_embeddings": True,
        },
        32,
    ),
}
"""`gpt_nano` and `gpt2_124m` are the configs', the latter on shorter sequences."""


@dataclass(frozen=True)
class BenchmarkCell:
    """One run.

    Attributes:
        rows: samples of a micro-batch.
        form: of activation checkpointing.
    """

    ranks: int
    model: str
    strategy: str
    precision: str
    rows: int
    form: str

    @property
    def words(self) -> tuple[str, ...]:
        """By which it may be chosen; together they name it."""
        ranks = f"ranks={self.ranks}"
        return (ranks, self.model, self.strategy, self.precision, f"x{self.rows}", self.form)

    @property
    def case(self) -> Case:
        """What is run."""
        model = MODELS[self.model]
        # A pipeline fills its stages.
        accumulation = 4 if self.strategy == "pipeline" else 1
        return Case(
            self.strategy,
            PRECISIONS[self.precision],
            self.rows,
            accumulation,
            self.form,
            model.sizes,
            model.tokens,
            # A CPU takes minutes for a step of a large model in a half type.
            products=self.model == "gpt_nano" and self.precision == "fp32",
        )


def all_cells() -> list[BenchmarkCell]:
    """The most telling first: two ranks before four, small models before large ones.

    Those that a run is refused for are left out (`zero3` with `selective`).
    """
    return [
        BenchmarkCell(ranks, model, strategy, precision, rows, form)
        for ranks in (2, 1, 4)
        for model in MODELS
        for strategy in STRATEGIES
        if _sensible(strategy, ranks)
        for precision in PRECISIONS
        for rows in ROWS
        for form in FORMS
        if form != "selective" or (strategy != "zero3" and precision != "fp16" and rows == 8)
    ]


def _sensible(strategy: str, ranks: int) -> bool:
    """One rank for `single`, several for the others; `hsdp` has two replicas of two shards."""
    if strategy == "single" or ranks == 1:
        return strategy == "single" and ranks == 1
    return strategy != "hsdp" or ranks == 4


AXES = (
    tuple(f"ranks={ranks}" for ranks in RANKS),
    tuple(MODELS),
    STRATEGIES,
    tuple(PRECISIONS),
    tuple(f"x{rows}" for rows in ROWS),
    FORMS,
)


def chosen(words: list[str]) -> list[BenchmarkCell]:
    """The cells that go by all words, of which several of one axis are alternatives.

    Raises:
        SystemExit: for a word that names nothing, with those that do.
    """
    unknown = [word for word in words if not any(word in axis for axis in AXES)]
    if unknown:
        known = "; ".join(" ".join(axis) for axis in AXES)
        raise SystemExit(f"{unknown[0]}: no such word. There are {known}.")
    wanted = [set(axis) & set(words) or set(axis) for axis in AXES]
    return [
        cell
        for cell in all_cells()
        if all(word in any_of for word, any_of in zip(cell.words, wanted, strict=True))
    ]
