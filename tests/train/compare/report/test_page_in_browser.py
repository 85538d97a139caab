"""The page as its reader has it: drawn by a browser, clicked, narrow, dark, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.train.compare.report import sweeps
from tests.train.compare.report.browser import Browser
from tests.train.compare.synthetic import curve, write_run
from train.compare.report import write_report

pytestmark = pytest.mark.browser

GIB = 2**30


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of `sweeps.mixed`."""
    folder = sweeps.mixed(tmp_path_factory.mktemp("mixed sweep"))
    write_report(sweeps.compared(folder), folder / "report.html")
    return folder / "report.html"


@pytest.fixture
def opened(browser: Browser, mixed: Path) -> Iterator[Browser]:
    """The page of `sweeps.mixed`, just opened; nothing may have gone wrong in it by the end."""
    browser.open(mixed)
    yield browser
    assert browser.problems() == []


def traces(browser: Browser, figure: str) -> list[dict[str, Any]]:
    """The visible traces of a figure, as Plotly has them."""
    script = """
        return document.getElementById(arguments[0]).data
          .filter((trace) => trace.visible !== false)
          .map(({ name, x, y, meta, mode, line }) => ({ name, x, y, meta, mode, line }));
    """
    return browser.run(script, figure)


def named(browser: Browser, figure: str, name: str) -> dict[str, Any]:
    """The one visible trace of that name."""
    (trace,) = [trace for trace in traces(browser, figure) if trace["name"] == name]
    return trace


def click(browser: Browser, selector: str) -> None:
    """A real click on what a selector finds."""
    browser.driver.find_element(By.CSS_SELECTOR, selector).click()
    browser.settle()


def legend_item(browser: Browser, text: str) -> Any:
    """The legend's button of that text, above the losses."""
    items = browser.driver.find_elements(By.CSS_SELECTOR, "#loss .legend .item")
    (found,) = [item for item in items if item.text == text]
    return found


def labels(browser: Browser) -> list[str]:
    """The cells of the table from top to bottom, as far as they are shown."""
    script = """
        return [...document.querySelectorAll("table.cells tbody tr:not([hidden]) th")]
          .map((head) => head.dataset.sort);
    """
    return browser.run(script)


def test_nothing_is_asked_of_a_network(browser: Browser, mixed: Path) -> None:
    browser.open(mixed)
    assert browser.requests() == [mixed.as_uri()]
    assert browser.problems() == []
    # No button of plotly.js that would send a figure somewhere, either.
    buttons = browser.run(
        "return [...document.querySelectorAll('.modebar-btn')].map((b) => b.dataset.title)"
    )
    assert set(buttons) == {"Download plot as a PNG", "Zoom", "Pan", "Reset axes"}


def test_the_losses_are_the_records(opened: Browser) -> None:
    train = named(opened, "loss-figure", "fsdp bf16, train")
    assert (train["x"], train["y"]) == ([1, 2, 3], [4, 3.003, 2.2])
    validation = named(opened, "loss-figure", "fsdp bf16, validation")
    assert (validation["x"], validation["y"]) == ([3], [2.75])
    # A loss that was not finite is a gap.
    assert named(opened, "loss-figure", "hsdp fp16, train")["y"] == [4, None]


@pytest.mark.parametrize(
    ("axis", "expected"),
    [("consumed", [32 * 128, 64 * 128, 96 * 128]), ("seconds", [1, 2, 3]), ("step", [1, 2, 3])],
)
def test_the_switch_changes_the_horizontal_axis(
    opened: Browser, axis: str, expected: list[int]
) -> None:
    click(opened, f"#loss button[value={axis}]")
    assert named(opened, "loss-figure", "ddp fp32, train")["x"] == expected


def test_only_one_kind_of_loss_can_be_shown(opened: Browser) -> None:
    click(opened, "#loss button[value=validation]")
    assert {trace["meta"]["kind"] for trace in traces(opened, "loss-figure")} == {"validation"}


def test_parity_is_the_difference_to_the_reference(opened: Browser) -> None:
    relative = named(opened, "parity-figure", "fsdp bf16")
    assert relative["x"] == [1, 2, 3]
    # Equal losses lie on a line of their own, below the smallest difference: 1e-6 of ddp's.
    assert relative["y"] == pytest.approx([1e-7, 0.001, 0.1])
    click(opened, "#parity button[value=signed]")
    assert named(opened, "parity-figure", "fsdp bf16")["y"] == pytest.approx([0, 0.003, 0.2])
    names = [trace["name"] for trace in traces(opened, "parity-figure")]
    assert "single fp32" not in names


def test_bars_and_the_front_are_of_completed_cells(opened: Browser) -> None:
    (speed,) = traces(opened, "speed-figure")
    assert speed["x"] == [100, 900, 1000, 80]
    (memory,) = traces(opened, "memory-figure")
    assert memory["x"] == [8, 9, 3, 2]
    line, _ = traces(opened, "front-figure")
    # single and ddp need more memory than fsdp, and are slower.
    assert (line["x"], line["y"]) == ([2, 3], [80, 1000])
    texts = opened.run("return document.getElementById('front-figure').layout.annotations")
    assert sorted(text["text"] for text in texts) == ["fsdp bf16", "zero3 fp32"]


def test_one_colour_for_a_strategy_in_all_figures(opened: Browser) -> None:
    in_losses = named(opened, "loss-figure", "fsdp bf16, train")["line"]
    in_parity = named(opened, "parity-figure", "fsdp bf16")["line"]
    script = "return document.getElementById(arguments[0]).data.at(-1).marker.color"
    bars = opened.run(script, "speed-figure")
    assert {in_losses["color"], in_parity["color"], bars[2]} == {"#d55e00"}
    assert in_losses["dash"] == in_parity["dash"] != "solid"
    assert named(opened, "loss-figure", "ddp fp32, train")["line"]["dash"] == "solid"


def test_a_click_on_the_legend_hides_a_cell_everywhere(opened: Browser) -> None:
    def drawn() -> tuple[set[int], set[int], int]:
        losses = {trace["meta"]["cell"] for trace in traces(opened, "loss-figure")}
        parity = {trace["meta"]["cell"] for trace in traces(opened, "parity-figure")}
        return losses, parity, len(traces(opened, "speed-figure")[0]["x"])

    assert drawn() == ({0, 1, 2, 3, 4}, {1, 2, 3, 4}, 4)
    item = legend_item(opened, "ddp fp32")
    item.click()
    opened.settle()
    assert drawn() == ({0, 2, 3, 4}, {2, 3, 4}, 3)
    assert item.get_attribute("aria-pressed") == "false"
    item.send_keys(Keys.ENTER)
    opened.settle()
    assert drawn() == ({0, 1, 2, 3, 4}, {1, 2, 3, 4}, 4)


def test_a_double_click_on_the_legend_leaves_a_cell_alone(opened: Browser) -> None:
    ActionChains(opened.driver).double_click(legend_item(opened, "fsdp bf16")).perform()
    opened.settle()
    assert {trace["meta"]["cell"] for trace in traces(opened, "loss-figure")} == {2}
    click(opened, "#loss .item.all")
    assert {trace["meta"]["cell"] for trace in traces(opened, "loss-figure")} == {0, 1, 2, 3, 4}


def test_hovering_tells_run_step_and_value(opened: Browser) -> None:
    ActionChains(opened.driver).double_click(legend_item(opened, "fsdp bf16")).perform()
    opened.settle()
    element = opened.driver.find_element(By.ID, "loss-figure")
    place = """
        const { xaxis, yaxis } = arguments[0]._fullLayout;
        arguments[0].scrollIntoView({ block: "center", behavior: "instant" });
        return [xaxis._offset + xaxis.d2p(2), yaxis._offset + yaxis.d2p(3.003)];
    """
    x, y = opened.run(place, element)
    width, height = element.size["width"], element.size["height"]
    # Offsets count from the middle of the element.
    ActionChains(opened.driver).move_to_element_with_offset(
        element, round(x - width / 2), round(y - height / 2)
    ).perform()
    text = WebDriverWait(opened.driver, 20).until(
        lambda driver: driver.find_element(By.CSS_SELECTOR, "#loss-figure .hovertext").text
    )
    lines = ["fsdp bf16", "training loss 3.00300", "step 2 · 64 samples · 2 s"]
    assert text.replace("\n", "") == "".join(lines)


def test_a_click_on_a_heading_sorts_by_the_number(opened: Browser) -> None:
    heading = "//table[contains(@class, 'cells')]//button[starts-with(., 'samples/s')]"
    button = opened.driver.find_element(By.XPATH, heading)
    button.click()
    numbers = ["hsdp fp16", "zero3 fp32", "single fp32", "ddp fp32", "fsdp bf16"]  # 64 to 1000
    assert labels(opened) == [*numbers, "pipeline fp32"]
    assert button.find_element(By.XPATH, "..").get_attribute("aria-sort") == "ascending"
    button.send_keys(Keys.ENTER)
    assert labels(opened) == [*reversed(numbers), "pipeline fp32"]


def test_ranks_stand_beside_the_speed_up(opened: Browser) -> None:
    script = """
        return [...document.querySelectorAll("table.cells tbody tr")]
          .map((row) => row.cells[2].textContent);
    """
    assert opened.run(script) == ["2", "2", "2", "2", "2", "–"]  # noqa: RUF001


def test_the_filter_narrows_table_and_figures(opened: Browser) -> None:
    opened.driver.find_element(By.ID, "filter").send_keys("completed FP32")
    WebDriverWait(opened.driver, 20).until(
        lambda driver: driver.find_element(By.ID, "shown").text == "3 of 6"
    )
    opened.settle()
    assert labels(opened) == ["single fp32", "ddp fp32", "zero3 fp32"]
    assert {trace["meta"]["cell"] for trace in traces(opened, "loss-figure")} == {0, 1, 3}
    assert traces(opened, "speed-figure")[0]["x"] == [100, 900, 80]


@pytest.mark.parametrize("dark", [False, True])
def test_the_theme_colours_page_and_figures(browser: Browser, mixed: Path, dark: bool) -> None:
    def colours() -> tuple[str, str]:
        paper = "return getComputedStyle(document.body).backgroundColor"
        return browser.run(paper), named(browser, "loss-figure", "single fp32, train")["line"][
            "color"
        ]

    light_and_dark = [("rgb(246, 247, 249)", "#3d4a5c"), ("rgb(14, 18, 24)", "#d7dee8")]
    browser.open(mixed, dark=dark)
    assert colours() == light_and_dark[dark]
    click(browser, "#theme")
    assert colours() == light_and_dark[not dark]


@pytest.mark.parametrize("width", [360, 768, 1440, 3840])
def test_the_page_never_scrolls_sideways(browser: Browser, mixed: Path, width: int) -> None:
    browser.open(mixed, width=width)
    reach = """
        return [...document.querySelectorAll("section, .figure, .item, .findings li, .cause")]
          .filter((element) => element.getBoundingClientRect().right > innerWidth)
          .map((element) => element.outerHTML.slice(0, 80));
    """
    for dark in (False, True):
        browser.prefer(dark)
        browser.settle()
        assert browser.run("return document.documentElement.clientWidth") == width
        assert browser.run("return document.documentElement.scrollWidth") == width
        assert browser.run(reach) == []


def test_figures_are_drawn_anew_for_paper(browser: Browser, mixed: Path) -> None:
    def drawn() -> tuple[int, str]:
        script = "return document.getElementById('parity-figure').layout.width"
        shade = named(browser, "parity-figure", "ddp fp32")["line"]["color"]
        return browser.run(script), shade

    browser.open(mixed, dark=True)
    before = drawn()
    assert before[0] > 1000
    browser.run("dispatchEvent(new Event('beforeprint'))")
    width, shade = drawn()
    assert width <= 700  # of A4's 794 less its margins
    assert shade == "#0072b2"  # as on light ground
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert drawn() == before


def test_links_lead_to_what_is_there(opened: Browser, mixed: Path) -> None:
    script = """
        return [...document.querySelectorAll("main a")]
          .map((a) => [a.getAttribute("href"), a.href]);
    """
    links = opened.run(script)
    assert all(written.startswith("./") for written, _ in links)
    reached = {Path(unquote(urlparse(address).path)) for _, address in links}
    assert all(path.exists() for path in reached)
    failed = mixed.parent / "4_parallel-hsdp"
    assert {failed, failed / "logs/rank-1.log", failed / "logs/rank-1.traceback.txt"} <= reached
    assert mixed.parent / "5_parallel-pipeline #1" in reached


def test_text_of_a_run_is_shown_and_never_run(opened: Browser) -> None:
    cause = opened.driver.find_element(By.CSS_SELECTOR, ".cause").text
    assert cause == f"train/loss is not finite.\n{sweeps.EVIL}"


def test_nothing_completed(browser: Browser, tmp_path: Path) -> None:
    write_run(
        tmp_path / "0_run", status="refused", error={"cause": f"no {sweeps.EVIL}", "rank": None}
    )
    write_report(sweeps.compared(tmp_path), tmp_path / "report.html")
    browser.open(tmp_path / "report.html")
    assert browser.problems() == []
    shown = browser.run("return [...document.querySelectorAll('section')].map((s) => s.id)")
    assert shown == ["cells", "endings"]
    assert "no cell completed" in browser.driver.find_element(By.CSS_SELECTOR, ".findings").text


def test_one_run_without_a_validation(browser: Browser, tmp_path: Path) -> None:
    write_run(tmp_path / "0_run", records=curve([4.0, 3.0], {}), peak_memory_bytes=[GIB])
    write_report(sweeps.compared(tmp_path), tmp_path / "report.html")
    browser.open(tmp_path / "report.html")
    assert browser.problems() == []
    shown = browser.run("return [...document.querySelectorAll('section')].map((s) => s.id)")
    assert shown == ["cells", "loss", "cost", "origin"]
    (trace,) = traces(browser, "loss-figure")
    assert trace["y"] == [4, 3]


def test_seeds_are_one_curve_with_a_band(browser: Browser, tmp_path: Path) -> None:
    for seed, losses in enumerate(([4.0, 3.0], [4.5, 4.0])):
        write_run(tmp_path / f"{seed}_run", seed=seed, records=curve(losses, {}))
    write_report(sweeps.compared(tmp_path), tmp_path / "report.html")
    browser.open(tmp_path / "report.html")
    assert browser.problems() == []
    band, mean = traces(browser, "loss-figure")
    assert mean["y"] == [4.25, 3.5]
    # Along the highest losses, and back along the lowest.
    assert (band["x"], band["y"]) == ([1, 2, 2, 1], [4.5, 4, 3, 4])


def test_two_hundred_cells_stay_usable(browser: Browser, tmp_path: Path) -> None:
    write_report(sweeps.many(tmp_path, count=200, steps=20), tmp_path / "report.html")
    browser.open(tmp_path / "report.html")
    assert browser.problems() == []
    assert browser.run("return document.querySelectorAll('*').length") < 20_000
    items = browser.driver.find_elements(By.CSS_SELECTOR, "#loss .legend .item:not(.all)")
    # Groups stand in for the cells: five strategies, two precisions.
    assert len(items) == 7
    assert len(traces(browser, "speed-figure")[0]["x"]) == 40
    legend_item(browser, "fp32").click()
    browser.settle()
    assert len(traces(browser, "loss-figure")) == 200  # of 100 cells, two curves each
    assert "40 fastest of 100" in browser.driver.find_element(By.ID, "bars-note").text
