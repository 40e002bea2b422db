# SPDX-License-Identifier: Apache-2.0
"""A page of a local cluster that stays open while the cluster ends, starts again and crashes, in a real browser."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.dashboard.conftest import Window
from tests.e2e.dashboard.running import LocalCluster

pytestmark = pytest.mark.parity

REPORTS = 40
TRAINS = f"""
import os, time
from trainwright.progress import Reporter
with Reporter(total={REPORTS}, every=0.05) as progress:
    for step in range(1, {REPORTS} + 1):
        progress.update(step=step, loss=1 / step)
        print("rank", os.environ.get("JOB_COMPLETION_INDEX"), "step", step, flush=True)
        time.sleep(0.1)
"""
SECONDS = 120_000
"""A start waits for a machine that has much to do."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path, memory=False)
    yield made
    made.end()


def frame(page: Page) -> Locator:
    """The chart of the loss, which says how many points the curve has."""
    return page.locator('figure[data-metric="loss"] .chart-frame')


def act(page: Page, name: str) -> None:
    page.get_by_role("group", name="Actions").get_by_role("button", name=name).click()
    page.get_by_role("dialog").get_by_role("button", name=name).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_page_survives(cluster: LocalCluster, window: Window, picture: Callable[..., None]) -> None:
    address = cluster.up()
    cluster.train("trains", TRAINS, nodes=2)
    page = window.open(address)
    page.get_by_role("link", name="trains", exact=True).click()
    expect(page.locator(".job-head .state")).to_have_text("Complete", timeout=SECONDS)
    # New points are drawn a moment after the state has changed.
    done = page.locator('figure[data-metric=""] .chart-frame')
    expect(done).to_have_attribute("aria-label", re.compile(r"last 100%"), timeout=SECONDS)
    seen = re.compile((frame(page).get_attribute("aria-label") or "").partition(",")[0] + ",")
    assert re.match(r"loss: \d+ points", seen.pattern)
    page.get_by_role("combobox", name="Pod").select_option("*")
    log = page.locator("pre.log")
    state = page.locator(".log-state")
    for rank in (0, 1):
        expect(log).to_contain_text(f"[rank {rank}] rank {rank} step {REPORTS}")
    expect(state).to_contain_text(f"{2 * REPORTS} lines")

    assert cluster.local("down").returncode == 0
    expect(page.locator("#link")).to_have_text("Connection lost")
    expect(page.locator("#banner")).to_contain_text("use the address that this prints: trainwright local up")
    picture(page, "local-down")
    assert cluster.up() == address
    expect(page.locator("#link")).to_have_text("Live", timeout=SECONDS)
    expect(page.locator("#banner")).to_be_hidden()
    expect(frame(page)).to_have_attribute("aria-label", seen, timeout=SECONDS)

    cluster.crash()
    expect(page.locator("#link")).to_have_text("Connection lost")
    assert cluster.up() == address
    expect(page.locator("#link")).to_have_text("Live", timeout=SECONDS)
    # What the new process read from disk is the whole run, and the log is there.
    page.reload()
    expect(frame(page)).to_have_attribute("aria-label", seen, timeout=SECONDS)
    expect(state).to_contain_text(f"{2 * REPORTS} lines")
    picture(page, "local-survived", whole=True)

    act(page, "Run again")
    page.get_by_role("link", name=re.compile("Open trains-")).click()
    expect(page.get_by_role("heading", level=1, name=re.compile("trains-....."))).to_be_visible()
    expect(page.locator(".job-head .state")).to_have_text(re.compile("Running|Complete"), timeout=SECONDS)
    act(page, "Delete")
    expect(page.locator("main")).to_contain_text("The job was deleted", timeout=SECONDS)

    renewed = cluster.up("--new-token")
    assert renewed != address
    expect(page.locator("#banner")).to_contain_text("its token was renewed", timeout=SECONDS)
    page.goto(renewed)
    expect(page.get_by_role("link", name="trains", exact=True)).to_be_visible()
    # Chromium notes each request that fails, and each that is refused.
    window.expects("net::ERR")
    window.expects("40[0-9]")
