# SPDX-License-Identifier: Apache-2.0
"""The site of docs/ in a folder, without a server: a browser searches in it, and asks no other host for anything."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.e2e.dashboard.conftest import launch
from tests.repository import ROOT


@pytest.mark.parity
def test_the_search_works_in_a_folder(tmp_path: Path) -> None:
    mkdocs = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(mkdocs, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((tmp_path / "users" / "jobs.html").as_uri())
        words = page.get_by_role("textbox", name="Search")
        words.click()
        # All at once, then a key: each key searches, and what the first letters find would be shown meanwhile.
        words.fill("DeadlineExceeded")
        words.press("End")
        expect(page.locator(".md-search-result__link").first).to_be_visible()
        expect(page.locator(".md-search-result__link[href*='causes.html']").first).to_be_attached()
        browser.close()
    assert [url for url in asked if not url.startswith("file:")] == []
