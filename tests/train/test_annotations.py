from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, Optional, Union

import pytest

from train.annotations import describe, mismatch

Width = NewType("Width", int)


class Tensor:
    """Stands for any type that YAML has no value for."""


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 3),
        (float, 3),
        (float, 1e-4),
        (bool, False),
        (str, "a"),
        (None, None),
        (int | None, None),
        (Optional[int], 3),  # noqa: UP045
        (Union[str, int], "a"),  # noqa: UP007
        (Literal["a", 2], 2),
        (list[int], [1, 2]),
        (list, ["a", 1]),
        (Sequence[float], [1, 2.5]),
        (tuple[float, float], [0.9, 0.95]),
        (tuple[int, ...], []),
        (dict[str, int], {"a": 1}),
        (Mapping[str, Any], {"a": [1]}),
        (Annotated[int, "units"], 3),
        (Width, 3),
        (Path, "a/b"),
        (Path | None, "a/b"),
        (Any, "x"),
        (object, "x"),
        (Tensor, "float32"),
        (Tensor | None, "float32"),
        (Callable[[int], int], "x"),
        (float | Tensor, 0.1),
        (int, {"_target_": "anything"}),
        (list[Tensor], [{"_target_": "anything"}]),
        (Iterable[str], "abc"),
    ],
)
def test_fitting_values(annotation: Any, value: Any) -> None:
    assert mismatch(annotation, value) is None


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (int, "sixteen", "expects int, got the text 'sixteen'"),
        (int, True, "expects int, got the bool true"),
        (int, 1.5, "expects int, got the float 1.5"),
        (int, 8.0, "expects int, got the float 8.0. Write 8"),
        (int, "8", "expects int, got the text '8'. Write 8 without quotes"),
        (int, None, "expects int, got null"),
        (bool, 1, "expects bool, got the int 1"),
        (str, 3, "expects str, got the int 3. Quote it: \"'3'\""),
        (float, "1e-4", "expects float, got the text '1e-4'. Write 1.0e-4 without quotes"),
        (
            float | Tensor,
            "1e-4",
            "expects float | Tensor, got the text '1e-4'. Write 1.0e-4 without quotes",
        ),
        (int | None, "x", "expects int | null, got the text 'x'"),
        (Literal["a", "b"], "c", "expects 'a' or 'b', got the text 'c'"),
        (Literal[1], True, "expects 1, got the bool true"),
        (list[int], ["a"], "expects list[int], got the list ['a']"),
        (list[int], "abc", "expects list[int], got the text 'abc'"),
        (
            tuple[float, float],
            [1.0],
            "expects tuple[float, float], got the list [1.0]",
        ),
        (dict[str, int], {"a": "b"}, "expects dict[str, int], got {'a': 'b'}"),
        (Width, "x", "expects Width, got the text 'x'"),
    ],
)
def test_values_that_do_not_fit(annotation: Any, value: Any, message: str) -> None:
    assert mismatch(annotation, value) == message


def test_annotations_are_described_as_written() -> None:
    assert describe(dict[str, int | None]) == "dict[str, int | null]"
    assert describe(tuple[int, ...]) == "tuple[int, ...]"
