from __future__ import annotations

import re
from pathlib import Path

from tests.train.compare.report import sweeps
from tests.train.compare.report.written import content, sections
from tests.train.compare.synthetic import curve, write_run
from train.compare.report import write_report
from train.compare.report.markup import PAGE
from train.compare.report.page import SCRIPTS, page
from train.compare.report.payload import payload


def test_the_page_is_one_file_in_strict_json(tmp_path: Path) -> None:
    folder = sweeps.mixed(tmp_path)
    write_report(sweeps.compared(folder), folder / "report.html")
    text = (folder / "report.html").read_text()
    assert text.startswith("<!doctype html>")
    assert text.count("<script") - text.count('type="application/json"') >= 2
    assert not re.search(r'<(script|img|link)[^>]* (src|href)="(?!data:)', text)
    failed = content(text)["cells"][4]
    assert failed["train"]["loss"] == [4, None]
    assert failed["memory"] is None
    assert [path.name for path in folder.iterdir() if path.is_file()] == ["report.html"]


def test_sections_without_data_are_left_out(tmp_path: Path) -> None:
    whole = sections(page(sweeps.compared(sweeps.mixed(tmp_path / "mixed")), tmp_path))
    assert whole == ["cells", "loss", "parity", "cost", "front", "config", "endings", "origin"]
    write_run(tmp_path / "one" / "0_run", records=curve([4.0], {}))
    one = page(sweeps.compared(tmp_path / "one"), tmp_path)
    assert sections(one) == ["cells", "loss", "cost", "origin"]
    assert 'href="#parity"' not in one


def test_columns_that_are_empty_everywhere_are_left_out(tmp_path: Path) -> None:
    write_run(tmp_path / "0_run", records=curve([4.0, 3.0], {}))
    text = page(sweeps.compared(tmp_path), tmp_path)
    table = text[text.index("<table") : text.index("</table>")]
    assert "train loss" in table
    assert "val loss" not in table


def test_mean_and_spread_over_seeds_are_in_the_table(tmp_path: Path) -> None:
    for seed, last in enumerate((2.0, 2.2)):
        write_run(tmp_path / f"{seed}_run", seed=seed, records=curve([4.0], {1: last}))
    text = page(sweeps.compared(tmp_path), tmp_path)
    # (2.2 - 2.0) / sqrt(2) = 0.1414
    assert '2.1000 <small title="standard deviation over seeds">± 0.14</small>' in text
    assert ">seed 0</a> <a" in text


def test_titles_and_labels_are_escaped(tmp_path: Path) -> None:
    config = {"model.name": "<b>bold</b>"}
    write_run(tmp_path / "0_run", config=config)
    write_run(tmp_path / "1_run", config={"model.name": "plain"})
    text = page(sweeps.compared(tmp_path, title="<i>sweep</i>"), tmp_path)
    assert "<b>bold" not in text
    assert "<i>sweep" not in text
    assert "&lt;b&gt;bold&lt;/b&gt;" in text


def test_long_curves_are_thinned_and_the_page_says_so(tmp_path: Path) -> None:
    losses = [4.0] * 3000
    losses[1234] = 9.0
    write_run(tmp_path / "0_run", records=curve(losses, {}))
    comparison = sweeps.compared(tmp_path)
    data = payload(comparison)
    (cell,) = data.content["cells"]
    assert data.thinned == 2000
    assert len(cell["train"]["step"]) <= 2000
    assert cell["train"]["loss"][cell["train"]["step"].index(1235)] == 9
    assert "thinned to at most 2000 points" in page(comparison, tmp_path)


def test_every_script_of_the_page_is_used() -> None:
    assert sorted(SCRIPTS) == sorted(path.name for path in PAGE.glob("*.js"))
