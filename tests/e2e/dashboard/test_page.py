# SPDX-License-Identifier: Apache-2.0
"""The list of jobs in a real browser, with answers that the test makes: what it shows, and what it never does."""

from collections.abc import Callable

import msgspec
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.dashboard.conftest import Window, audit
from tests.e2e.dashboard.stub import Stub, many, one_row, problem, sample, sample_job, with_curves
from trainwright.controller.dashboard import contract
from trainwright.controller.runtime.testing.waiting import equals, eventually_sync
from trainwright.controller.views.explanation import ReferenceView

pytestmark = pytest.mark.parity

replace = msgspec.structs.replace
LONG_TASKS = (
    "window.long = 0; new PerformanceObserver((list) => { for (const entry of list.getEntries())"
    " window.long = Math.max(window.long, entry.duration); }).observe({entryTypes: ['longtask']})"
)


SHOWN = "[...document.querySelectorAll('.rows .row-percent')].map(one => one.textContent.trim())"


def names(page: Page) -> list[str]:
    """The jobs that exist in the document, from top to bottom."""
    return page.locator(".rows .row-name").all_inner_texts()


def test_every_state_has_a_word_a_sign_and_a_reason(stub: Stub, window: Window, picture: Callable[..., None]) -> None:
    page = window.open(stub.url)
    rows = page.get_by_role("row")
    for name, word, text in (
        ("bert-finetune", "Running", "62%"),
        ("t5-large", "Stalled", "no report for 12m"),
        ("llama-8b", "Waiting", "2 of 4 pods do not fit"),
        ("typo", "Blocked", "torch-distribted does not exist"),
        ("nightly", "Suspended", "suspended"),
        ("resnet50", "Failed", "FloatingPointError: loss is nan"),
        ("mnist", "Complete", "100%"),
    ):
        row = rows.filter(has=page.get_by_role("link", name=name, exact=True))
        expect(row).to_contain_text(word)
        expect(row).to_contain_text(text)
        assert row.locator(".state svg").count() == 1
    expect(rows.filter(has_text="attempt")).to_have_count(2)
    expect(rows.filter(has_text="bert-finetune")).to_contain_text("attempt 2")
    expect(page.locator("#link")).to_have_text("Live")
    expect(rows.filter(has_text="late-and-slow")).to_contain_text("late")
    picture(page, "list-light")


def test_a_browser_finds_text_in_all_rows_of_a_thousand(stub: Stub, window: Window) -> None:
    stub.jobs = many(1000)
    page = window.open(stub.url)
    expect(page.get_by_role("table", name="TrainJobs")).to_have_attribute("aria-rowcount", "1001")
    expect(page.locator(".rows .row")).to_have_count(1000)
    before = page.evaluate("scrollY")
    # What Ctrl-F does.
    assert page.evaluate("find('job-0777')")
    assert page.evaluate("scrollY") > before
    expect(page.get_by_role("link", name="job-0777")).to_be_in_viewport()
    page.evaluate(LONG_TASKS)
    for turn in range(5):
        changed = [replace(row, percentage=turn) for row in stub.jobs.jobs[1::2]]
        stub.send("rows", contract.Rows(now=stub.jobs.now, changed=changed, deleted=[]))
        page.wait_for_timeout(50)
    # An `expect` that does not hold at once first describes the whole page, which takes half a minute with 1,000 rows.
    eventually_sync(
        lambda: page.evaluate(SHOWN).count("4%"), equals(500), what="the last percentage in every second row"
    )
    print("longest task, in ms:", page.evaluate("window.long"))


def test_the_list_ends_after_a_thousand_jobs_and_a_filter_finds_the_others(stub: Stub, window: Window) -> None:
    stub.jobs = many(1100)
    page = window.open(stub.url)
    expect(page.get_by_role("table", name="TrainJobs")).to_have_attribute("aria-rowcount", "1101")
    expect(page.locator(".rows .row")).to_have_count(1000)
    expect(page.get_by_text("The list ends after 1,000 jobs. Filter it to see others.")).to_be_visible()
    places = [int(row.get_attribute("aria-rowindex") or 0) for row in page.locator(".rows .row").all()[:20]]
    assert places == sorted(places), "screen readers read the rows in the order of the document"
    page.get_by_role("searchbox").fill("job-1099")
    expect(page.locator(".rows .row-name")).to_have_text(["job-1099"])
    expect(page.get_by_text("The list ends after")).to_be_hidden()


def test_the_newest_jobs_come_first_and_ten_of_them_fit_a_laptop(
    stub: Stub, window: Window, picture: Callable[..., None]
) -> None:
    """With a parameter that differs, and a failure in two lines: the exception, then who ended how."""
    made = [
        one_row(f"sweep-{index}", created=f"2026-11-22T11:{index:02}:00Z", parameters={"lr": f"0.{index}", "seed": "7"})
        for index in range(12)
    ]
    failure = ["RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", "rank 3, exit code 1"]
    made[9] = replace(made[9], state="Failed", failure=failure, message="pods of JobSet sweep-9 failed", percentage=7)
    made[4] = replace(made[4], finished="2026-11-22T11:19:00Z")
    stub.jobs = replace(stub.jobs, jobs=made)
    page = window.open(stub.url, width=1280, height=800)
    expect(page.locator(".rows .row-name").first).to_have_text("sweep-11")
    expect(page.get_by_role("columnheader", name="Created")).to_have_attribute("aria-sort", "ascending")
    expect(page.locator(".rows .row").nth(9)).to_be_in_viewport(ratio=1)
    rows = page.locator(".rows .row")
    expect(rows.nth(2).locator(".row-note")).to_have_text([failure[0], f"{failure[1]}, at 7%"])
    expect(rows.nth(2)).not_to_contain_text("JobSet")
    assert rows.locator(".row-parameters").all_inner_texts()[:2] == ["lr=0.11", "lr=0.10"]
    expect(rows.nth(7)).to_contain_text("56m ago")
    expect(rows.nth(7)).to_contain_text("15m")
    picture(page, "list-sweep")
    page.get_by_role("searchbox").fill("sweep-4")
    # One job differs from none.
    expect(page.get_by_role("columnheader", name="Parameters")).to_be_hidden()


def test_rows_change_come_and_go(stub: Stub, window: Window) -> None:
    stub.jobs = many(3)
    page = window.open(stub.url)
    expect(page.locator(".rows .row")).to_have_count(3)
    gone = ReferenceView(kind="TrainJob", namespace="team-0", name="job-0000")
    stub.send("rows", contract.Rows(now=stub.jobs.now, changed=[one_row("fresh", percentage=3)], deleted=[gone]))
    expect(page.get_by_role("link", name="fresh")).to_be_visible()
    expect(page.get_by_role("link", name="job-0000")).to_have_count(0)
    # A new snapshot replaces everything.
    stub.send("snapshot", many(1))
    expect(page.locator(".rows .row")).to_have_count(1)


def test_filters_and_order_are_kept_in_the_address(stub: Stub, window: Window) -> None:
    page = window.open(stub.url)
    everything = len(stub.jobs.jobs)
    expect(page.locator(".rows .row")).to_have_count(everything)
    page.get_by_role("button", name="Failed").click()
    expect(page.locator(".rows .row")).to_have_count(2)
    page.get_by_role("button", name="Running").click()
    expect(page.locator(".rows .row")).to_have_count(4)
    page.get_by_role("searchbox").fill("torch-dist resnet")
    expect(page.locator(".rows .row")).to_have_count(1)
    expect(page.locator("#polite")).to_have_text(f"1 job of {everything} listed")
    page.reload()
    expect(page.locator(".rows .row")).to_have_count(1)
    assert page.get_by_role("searchbox").input_value() == "torch-dist resnet"
    page.get_by_role("searchbox").fill("no such job")
    expect(page.get_by_text("No job matches")).to_be_visible()
    page.get_by_role("button", name="Show all jobs").click()
    expect(page.locator(".rows .row")).to_have_count(everything)
    page.get_by_role("combobox", name="Namespace").select_option("team-b")
    expect(page.locator(".rows .row")).to_have_count(1)
    page.get_by_role("combobox", name="Namespace").select_option("")
    page.get_by_role("button", name="Progress").click()
    expect(page.get_by_role("columnheader", name="Progress")).to_have_attribute("aria-sort", "ascending")
    expect(page.locator(".rows .row-name").first).to_have_text("old-run")
    page.get_by_role("button", name="Progress").click()
    expect(page.get_by_role("columnheader", name="Progress")).to_have_attribute("aria-sort", "descending")
    expect(page.locator(".rows .row-name").first).to_have_text("mnist")
    # Jobs without a value come last in both directions.
    assert set(names(page)[-3:]) == {"llama-8b", "typo", "nightly"}


def test_the_lists_without_jobs_say_why(stub: Stub, window: Window, picture: Callable[..., None]) -> None:
    stub.jobs = sample("jobs_empty", contract.JobList)
    page = window.open(stub.url)
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    picture(page, "list-empty")
    assert audit(page) == []
    stub.send("snapshot", sample("jobs_forbidden", contract.JobList))
    expect(page.get_by_role("heading", name="No right to list jobs")).to_be_visible()
    expect(page.locator("#link")).to_have_text("No rights")
    picture(page, "list-forbidden")
    assert audit(page) == []
    missing = sample("connection_missing", contract.Connection)
    stub.send("snapshot", replace(stub.jobs, connection=missing))
    expect(page.get_by_role("heading", name="The cluster has no TrainJobs")).to_be_visible()
    stub.send("snapshot", many(1))
    expect(page.locator(".rows .row")).to_have_count(1)


def test_a_lost_connection_is_said_and_found_again(stub: Stub, window: Window, picture: Callable[..., None]) -> None:
    stub.jobs = many(2)
    page = window.open(stub.url)
    expect(page.locator("#link")).to_have_text("Live")
    expect(page.locator(".rows .row")).to_have_count(2)
    stub.is_up = False
    stub.cut()
    expect(page.locator("#link")).to_have_text("Connection lost")
    expect(page.locator("#banner")).to_contain_text("What is shown may be old")
    expect(page.locator("#polite")).to_contain_text("Connection lost")
    # What was known stays to be seen.
    assert len(names(page)) == 2
    picture(page, "list-connection-lost")
    stub.jobs = many(3)
    stub.is_up = True
    expect(page.locator("#link")).to_have_text("Live")
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator(".rows .row")).to_have_count(3)
    stub.send("connection", sample("connection_lost", contract.Connection))
    expect(page.locator("#link")).to_have_text("API server lost")
    expect(page.locator("#banner")).to_contain_text("as of 11:58:00")
    stub.send("connection", sample("connection_live", contract.Connection))
    expect(page.locator("#link")).to_have_text("Live")
    # Chromium itself notes each request that fails.
    window.expects("net::ERR")


def test_a_token_that_is_not_valid_any_more_is_told(stub: Stub, window: Window) -> None:
    page = window.open(stub.url)
    expect(page.locator("#link")).to_have_text("Live")
    page.route("**/api/**", lambda route: route.fulfill(status=403, json=msgspec.to_builtins(problem("no_token"))))
    stub.cut()
    expect(page.locator("#link")).to_have_text("Disconnected")
    expect(page.locator("#banner")).to_contain_text("the token that this page lacks")
    window.expects("403")


def test_the_theme_is_chosen_and_remembered(stub: Stub, window: Window) -> None:
    page = window.open(stub.url + with_curves(stub, sample_job("running")))
    frame = page.locator('figure[data-metric="loss"] .chart-frame')
    expect(frame.locator("canvas")).to_be_visible()
    ground = "getComputedStyle(document.body).backgroundColor"
    light, drawn = page.evaluate(ground), frame.locator("canvas").screenshot()
    page.get_by_role("button", name="Dark theme").click()
    assert page.evaluate(ground) != light
    assert frame.locator("canvas").screenshot() != drawn
    page.reload()
    assert page.evaluate(ground) != light
    page.get_by_role("button", name="Light theme").click()
    assert page.evaluate(ground) == light


def test_a_phone_shows_all_of_it(stub: Stub, window: Window, picture: Callable[..., None]) -> None:
    page = window.open(stub.url, width=360, height=740)
    expect(page.locator(".rows .row").first).to_be_visible()
    wide = "document.scrollingElement.scrollWidth - innerWidth"
    assert page.evaluate(wide) <= 0
    expect(page.locator(".rows .row").first).to_contain_text("62%")
    assert audit(page) == []
    picture(page, "list-phone")
    page.get_by_role("combobox", name="Sort by").select_option("progress.down")
    expect(page.locator(".rows .row-name").first).to_have_text("mnist")
    for name in ("running", "failed", "hostile"):
        page.goto(stub.url + with_curves(stub, sample_job(name)))
        page.reload()
        expect(page.locator("pre.log")).to_be_visible()
        assert page.evaluate(wide) <= 0, name
        picture(page, f"job-{name}-phone", whole=True)
    assert audit(page) == []
