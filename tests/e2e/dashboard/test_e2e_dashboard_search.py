# SPDX-License-Identifier: Apache-2.0
"""The page of a search in a real browser, with a hundred trials."""

import math
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.dashboard.conftest import Window, audit
from tests.e2e.dashboard.stub import Stub, one_row, sample, sample_job
from trainwright.controller.dashboard import contract
from trainwright.controller.dashboard.searches import Search, SearchParameter, SearchTrial

pytestmark = pytest.mark.parity

replace = msgspec.structs.replace
ADDRESS = "#/searches/team-a/digits"
MARKUP = "<img src=x onerror=alert(1)>"


def trial_of(number: int, chance: random.Random) -> SearchTrial:
    rate, batch, layers = 10 ** chance.uniform(-5, -1), chance.choice(["16", "32", "64"]), chance.randint(1, 8)
    value = 0.05 + 0.04 * (math.log10(rate) + 2.7) ** 2 + 0.01 * abs(layers - 4) + chance.gauss(0, 0.01)
    failed, running = number % 17 == 0, number > 96
    message = "rank 0 failed with exit code 1: CUDA out of memory" if failed else ""
    return SearchTrial(
        number=number,
        name=f"digits-{number}",
        exists=number != 3,
        state="Failed" if failed else "Running" if running else "Complete",
        percentage=40 if running else 100,
        value=None if failed or running else value,
        parameters={"lr": repr(rate), "batch": batch, "layers": str(layers)},
        message=message,
        best=False,
    )


def hundred(count: int = 100, **fields: Any) -> Search:
    jobs: contract.JobList = sample("jobs", contract.JobList)
    chance = random.Random(5)
    trials = [trial_of(number, chance) for number in range(1, count + 1)]
    best = min((one for one in trials if one.value is not None), key=lambda one: one.value or 0, default=None)
    found = Search(
        now=jobs.now,
        cluster=jobs.cluster,
        connection=jobs.connection,
        namespace="team-a",
        name="digits",
        metric="loss",
        maximize=False,
        sampler="tpe",
        pruner="",
        limit=100,
        parallel=4,
        state="Running",
        message="",
        parameters=[
            SearchParameter(name="lr", choices=[], logarithmic=True),
            SearchParameter(name="batch", choices=["16", "32", "64"], logarithmic=False),
            SearchParameter(name="layers", choices=[], logarithmic=False),
        ],
        trials=[replace(one, best=one is best) for one in trials],
        importance={"lr": 0.81, "layers": 0.15, "batch": 0.04},
        importance_note="",
    )
    return replace(found, **fields)


def column(page: Page, place: int) -> list[str]:
    return [
        " ".join(text.split())
        for text in page.locator(f".search-table tbody tr > :nth-child({place})").all_inner_texts()
    ]


def test_a_hundred_trials_in_each_theme_and_on_a_phone(
    stub: Stub, window: Window, picture: Callable[..., None]
) -> None:
    stub.search = hundred()
    for theme, width, height in (("light", 1440, 900), ("dark", 1440, 900), ("light", 390, 844)):
        page = window.open(stub.url + ADDRESS, theme=theme, width=width, height=height)
        expect(page.get_by_role("heading", level=1)).to_have_text("digits")
        expect(page.locator(".search-table tbody tr")).to_have_count(100)
        # Five drawings, all with a point or a line for each trial that has a value.
        valued = sum(one.value is not None for one in stub.search.trials)
        expect(page.locator("svg.drawing")).to_have_count(5)
        expect(page.locator(".thread")).to_have_count(valued)
        expect(page.locator(".drawing .dot")).to_have_count((valued - 1) * 4)
        expect(page.locator(".drawing .star")).to_have_count(4)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls to the side"
        assert audit(page) == []
        picture(page, f"search-{theme}-{width}", whole=True)


def test_the_best_is_starred_and_each_trial_is_a_link(stub: Stub, window: Window) -> None:
    stub.search = hundred()
    best = next(one for one in stub.search.trials if one.best)
    stub.put(sample_job("complete", row=one_row(best.name, namespace="team-a", search="digits")))
    page = window.open(stub.url + ADDRESS)
    expect(page.locator("[data-best] th")).to_have_text(f"{best.number} ★ best")
    expect(page.locator(".facts")).to_contain_text("Best loss")
    expect(page.locator(".facts")).to_contain_text("96 of 100")
    # Its TrainJob was deleted.
    expect(page.locator(".search-table tbody tr").nth(2).locator("a")).to_have_count(0)
    page.get_by_role("button", name="loss").click()
    values = [float(text) for text in column(page, 3) if text != "\N{EN DASH}"]
    assert values == sorted(values)
    assert column(page, 1)[0] == f"{best.number} ★ best"
    expect(page.get_by_role("button", name="loss")).to_be_focused()
    page.get_by_role("button", name="loss").click()
    assert column(page, 1)[0] != f"{best.number} ★ best"
    assert column(page, 3)[-1] == "\N{EN DASH}", "what has no value comes last"
    page.locator("[data-best] a").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(best.name)
    page.get_by_role("link", name="digits", exact=True).click()
    page.locator(".drawing .star").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(best.name)


def test_a_search_that_goes_on_is_read_again_until_it_ends(stub: Stub, window: Window) -> None:
    note = "known once 10 trials have ended with a value"
    stub.search = hundred(0, importance=None, importance_note=note)
    page = window.open(stub.url + ADDRESS)
    expect(page.get_by_text("No trial has begun.")).to_be_visible()
    expect(page.get_by_text("Known once 10 trials have ended with a value.")).to_be_visible()
    stub.search = hundred(20)
    expect(page.locator(".search-table tbody tr")).to_have_count(20)
    stub.search = hundred(96, state="Complete", message="96 trials ended")
    expect(page.get_by_text("96 trials ended.")).to_be_visible()
    expect(page.locator(".job-head .state")).to_have_text("Complete")


def test_what_users_name_stays_text_and_a_missing_search_is_said(stub: Stub, window: Window) -> None:
    window.expects("404")
    stub.search = replace(hundred(12), metric=MARKUP, name=MARKUP)
    stub.search.trials[0].message = MARKUP
    stub.search.trials[0].state = "Failed"
    page = window.open(stub.url + ADDRESS)
    expect(page.get_by_role("button", name=MARKUP)).to_be_visible()
    expect(page.locator(".trial-note").first).to_contain_text(MARKUP)
    stub.search = None
    stub.jobs = replace(stub.jobs, jobs=[one_row("digits-1", namespace="team-a", search="digits")])
    page.goto(stub.url)
    page.get_by_role("link", name="digits", exact=True).click()
    expect(page.get_by_role("heading", name="The search is not there")).to_be_visible()
