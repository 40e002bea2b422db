# SPDX-License-Identifier: Apache-2.0
"""A browser for the tests of the dashboard: Debian's Chromium, one for all tests of a file.

What a page complains about (an error, a refused resource) fails its test. Pictures are kept in build/dashboard.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright import sync_api
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Playwright, expect, sync_playwright

from tests.assertions import counted
from tests.e2e.dashboard.stub import Stub, serving
from tests.repository import ROOT

CHROMIUM = os.environ.get("TRAINWRIGHT_CHROMIUM") or shutil.which("chromium") or ""
PICTURES = ROOT / "build" / "dashboard"
HERE = Path(__file__).parent
SECONDS = 60
expect.set_options(timeout=SECONDS * 1000)
sync_api.expect = counted(expect)  # type: ignore[assignment]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave these tests out where there is no Chromium."""
    for item in items:
        if str(item.path).startswith(f"{HERE}/"):
            item.add_marker(pytest.mark.only_where(bool(CHROMIUM), "there is no Chromium"))


def launch(playwright: Playwright) -> Browser:
    """Start Chromium. Root has no sandbox in a container."""
    assert CHROMIUM, "there is no Chromium; install it, or name it in TRAINWRIGHT_CHROMIUM"
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    return playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with sync_playwright() as playwright:
        started = launch(playwright)
        yield started
        started.close()


class Window:
    """Opens pages, and notes what they complain about."""

    def __init__(self, browser: Browser) -> None:
        self.complaints: list[str] = []
        self._expected: list[str] = []
        self._browser = browser
        self._contexts: list[Any] = []

    def open(self, url: str, *, theme: Any = "light", width: int = 1440, height: int = 900) -> Page:
        """A page in a browser of its own, so to speak: nothing is remembered of earlier ones."""
        context = self._browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            reduced_motion="reduce",
        )
        context.set_default_timeout(SECONDS * 1000)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", self._asked)
        page.goto(url)
        return page

    def expects(self, pattern: str) -> None:
        """Complaints in which the pattern is found are what the test brings about, whenever they come.

        Chromium notes a refused request itself, and its note may come after all that the test waits for.
        """
        self._expected.append(pattern)

    def unexpected(self) -> list[str]:
        """The other complaints so far."""
        return [one for one in self.complaints if not any(re.search(pattern, one) for pattern in self._expected)]

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def _asked(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def window(browser: Browser) -> Iterator[Window]:
    """Opens pages that must not complain."""
    made = Window(browser)
    yield made
    made.close()
    assert made.unexpected() == []


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Keeps a picture of a page in build/dashboard."""

    def take(page: Page, name: str, *, whole: bool = False) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        size = page.viewport_size
        if whole and size is not None:
            # A window as high as the page, since what is not seen is not drawn; then what a person sees at the top.
            page.evaluate("scrollTo(0, 0)")
            high = page.evaluate("document.documentElement.scrollHeight")
            page.set_viewport_size({"width": size["width"], "height": min(high, 6000)})
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        page.screenshot(path=PICTURES / f"{name}.png")
        if whole and size is not None:
            page.set_viewport_size(size)

    return take


@pytest.fixture
def stub() -> Iterator[Stub]:
    """Serves the page with answers that the test sets."""
    with serving(Stub()) as served:
        yield served


def audit(page: Page) -> list[str]:
    """What axe finds in a page; serious and critical findings, with the first element of each."""
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0].get('failureSummary', '')}"
        for one in found
        if one["impact"] in {"serious", "critical", "moderate"}
    ]
