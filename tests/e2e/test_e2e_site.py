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
        page.get_by_role("textbox", name="Search").click()
        page.keyboard.type("DeadlineExceeded")
        found = page.locator(".md-search-result__link")
        expect(found.first).to_be_visible(timeout=30_000)
        assert any("causes.html" in (link.get_attribute("href") or "") for link in found.all())
        browser.close()
    assert [url for url in asked if not url.startswith("file:")] == []
