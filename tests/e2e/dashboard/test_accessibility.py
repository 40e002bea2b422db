# SPDX-License-Identifier: Apache-2.0
"""The page by keyboard and for screen readers, and what axe finds in it."""

import re
from collections.abc import Callable

import msgspec
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.dashboard.conftest import Window, audit
from tests.e2e.dashboard.stub import Stub, many, more_points, one_row, sample, sample_job, with_curves
from trainwright.controller.dashboard import contract

pytestmark = pytest.mark.parity

replace = msgspec.structs.replace


def test_the_keyboard_reaches_everything(stub: Stub, window: Window) -> None:
    stub.jobs = many(300)
    for row in stub.jobs.jobs:
        stub.put(sample_job("running", row=row))
    page = window.open(stub.url)
    expect(page.locator(".rows .row-name").first).to_be_visible()

    def focused() -> str:
        text: str = page.evaluate(
            "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent.trim()"
        )
        return text

    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(focused())
        if reached[-1].startswith("job-"):
            break
    assert reached[:4] == ["Skip to the content", "Trainwright", "Keys", "Dark theme"]
    assert "Filter by name, namespace, runtime, state or reason" in reached
    assert {"Job", "State", "Progress", "ETA", "Last report", "Created", "Duration", "Loss"} <= set(reached)
    first = reached[-1]
    page.keyboard.press("ArrowDown")
    assert focused() != first
    page.keyboard.press("End")
    last = focused()
    assert page.locator('.rows .row[aria-rowindex="301"] .row-name').inner_text() == last
    # A change of the list takes the focus nowhere.
    stub.send("rows", contract.Rows(now=stub.jobs.now, changed=[one_row("fresh")], deleted=[]))
    expect(page.get_by_role("table")).to_have_attribute("aria-rowcount", "302")
    expect(page.get_by_role("link", name="fresh")).to_have_count(1)
    assert focused() == last
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name=last)).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("job-0007")
    expect(page.locator(".rows .row")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator(".rows .row").nth(5)).to_be_visible()
    page.get_by_role("button", name="Running").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_charts_are_read_by_keyboard(stub: Stub, window: Window) -> None:
    job = sample_job("running")
    page = window.open(stub.url + with_curves(stub, job))
    loss = page.locator('figure[data-metric="loss"]')
    frame, value, said = loss.locator(".chart-frame"), loss.locator(".chart-value"), page.locator("#polite")
    expect(frame).to_have_attribute("aria-label", re.compile("10 points"))
    frame.focus()
    page.keyboard.press("Home")
    expect(said).to_have_text(re.compile("^2, step 0 · "))
    whole = page.get_by_role("button", name="Whole run")
    page.keyboard.press("+")
    expect(whole).to_be_enabled()
    page.keyboard.press("0")
    expect(whole).to_be_disabled()
    # A report that comes moves what is read nowhere.
    expect(value).to_have_text("2")
    stub.send("points", more_points(job), f"{job.row.namespace}/{job.row.name}")
    expect(frame).to_have_attribute("aria-label", re.compile("11 points"))
    expect(value).to_have_text("2")
    page.keyboard.press("ArrowRight")
    expect(said).to_have_text(re.compile("^1.9, step 10 · "))
    # Over steps there are other places, and without the focus the last value is shown again.
    page.get_by_role("button", name="Step").click()
    expect(value).to_have_text("0.5")


def test_screen_readers_are_not_chattered_at(stub: Stub, window: Window) -> None:
    job = sample_job("running")
    key = f"{job.row.namespace}/{job.row.name}"
    page = window.open(stub.url + with_curves(stub, job))
    expect(page.locator(".job-head .state")).to_have_text("Running")
    # Said once when the page opens, and maybe later than the rest of it: not what is counted.
    expect(page.locator(".log-state")).to_have_text("1 line. The log ends here.")
    page.evaluate(
        "window.said = []; for (const node of document.querySelectorAll('[aria-live=polite], [role=status]'))"
        " new MutationObserver(() => window.said.push(node.textContent))"
        ".observe(node, {childList: true, characterData: true, subtree: true})"
    )
    for percentage in range(63, 83):
        stub.send("job", replace(job, row=replace(job.row, percentage=percentage)), key)
    expect(page.locator(".big")).to_have_text("82%")
    assert page.evaluate("window.said") == []
    stub.send("job", replace(job, row=replace(job.row, state="Failed")), key)
    expect(page.locator("#polite")).to_have_text(f"{job.row.name} is Failed now")
    assert len(page.evaluate("window.said")) == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(stub: Stub, window: Window, picture: Callable[..., None], theme: str) -> None:
    page = window.open(stub.url, theme=theme)
    expect(page.locator("#link")).to_have_text("Live")
    expect(page.locator(".rows .row").first).to_be_visible()
    assert audit(page) == []
    picture(page, f"list-{theme}")
    page.goto(stub.url + with_curves(stub, sample_job("running")))
    expect(page.locator("pre.log")).to_contain_text("one line")
    page.locator("figure summary").first.click()
    page.evaluate("scrollTo(0, 0)")
    assert audit(page) == []
    picture(page, f"job-{theme}", whole=True)
    for name in ("stalled", "waiting", "suspended", "unread", "failed", "hostile", "complete"):
        page.goto(stub.url + stub.put(sample_job(name)))
        page.reload()
        expect(page.locator(".job")).to_be_visible()
        assert audit(page) == [], name
    page.keyboard.press("?")
    assert audit(page) == []
    page.keyboard.press("Escape")
    page.get_by_text("What the job became").click()
    expect(page.locator(".yaml .line").first).to_be_visible()
    page.get_by_text("Every value and who set it").click()
    assert audit(page) == []
    page.goto(f"{stub.url}#/jobs/default/absent")
    expect(page.get_by_role("heading", name="The job is not there")).to_be_visible()
    assert audit(page) == []
    for name in ("jobs_empty", "jobs_forbidden"):
        stub.jobs = sample(name, contract.JobList)
        page.goto(stub.url)
        page.reload()
        expect(page.locator(".empty h2")).to_be_visible()
        assert audit(page) == [], name
    stub.send("snapshot", many(40))
    stub.send("connection", sample("connection_lost", contract.Connection))
    expect(page.locator("#banner")).to_be_visible()
    page.get_by_role("button", name="Running").click()
    assert audit(page) == []
    picture(page, f"list-lost-{theme}")
    window.expects("404")


FOCUS = """() => {
  const node = document.activeElement;
  if (node === document.body) return null;
  const isSeen = (seen) => {
    const { outlineStyle, outlineWidth } = getComputedStyle(seen);
    const box = seen.getBoundingClientRect();
    return outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 && box.width > 0 && box.height > 0
      && box.bottom > 0 && box.top < innerHeight;
  };
  // The link of a row marks the whole row.
  const row = node.closest(".rows .row");
  return [isSeen(node) || (row !== null && isSeen(row)), node.outerHTML.slice(0, 120)];
}"""
"""Whether what has the focus is marked and in the window."""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_focus_is_always_seen(stub: Stub, window: Window, theme: str) -> None:
    stub.jobs = many(40)
    page = window.open(stub.url, theme=theme)
    expect(page.locator(".rows .row-name").first).to_be_visible()
    stops = walk(page)
    assert len(stops) > 15
    page.goto(stub.url + with_curves(stub, sample_job("failed")))
    # Log and curves are read for themselves; what comes while the keys are pressed moves what has the focus.
    expect(page.locator('figure[data-metric="loss"] canvas')).to_be_visible()
    expect(page.locator("pre.log")).to_contain_text("one line")
    page.get_by_text("What the job became").click()
    expect(page.locator(".yaml .line").first).to_be_visible()
    page.locator(".brand").focus()
    stops = walk(page)
    for part in (
        "All jobs",
        "chart-frame",
        "<summary",
        "Last lines of its log",
        "small-button",
        "<select",
        "<pre",
        "yaml",
    ):
        assert any(part in stop for stop in stops), part


def walk(page: Page) -> list[str]:
    """Go through a page with the Tab key; returns its stops. Each must be marked."""
    stops = []
    for _ in range(100):
        page.keyboard.press("Tab")
        found = page.evaluate(FOCUS)
        if found is None:
            break
        is_seen, html = found
        assert is_seen, html
        stops.append(html)
    return stops


def test_nothing_moves_for_who_asks_for_that(stub: Stub, window: Window) -> None:
    page = window.open(stub.url)
    expect(page.locator(".rows .row").first).to_be_visible()
    moving = (
        "[...document.querySelectorAll('*')].filter((node) => { const style = getComputedStyle(node);"
        " return style.animationName !== 'none' || style.transitionDuration.split(', ').some((one) => one !== '0s')"
        " || style.scrollBehavior === 'smooth'; }).length"
    )
    assert page.evaluate(moving) == 0
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(moving) > 0
