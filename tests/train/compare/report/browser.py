"""A headless Chromium of its own for looking at a page as a reader does."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.support.ui import WebDriverWait

PROGRAMS = {"chromium": Path("/usr/bin/chromium"), "chromium-driver": Path("/usr/bin/chromedriver")}
"""Debian's packages, and the program of each that is needed."""

READY_S = 60.0
"""How long a page may take on a busy machine before the test gives it up."""


@dataclass(frozen=True)
class Browser:
    """One browser, in which pages are opened one after the other."""

    driver: Chrome

    def open(
        self, path: Path, width: int = 1440, height: int = 900, dark: bool = False, scale: float = 1
    ) -> None:
        """Load a report and wait until it has drawn its figures.

        Args:
            width, height: of the window, in CSS pixels; below 600 it is a phone's.
            dark: the scheme that the system prefers.
            scale: device pixels for each of these.
        """
        self.resize(width, height, scale)
        self.prefer(dark)
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(path.as_uri())
        self.settle()

    def resize(self, width: int, height: int, scale: float = 1) -> None:
        """Give the window another size."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def prefer(self, dark: bool) -> None:
        """Make the system prefer the dark or the light scheme."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def settle(self) -> None:
        """Wait until all that was asked of the page is drawn."""
        wait = WebDriverWait(self.driver, READY_S)
        wait.until(lambda driver: self.run("return document.body.dataset.ready === 'yes'"))
        # Plotly draws in promises; two frames later they are on the screen.
        self.driver.execute_async_script(
            "const done = arguments[0];"
            "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)));"
        )

    def run(self, script: str, *values: Any) -> Any:
        """What a script in the page returns."""
        return self.driver.execute_script(script, *values)

    def problems(self) -> list[str]:
        """What the page has written to its console since it was opened, warnings included."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses that were asked for since the page was opened, its own among them."""
        messages = [json.loads(entry["message"]) for entry in self.driver.get_log("performance")]
        return [
            message["message"]["params"]["request"]["url"]
            for message in messages
            if message["message"]["method"] == "Network.requestWillBeSent"
        ]

    def picture(self, path: Path, last: str = "body") -> None:
        """Save the page as PNG, from its top to the end of the element that a selector finds."""
        script = """
            const { bottom } = document.querySelector(arguments[0]).getBoundingClientRect();
            return [innerWidth, bottom + scrollY];
        """
        width, height = self.run(script, last)
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        command = {"format": "png", "captureBeyondViewport": True, "clip": clip}
        image = self.driver.execute_cdp_cmd("Page.captureScreenshot", command)
        path.write_bytes(base64.b64decode(image["data"]))


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a profile of its own, both gone at the end."""
    options = ChromeOptions()
    options.binary_location = str(PROGRAMS["chromium"])
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        for word in (
            "--headless=new",
            "--no-sandbox",  # which Chromium demands of root, as in most containers
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--allow-file-access-from-files",
            f"--user-data-dir={profile}",
        ):
            options.add_argument(word)
        # With both paths given, selenium looks for no driver of its own on the network.
        service = ChromeService(executable_path=str(PROGRAMS["chromium-driver"]))
        driver = Chrome(options=options, service=service)
        try:
            yield Browser(driver)
        finally:
            driver.quit()
