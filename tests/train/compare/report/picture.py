"""A picture of a report for the README, or of a plan's page for the docs.

python -m tests.train.compare.report.picture outputs/.../report.html docs/images/report.png
python -m tests.train.compare.report.picture plan.html docs/images/plan.png --last memory
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image

from tests.train.compare.report.browser import chromium

WIDTH, HEIGHT = 1800, 800
"""Of the window: wide enough for losses beside parity, of a height that keeps these low."""


def main() -> None:
    parser = argparse.ArgumentParser(description="A picture of a page.")
    parser.add_argument("page", type=Path)
    parser.add_argument("png", type=Path)
    parser.add_argument("--last", default="cost", help="the section that ends the picture")
    parser.add_argument("--dark", action="store_true")
    asked = parser.parse_args()
    with chromium() as browser:
        browser.open(asked.page.resolve(), width=WIDTH, height=HEIGHT, dark=asked.dark)
        # Icons of the figures, which a screen shows only under the pointer.
        browser.run("document.querySelectorAll('.modebar').forEach((bar) => bar.remove())")
        browser.picture(asked.png, f"#{asked.last}")
    # As many colours as the page has: a third of the size.
    Image.open(asked.png).convert("RGB").quantize(256).save(asked.png, optimize=True)
    print(f"{asked.png}: {asked.png.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
