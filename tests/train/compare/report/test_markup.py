from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from train.compare.report.markup import code_script, data_script, escape, filled, reference


def test_data_cannot_end_its_element() -> None:
    value = {
        "cause": "</script><script>alert(1)</script> & <!--",
        "loss": [math.nan, math.inf, 1.5],
    }
    element = data_script("data", value)
    start, end = '<script type="application/json" id="data">', "</script>"
    assert element.startswith(start)
    assert element.endswith(end)
    inside = element[len(start) : -len(end)]
    assert "<" not in inside
    assert json.loads(inside) == {**value, "loss": [None, None, 1.5]}


def test_code_that_would_end_its_element_is_refused() -> None:
    assert code_script("1 < 2") == "<script>1 < 2</script>"
    with pytest.raises(ValueError, match="end its element"):
        code_script("const text = '</SCRIPT >';")


def test_text_is_escaped_in_elements_and_attributes() -> None:
    assert escape('<b title="\'">&') == "&lt;b title=&quot;&#x27;&quot;&gt;&amp;"


def test_what_is_filled_in_is_not_read_again() -> None:
    assert filled("{{a}} {{b}}", {"a": "{{b}}", "b": "2"}) == "{{b}} 2"
    with pytest.raises(KeyError, match="c"):
        filled("{{c}}", {})


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("sweep/0_run/logs/rank-0.log", "./0_run/logs/rank-0.log"),
        ("other/a b#c?", "./../other/a%20b%23c%3F"),
        ("sweep/file:x", "./file%3Ax"),
    ],
)
def test_addresses_are_relative_to_the_page(tmp_path: Path, target: str, expected: str) -> None:
    assert reference(tmp_path / target, tmp_path / "sweep") == expected
