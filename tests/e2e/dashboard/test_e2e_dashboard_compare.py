# SPDX-License-Identifier: Apache-2.0
"""Comparing jobs in a real browser, with answers that the test makes."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.dashboard.conftest import Window, audit
from tests.e2e.dashboard.stub import Stub, many, sample
from trainwright.controller.dashboard import contract, curves
from trainwright.controller.views.comparison import ComparedMetric

pytestmark = pytest.mark.parity

replace = msgspec.structs.replace
NONE = "\N{EN DASH}"
MARKUP = "<img src=x onerror=alert(1)>"
JOBS = ("bert-finetune", "bert-large-batch", "bert-cosine")
ADDRESS = "#/compare?" + "&".join(f"job=team-a%2F{name}" for name in (*JOBS, "deleted"))


def with_runs(stub: Stub) -> Stub:
    """The curves of the jobs of the sample; the second one began again at its sixth report."""
    series: curves.JobSeries = sample("series", curves.JobSeries)
    for place, name in enumerate(JOBS):
        steps = [0, 10, 20, 30, 40, 20, 30, 40, 50, 60] if place == 1 else list(range(0, 100, 10))
        values = [(place + 2) / (index + 1) for index in range(10)]
        made = [curves.Curve(name="loss", values=[*values], not_finite=[])]
        if place < 2:
            made.append(curves.Curve(name="accuracy", values=[1 - value / 4 for value in values], not_finite=[]))
        points = curves.Points(
            uid=f"uid-{name}",
            number=10,
            replace=False,
            times=[1_795_343_400.0 + 1000 * place + 10 * index for index in range(10)],
            steps=[float(step) for step in steps],
            percentages=[None] * 10,
            curves=made,
            marks=[curves.Mark(index=0, segment=0, attempt=1)],
        )
        stub.series[f"team-a/{name}"] = replace(series, points=points)
        stub.job[f"team-a/{name}"] = sample("job_running", contract.Job)
    return stub


def ends_with(text: str) -> re.Pattern[str]:
    """For an address: the browser tells of a new one beside the answer to the click that brought it."""
    return re.compile(f"{re.escape(text)}$")


def column(page: Page, title: str) -> list[str]:
    """The cells below a head."""
    heads = [" ".join(text.split()) for text in page.locator(".compare-table thead th").all_inner_texts()]
    place = next(index for index, text in enumerate(heads) if text.startswith(title))
    rows = page.locator(".compare-table tbody tr").all()
    return [" ".join(row.locator("th, td").nth(place).inner_text().split()) for row in rows]


def test_jobs_are_chosen_in_the_list(stub: Stub, window: Window, picture: Callable[..., None]) -> None:
    stub.jobs = many(30)
    stub.comparison = replace(stub.comparison, jobs=[], missing=[])
    page = window.open(stub.url)
    bar = page.get_by_role("region", name="Compare")
    expect(page.get_by_role("link", name="job-0001")).to_be_visible()
    expect(bar).to_be_hidden()
    page.get_by_label("Choose job-0001 to compare").check()
    expect(bar).to_contain_text("1 job chosen; choose another one to compare")
    assert bar.get_by_text("Compare", exact=True).get_attribute("href") is None
    page.get_by_label("Choose job-0003 to compare").check()
    assert page.url.endswith("/"), "a checkbox opens no job"
    picture(page, "list-chosen")
    bar.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare 2 jobs")
    expect(page).to_have_url(ends_with("#/compare?job=team-1%2Fjob-0001&job=team-3%2Fjob-0003"))
    # They stay chosen on the way back.
    page.go_back()
    expect(page.get_by_label("Choose job-0001 to compare")).to_be_checked()
    page.get_by_role("button", name="Choose none").click()
    expect(bar).to_be_hidden()
    expect(page.get_by_label("Choose job-0001 to compare")).not_to_be_checked()


def test_curves_parameters_and_values(stub: Stub, window: Window, picture: Callable[..., None]) -> None:
    page = window.open(with_runs(stub).url + ADDRESS)
    charts = page.locator(".chart")
    expect(charts).to_have_count(2)  # grad_norm has no curve
    expect(charts.first.locator("canvas")).to_be_visible()
    expect(charts.first.locator("li:visible")).to_have_count(3)
    expect(charts.nth(1).locator("li:visible")).to_have_count(2)
    expect(charts.first.locator(".compare-value").nth(1)).to_have_text("0.3")
    assert column(page, "Job") == list(JOBS)
    assert column(page, "git commit") == ["1f0c2d3e4b5a", "1f0c2d3e4b5a", NONE]
    assert column(page, "git changes") == ["uncommitted", "none", NONE]
    assert column(page, "grad_norm last") == ["3.1", "NaN", NONE]
    assert column(page, "loss best") == ["0.4", "0.39★ best of all", "1.8"]
    expect(page.get_by_text("5 parameters differ")).to_be_visible()
    expect(page.get_by_text("there is no TrainJob deleted in namespace team-a", exact=False)).to_be_visible()
    page.get_by_text("4 parameters with one value in all jobs").click()
    expect(page.locator(".compare-same")).to_contain_text("env HF_TOKEN(hidden)")
    # The keyboard reads all jobs at one place.
    frame = charts.first.locator(".chart-frame")
    frame.focus()
    page.keyboard.press("Home")
    expect(charts.first.locator(".chart-where")).to_have_text("step 0")
    expect(page.locator("#polite")).to_contain_text("step 0: bert-finetune 2, bert-large-batch 3, bert-cosine 4")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        assert audit(page) == []
        picture(page, f"compare-{theme}", whole=True)


def test_the_address_holds_everything(stub: Stub, window: Window) -> None:
    page = window.open(with_runs(stub).url + ADDRESS)
    slider = page.get_by_label("Smoothing")
    expect(page.locator(".chart canvas").first).to_be_visible()
    page.get_by_role("button", name="Time", exact=True).click()
    page.get_by_role("button", name="Log scale").click()
    slider.fill("0.8")
    page.get_by_role("button", name="--lr").click()
    page.get_by_role("button", name="grad_norm: which is best is not known. Change that").click()
    page.get_by_role("button", name="accuracy: the highest is best. Change that").click()
    wanted = "&by=time&smooth=0.8&scale=log&low=grad_norm&low=accuracy&sort=argument%3A--lr.up"
    expect(page).to_have_url(ends_with(wanted))
    assert column(page, "Job") == ["bert-cosine", "bert-finetune", "bert-large-batch"]
    for _ in range(2):
        expect(page.get_by_role("button", name="Time", exact=True)).to_have_attribute("aria-pressed", "true")
        expect(page.get_by_role("button", name="Log scale")).to_have_attribute("aria-pressed", "true")
        expect(slider).to_have_value("0.8")
        expect(page.locator(".smooth output")).to_have_text("0.80")
        expect(page.locator('th[aria-sort="ascending"]')).to_contain_text("--lr")
        assert column(page, "grad_norm best") == [NONE, "0.5", "0.4★ best of all"]
        csv = page.get_by_role("link", name="CSV").get_attribute("href") or ""
        assert csv.startswith("api/v1/compare/csv?job=team-a%2Fbert-finetune&")
        assert csv.endswith("&low=grad_norm&low=accuracy")
        page.reload()
    # Without the one that was left out, the others have their places.
    page.get_by_role("button", name="Leave bert-finetune out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare 3 jobs")
    expect(page).not_to_have_url(re.compile("bert-finetune"))


def test_jobs_that_report_are_read_again(stub: Stub, window: Window) -> None:
    page = window.open(with_runs(stub).url + ADDRESS)
    expect(page.locator(".compare-table tbody tr")).to_have_count(3)
    before = len(stub.compared)
    jobs = list(stub.comparison.jobs)
    jobs[0] = replace(jobs[0], state="Complete")
    stub.comparison = replace(stub.comparison, jobs=jobs)
    row = replace(many(2).jobs[1], namespace="team-a", name="bert-finetune")
    stub.send("rows", contract.Rows(now=stub.jobs.now, changed=[row], deleted=[]))
    expect(page.locator(".compare-table tbody tr").first).to_contain_text("Complete")
    assert len(stub.compared) > before


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("#/compare", "No jobs are chosen"),
        ("#/compare?job=a&job=../b/c", "No jobs are chosen"),
        ("#/compare?" + "&".join(f"job=a/b{index}" for index in range(25)), "At most 24 jobs"),
    ],
)
def test_an_address_that_cannot_be_shown(stub: Stub, window: Window, address: str, text: str) -> None:
    page = window.open(stub.url + address)
    expect(page.locator(".empty:visible")).to_contain_text(text)
    assert stub.compared == []


def test_names_are_text_and_a_phone_is_wide_enough(stub: Stub, window: Window, picture: Callable[..., None]) -> None:
    with_runs(stub)
    long = "a-very-long-name-of-a-job-that-somebody-has-thought-of-at-night"
    jobs = [replace(job, parameters=[MARKUP, *job.parameters[1:]]) for job in stub.comparison.jobs]
    jobs[1] = replace(jobs[1], name=long)
    metrics = [*stub.comparison.metrics[:2], ComparedMetric(name=MARKUP, best=None)]
    stub.comparison = replace(stub.comparison, jobs=jobs, metrics=metrics)
    address = ADDRESS.replace(JOBS[1], long)
    stub.job[f"team-a/{long}"] = stub.job[f"team-a/{JOBS[1]}"]
    page = window.open(stub.url + address, theme="dark", width=390, height=844)
    expect(page.locator(".compare-table tbody tr")).to_have_count(3)
    assert page.locator("img").count() == 0
    assert column(page, "nodes")[0] == MARKUP
    wide: Any = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]
    picture(page, "compare-phone", whole=True)


def test_lines_that_were_trained_again_and_smoothing(stub: Stub, window: Window) -> None:
    page = window.open(stub.url)
    points = (
        "{times: [5, 15, 25, 35], steps: [1, 2, 3, 2], curves: [{name: 'loss', values: [9, 8, 7, 6]}, "
        "{name: 'some', values: [null, 8, null, null]}]}"
    )

    def called(expression: str, module: str = "compare/lines") -> Any:
        return page.evaluate(f"import('/js/{module}.js').then((lines) => lines.{expression})")

    assert called(f"lineOf({points}, 'loss', 'step')") == {"xs": [1, 2], "ys": [9, 6]}
    assert called(f"lineOf({points}, 'loss', 'time')") == {"xs": [0, 10, 20, 30], "ys": [9, 8, 7, 6]}
    assert called(f"lineOf({points}, 'some', 'step')") == {"xs": [2], "ys": [8]}
    assert called(f"lineOf({points}, 'none', 'step')") == {"xs": [], "ys": []}
    assert called("sideBySide([5, 7, 7, 8, 9, 9, 9, 9])", "job/series") == [5, 7, 7.5, 8, 9, 9.25, 9.5, 9.75]
    assert called("smoothed([4, 4, 4], 0.9)", "charts/chart") == pytest.approx([4, 4, 4])
    assert called("smoothed([0, 1], 0.5)", "charts/chart") == pytest.approx([0, 2 / 3])
    assert called("columnsOf([{xs: [1, 3], ys: [5, 6]}, {xs: [2], ys: [7]}])") == {
        "xs": [1, 2, 3],
        "columns": [[5, None, 6], [None, 7, None]],
    }
    assert [called(f"valueAt({{xs: [1, 3], ys: [5, 6]}}, {x})") for x in ("0", "2", "3", "null")] == [None, 5, 6, 6]
    thin = called("thinned({xs: [...Array(1201).keys()], ys: [...Array(1201).keys()]})")
    assert len(thin["xs"]) <= 500
    assert thin["xs"][-1] == 1200
