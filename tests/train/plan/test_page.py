"""The page of a plan: what is in it, and what a browser makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.train.compare.report.browser import Browser
from tests.train.compare.report.written import content, sections
from tests.train.plan.made import GB, cell, plan, refused
from train.compare.report.markup import PAGE
from train.plan.cells import PlannedCell
from train.plan.page import write_page
from train.plan.page.page import FIGURES, SCRIPTS, page

COMMAND = "python -m train.plan -m parallel=ddp,fsdp"


def scaled() -> list[PlannedCell]:
    """Two strategies on 8 and 16 ranks; ddp never fits, fsdp takes as long on more ranks."""
    large = {"held": {"optimizer": 60 * GB}}
    return [
        cell(plan("ddp", 8, **large)),
        cell(plan("ddp", 16, **large)),
        cell(plan("fsdp", 8, held={"activations": 65 * GB})),
        cell(plan("fsdp", 16, notes=("a note <of> its own",)), best=True),
        refused("needs </script> one process", "parallel=single", "cluster.nnodes=1"),
    ]


def test_each_cell_has_its_parts_and_whether_it_fits() -> None:
    data = content(page(scaled(), COMMAND))
    ddp, _, tight, best = data["cells"]
    assert data["parts"] == [
        ["params", "parameters"],
        ["optimizer", "optimizer state"],
        ["activations", "activations"],
    ]
    assert data["batches"]
    assert ddp["label"] == "ddp bf16, 8 ranks"
    assert ddp["line"] == "ddp bf16"
    assert ddp["memory"]["optimizer"] == 60 * GB
    assert ddp["peak"] == 90 * GB
    assert ddp["device"] == 80 * GB
    # 90, 75 and 30 of 80 GB; a tenth of it, 8 GB, has to be left.
    assert [one["state"] for one in (ddp, tight, best)] == ["too large", "tight", "fits"]
    assert best["best"]
    assert best["note"] == "the fastest of all"
    assert best["time"] == {"compute": 0.7, "wait": 0.2, "update": 0.05, "overhead": 0.05}
    assert best["sample"] == 1 / 16


def test_it_says_what_to_take_what_is_refused_and_every_note() -> None:
    text = page(scaled(), COMMAND)
    assert sections(text) == ["scaling", "memory", "time", "cells", "refused", "notes"]
    assert "<strong>fsdp bf16, 16 ranks</strong><span>the fastest of all</span>" in text
    assert "<strong>1 of 5</strong>" in text
    assert "2 do not fit, 1 refused" in text
    assert "parallel=single cluster.nnodes=1</h3>" in text
    assert "needs &lt;/script&gt; one process" in text
    assert "a note &lt;of&gt; its own" in text
    assert "2,500,000,000 parameters, A100 80 GB" in text
    assert COMMAND in text


def test_the_table_has_all_numbers() -> None:
    text = page([cell(plan("fsdp", 16, traffic=[{"sent_bytes": 3 * GB}, {"sent_bytes": GB}]))], "")
    heads = re.findall(r'data-as="number"[^>]*>([^<]+)', text)
    values = re.findall(r'<td class="number" data-sort="([^"]+)"', text)
    row = dict(zip(map(str.strip, heads), map(float, values), strict=True))
    assert row["ranks"] == row["global batch"] == row["samples/s"] == 16
    assert row["nodes"] == 2
    assert row["left"] == 50e9
    assert row["sent"] == 4e9
    assert row["wait"] == 0.2
    assert row["per sample"] == 0.0625


def test_one_cell_has_a_bar_and_no_line() -> None:
    text = page([cell(plan("fsdp"))], "")
    assert sections(text) == ["memory", "time", "cells"]
    assert content(text)["cells"][0]["label"] == "fsdp bf16"
    assert "<strong>30 GB</strong><span>backward, blocks.0</span>" in text
    assert "<strong>50 GB left</strong>" in text


def test_what_is_not_known_is_left_out() -> None:
    bare = plan("fsdp", sizes=None, step_time_s=None, step_parts_s=None, mfu=None)
    text = page([cell(bare), cell(plan("ddp", step_parts_s=None, step_time_s=None))], "")
    assert sections(text) == ["memory", "cells"]
    assert "samples/s" not in text[: text.index("<script")].partition("<tbody>")[0]


def test_nothing_but_refusals() -> None:
    text = page([refused("never", "parallel=a"), refused("never", "parallel=b")], "")
    assert sections(text) == ["refused"]
    assert "parallel=a; parallel=b" in text


def test_every_script_is_used() -> None:
    own = [script for script in SCRIPTS if script.parent == FIGURES]
    assert sorted(own) == sorted(FIGURES.glob("*.js"))
    assert all(script.parent in (FIGURES, PAGE) for script in SCRIPTS)


@pytest.fixture(scope="module")
def drawn(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The page of `scaled`, opened."""
    path = tmp_path_factory.mktemp("plan") / "plan.html"
    write_page(scaled(), COMMAND, path)
    browser.open(path)
    assert browser.requests() == [path.as_uri()]
    yield browser
    assert browser.problems() == []


def traces(browser: Browser, figure: str) -> list[dict[str, Any]]:
    script = """
        return document.getElementById(arguments[0]).data
          .map(({ name, x, y, marker }) => ({ name, x, y, symbol: marker.symbol }));
    """
    return browser.run(script, figure)


@pytest.mark.browser
def test_bars_of_memory_lie_on_each_other_before_the_devices_line(drawn: Browser) -> None:
    layers = traces(drawn, "memory-figure")
    assert [layer["name"] for layer in layers] == ["parameters", "optimizer state", "activations"]
    assert [sum(values) for values in zip(*(layer["x"] for layer in layers), strict=True)] == [
        90,
        90,
        75,
        30,
    ]
    lines, signs = drawn.run(
        "const { shapes, annotations } = document.getElementById('memory-figure').layout;"
        "return [shapes.map((line) => line.x0), annotations.map((one) => one.text)];"
    )
    assert lines == [80] * 4
    assert signs == ["✕ 90.0", "✕ 90.0", "! 75.0", "★ 30.0"]


@pytest.mark.browser
def test_times_are_by_sample_until_asked_otherwise(drawn: Browser) -> None:
    # In ms, of 8 and 16 samples.
    assert traces(drawn, "time-figure")[0]["x"] == pytest.approx([87.5, 43.75] * 2)
    drawn.run("document.querySelector('[data-sets=per] [value=step]').click()")
    drawn.settle()
    assert traces(drawn, "time-figure")[0]["x"] == [0.7] * 4


@pytest.mark.browser
def test_a_line_for_each_strategy_over_the_ranks(drawn: Browser) -> None:
    ddp, fsdp = traces(drawn, "scaling-memory")
    assert (ddp["name"], ddp["x"], ddp["y"]) == ("ddp bf16", [8, 16], [90, 90])
    assert (fsdp["x"], fsdp["y"]) == ([8, 16], [75, 30])
    assert ddp["symbol"] == ["diamond-open"] * 2
    assert fsdp["symbol"] == ["diamond"] * 2
    assert traces(drawn, "scaling-speed")[1]["y"] == [8, 16]
    assert traces(drawn, "scaling-share")[1]["y"] == [1, 1]
    items = drawn.run(
        "return [...document.querySelectorAll('#memory .item')].map((i) => i.textContent)"
    )
    assert items == ["ddp bf16", "fsdp bf16", "show all"]
