# SPDX-License-Identifier: Apache-2.0
"""The log box, what the address keeps, and the actions, in a real browser with answers that the test makes."""

import re
from collections.abc import Callable

import msgspec
import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.dashboard.conftest import Window, audit
from tests.e2e.dashboard.stub import Query, Stub, problem, sample, sample_job, with_curves
from trainwright.controller.dashboard import contract

pytestmark = pytest.mark.parity

replace = msgspec.structs.replace
LINES = 30_000


def long_log(_pod: str, _query: Query) -> bytes:
    """A log that no document could hold."""
    return b"".join(b"step %d loss 0.%03d\n" % (number, number % 997) for number in range(LINES))


def shown(page: Page) -> list[str]:
    """The lines that are seen in the box."""
    found: list[str] = page.evaluate(
        "() => { const box = document.querySelector('pre.log').getBoundingClientRect();"
        " return [...document.querySelectorAll('.log-line')].filter((line) => {"
        "  const { top, bottom } = line.getBoundingClientRect(); return bottom > box.top + 12 && top < box.bottom - 12;"
        " }).map((line) => line.textContent.trim()); }"
    )
    return found


def test_all_lines_of_a_long_log_are_reached_by_scrolling(
    stub: Stub, window: Window, picture: Callable[..., None]
) -> None:
    stub.log = long_log
    page = window.open(stub.url + stub.put(sample_job("running")))
    log = page.locator("pre.log")
    expect(log).to_contain_text(f"step {LINES - 1} ")
    assert shown(page)[-1].startswith(f"step {LINES - 1} ")
    expect(page.locator(".log-state")).to_contain_text("30,000 lines")
    for part in (0.0, 0.5, 0.123):
        log.evaluate("(node, part) => { node.scrollTop = (node.scrollHeight - node.clientHeight) * part; }", part)
        wanted = round(part * LINES)
        expect(log).to_contain_text(re.compile(rf"step {wanted // 10}\d? "))
        # Lines are read in parts, and have three dots until theirs is there.
        expect(log).not_to_contain_text("\N{HORIZONTAL ELLIPSIS}")
        first = int(re.findall(r"\d+", shown(page)[0])[0])
        assert abs(first - part * LINES) < 30, (part, first)
        numbers = [int(re.findall(r"\d+", line)[0]) for line in shown(page)]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert page.locator(".log-line").count() < 300, "the document holds only what is seen"
    page.get_by_role("button", name="Wrap").click()
    expect(log).to_contain_text("loss")
    page.get_by_role("button", name="Follow").click()
    expect(log).to_contain_text(f"step {LINES - 1} ")
    assert shown(page)[-1].startswith(f"step {LINES - 1} ")
    picture(page, "log-long", whole=True)


def test_a_log_is_searched_and_kept(stub: Stub, window: Window) -> None:
    stub.log = long_log
    page = window.open(stub.url + stub.put(sample_job("running")))
    expect(page.locator("pre.log")).to_contain_text("loss")
    field = page.get_by_role("searchbox", name="Find in the log")
    field.fill("STEP 1234")
    region = page.get_by_role("search")
    expect(region).to_contain_text("11 of 11")
    expect(page.locator(".log-line[data-marked]")).to_contain_text("step 12349 ")
    expect(page.locator(".log-line[data-marked] mark")).to_have_text("step 1234")
    field.press("Enter")
    expect(region).to_contain_text("1 of 11")
    expect(page.locator(".log-line[data-marked]")).to_contain_text("step 1234 ")
    field.press("Shift+Enter")
    expect(region).to_contain_text("11 of 11")
    field.fill("no such text")
    expect(region).to_contain_text("No line has this text")
    field.press("Escape")
    expect(field).to_have_value("")
    with page.expect_download() as waited:
        page.get_by_role("link", name="Download").click()
    assert waited.value.path().read_bytes() == long_log("", {})


def test_another_log_is_searched_for_the_same_words(stub: Stub, window: Window) -> None:
    stub.log = lambda pod, _query: b"step\n" * (2 if pod.endswith("x1k2p") else 3)
    page = window.open(stub.url + stub.put(sample_job("running")))
    page.get_by_role("searchbox", name="Find in the log").fill("step")
    expect(page.get_by_role("search")).to_contain_text("3 of 3")
    page.get_by_role("button", name="Log of rank 1").click()
    expect(page.get_by_role("search")).to_contain_text("2 of 2")


@pytest.mark.parametrize("pod", ["", "*"], ids=["one rank", "all ranks"])
def test_the_log_goes_on_with_a_run_that_starts_after_the_end(stub: Stub, window: Window, pod: str) -> None:
    """Also within the second in which the run before was started."""
    stub.log = lambda _pod, _query: b"first run\n"
    job = sample_job("running")
    page = window.open(stub.url + stub.put(job))
    if pod:
        page.get_by_role("combobox", name="Pod").select_option(pod)
    expect(page.locator(".log-state")).to_contain_text("The log ends here")
    stub.log = lambda _pod, _query: b"first run\nsecond run\n"
    containers = [replace(one, restarts=one.restarts + 1) for one in job.pods[0].containers]
    pods = [replace(job.pods[0], containers=containers), *job.pods[1:]]
    stub.send("job", replace(job, pods=pods), f"{job.row.namespace}/{job.row.name}")
    expect(page.locator("pre.log")).to_contain_text("second run")


def test_all_ranks_are_merged_with_names_and_colours(stub: Stub, window: Window, picture: Callable[..., None]) -> None:
    stub.log = lambda _pod, _query: b"".join(b"line %d\n" % number for number in range(40))
    job = sample_job("running")
    page = window.open(stub.url + stub.put(job))
    page.get_by_role("combobox", name="Pod").select_option("*")
    log = page.locator("pre.log")
    expect(log).to_contain_text("[rank 0] line 38")
    expect(log).to_contain_text("[rank 1] line 39")
    colours = page.evaluate(
        "[...new Set([...document.querySelectorAll('.log-rank')].map((node) => getComputedStyle(node).color))].length"
    )
    assert colours == 2
    expect(page).to_have_url(re.compile(r"log=\*"))
    assert audit(page) == []
    picture(page, "log-merged", whole=True)


def test_a_job_that_is_left_takes_no_address(stub: Stub, window: Window) -> None:
    """Its log opens by itself, perhaps when the address is another one already, and the view is not yet."""
    page = window.open(stub.url + with_curves(stub, sample_job("running")))
    expect(page.get_by_role("combobox", name="Pod")).to_be_visible()
    page.evaluate(
        "location.hash = '#/?state=Running'; "
        "document.querySelector('select[aria-label=Pod]').dispatchEvent(new Event('change'))"
    )
    expect(page.get_by_role("button", name="Running")).to_have_attribute("aria-pressed", "true")


def test_the_address_keeps_axis_scale_attempt_and_log(stub: Stub, window: Window) -> None:
    job = sample_job("running")
    job = replace(job, attempt=2)
    page = window.open(stub.url)
    page.get_by_role("button", name="Running").click()
    expect(page).to_have_url(re.compile("state=Running"))
    page.goto(stub.url + with_curves(stub, job))
    frame = page.locator('figure[data-metric="loss"] .chart-frame')
    expect(frame).to_have_attribute("aria-label", re.compile("loss: 10 points"))
    page.get_by_role("button", name="Step").click()
    page.get_by_role("button", name="Log scale").click()
    page.get_by_role("combobox", name="Attempt").select_option("2")
    expect(frame).to_have_attribute("aria-label", re.compile("loss: 5 points"))
    page.get_by_role("searchbox", name="Find in the log").fill("line")
    expect(page).to_have_url(re.compile(r"by=step&scale=log&attempt=2.*&find=line"))
    page.reload()
    expect(frame).to_have_attribute("aria-label", re.compile("loss: 5 points"))
    for name in ("Step", "Log scale"):
        expect(page.get_by_role("button", name=name)).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("combobox", name="Attempt")).to_have_value("2")
    expect(page.get_by_role("searchbox", name="Find in the log")).to_have_value("line")
    page.get_by_role("combobox", name="Attempt").select_option("")
    expect(frame).to_have_attribute("aria-label", re.compile("loss: 10 points"))
    # The way back leads to the list as it was filtered, also after a reload.
    page.get_by_role("link", name="← All jobs").click()
    expect(page.get_by_role("button", name="Running")).to_have_attribute("aria-pressed", "true")
    page.go_back()
    expect(page.get_by_role("button", name="Log scale")).to_have_attribute("aria-pressed", "true")
    page.go_back()
    expect(page.get_by_role("button", name="Running")).to_have_attribute("aria-pressed", "true")


def test_points_that_stand_for_several_reports_have_a_band(
    stub: Stub, window: Window, picture: Callable[..., None]
) -> None:
    job = sample_job("running")
    place, key = with_curves(stub, job), f"{job.row.namespace}/{job.row.name}"
    plain = stub.series[key]
    page = window.open(stub.url + place)
    canvas = page.locator('figure[data-metric="loss"] canvas')
    expect(canvas).to_be_visible()
    before = canvas.screenshot()
    curves = [
        replace(one, lows=[None if x is None else x - 0.3 for x in one.values], highs=one.values)
        for one in plain.points.curves
    ]
    stub.series[key] = replace(plain, points=replace(plain.points, curves=curves), joined=4)
    page.reload()
    expect(page.locator("main")).to_contain_text("Each point stands for up to 4 reports.")
    expect(page.get_by_text("A band is from the lowest to the highest value")).to_be_visible()
    expect(canvas).to_be_visible()
    assert canvas.screenshot() != before
    picture(page, "job-band")


def test_what_the_viewer_may_not_is_not_offered(stub: Stub, window: Window) -> None:
    job = sample_job("running")
    place = stub.put(job)
    page = window.open(stub.url + place)
    expect(page.locator("pre.log")).to_contain_text("one line")
    expect(page.get_by_role("group", name="Actions")).to_have_count(0)
    stub.actions = replace(sample("actions", contract.Actions), allowed=["again"])
    page.reload()
    expect(page.get_by_role("button", name="Run again")).to_be_visible()
    for name in ("Stop", "Resume", "Delete"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)


def test_an_action_is_done_after_a_question(stub: Stub, window: Window, picture: Callable[..., None]) -> None:
    stub.actions = sample("actions", contract.Actions)
    job = sample_job("running")
    page = window.open(stub.url + stub.put(job))
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name=f"Delete {job.row.name}?")
    expect(dialog).to_contain_text("its logs, curves and record of failures go with it")
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    assert audit(page) == []
    picture(page, "job-delete")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert stub.changed == []
    page.get_by_role("button", name="Run again").click()
    page.get_by_role("dialog").get_by_role("button", name="Run again").click()
    expect(page.get_by_role("link", name="Open bert-finetune-x7k2p")).to_be_visible()
    ((path, headers),) = stub.changed
    assert path.endswith(f"/actions/again?uid={job.row.uid}")
    assert headers["X-Trainwright-Action"] == stub.session.action_token
    assert headers["Origin"] == stub.url.rstrip("/")
    stub.done = problem("log_forbidden")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    window.expects("40[0-9]")


def test_an_action_waits_for_the_session_that_it_needs(stub: Stub, window: Window) -> None:
    stub.actions = sample("actions", contract.Actions)
    place = stub.put(sample_job("running"))
    page = window.open(stub.url)
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        held.append(route)
        if len(held) > 1:
            route.continue_()

    page.route("**/session", hold_the_first)
    page.goto(stub.url + place)
    page.reload()
    page.get_by_role("button", name="Run again").click()
    assert len(held) == 1
    page.get_by_role("dialog").get_by_role("button", name="Run again").click()
    expect(page.get_by_role("link", name="Open bert-finetune-x7k2p")).to_be_visible()
    ((_, headers),) = stub.changed
    assert headers["X-Trainwright-Action"] == stub.session.action_token
    held[0].continue_()
