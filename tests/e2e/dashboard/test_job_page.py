# SPDX-License-Identifier: Apache-2.0
"""The page of one job in a real browser, with answers that the test makes."""

import re
from collections.abc import Callable

import msgspec
import pytest
from playwright.sync_api import Route, expect

from tests.e2e.dashboard.conftest import Window, audit
from tests.e2e.dashboard.stub import (
    UNSEEN,
    Query,
    Stub,
    job_curves,
    more_points,
    one_row,
    problem,
    sample,
    sample_job,
    with_curves,
)
from trainwright.controller.dashboard import contract, curves
from trainwright.plugins.contract.container import Override

pytestmark = pytest.mark.parity

replace = msgspec.structs.replace


_NOTE_LABELS = """() => {
  globalThis.labels = [];
  const { fillText } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    const left = this.getTransform().transformPoint({ x, y }).x - this.measureText(text).width;
    labels.push([text, this.textAlign, left]);
    fillText.call(this, text, x, y);
  };
}"""
"""Notes text, alignment and left end of what is written on a canvas."""


def test_nothing_of_the_cluster_becomes_html(stub: Stub, window: Window, picture: Callable[..., None]) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    job = sample_job("hostile")
    series: curves.JobSeries = sample("series", curves.JobSeries)
    made = [curves.Curve(name=evil[:64], values=[1.0], not_finite=[]), *job_curves(1)]
    points = replace(series.points, uid=job.row.uid, times=[1.0], steps=[1.0], percentages=[5], curves=made, marks=[])
    stub.series[f"{job.row.namespace}/{job.row.name}"] = replace(series, points=points, unread=evil)
    stub.objects = replace(
        stub.objects,
        objects=[replace(stub.objects.objects[1], name=evil, yaml=f"metadata:\n  name: {evil}\n")],
        overrides=[Override(path=evil, loser=evil, winner=evil)],
    )
    stub.log = lambda _pod, _query: f"{evil}\n\x1b[31mred\x1b[0m\x1b]0;title\x07\n10%\r99%\n".encode()
    page = window.open(stub.url)
    expect(page.get_by_role("link", name="hostile")).to_be_visible()
    # The API refuses such a name; the page must not count on it.
    stub.send("rows", contract.Rows(now=job.now, changed=[one_row(evil, message=evil, reason=evil)], deleted=[]))
    expect(page.get_by_role("link", name=evil)).to_be_visible()
    page.get_by_role("link", name=evil).focus()
    page.get_by_role("searchbox").fill("<script>")
    expect(page.get_by_role("link", name=evil)).to_be_visible()
    assert page.locator("main img, main script").count() == 0
    page.goto(stub.url + stub.put(job))
    expect(page.locator("pre.log")).to_contain_text(f"{evil}\nred\n99%\n")
    page.get_by_text("What the job became").click()
    expect(page.locator(".yaml")).to_contain_text(evil)
    expect(page.locator("figure h3", has_text=evil[:64])).to_be_visible()
    expect(page.locator(".why-message")).to_contain_text("<script>alert(1)</script>")
    assert page.locator("main img, main script, main iframe, main b, main i").count() == 0
    assert page.evaluate("document.title").endswith("hostile · Trainwright")
    picture(page, "job-hostile", whole=True)


def test_curves_move_zoom_and_can_be_read(stub: Stub, window: Window, picture: Callable[..., None]) -> None:
    job = sample_job("running")
    page = window.open(stub.url + with_curves(stub, job))
    loss = page.locator('figure[data-metric="loss"]')
    frame = loss.locator(".chart-frame")
    expect(frame).to_have_attribute("aria-label", re.compile("loss: 10 points, lowest 1.1, highest 2, last 1.1"))
    expect(loss.locator(".chart-value")).to_have_text("1.1")
    picture(page, "job-light", whole=True)
    before = frame.locator("canvas").screenshot()
    stub.send("points", more_points(job), f"{job.row.namespace}/{job.row.name}")
    expect(frame).to_have_attribute("aria-label", re.compile("11 points, lowest 0.5"))
    expect(loss.locator(".chart-value")).to_have_text("0.5")
    # The same again, as may come right after a reading, changes nothing.
    stub.send("points", more_points(job), f"{job.row.namespace}/{job.row.name}")
    assert frame.locator("canvas").screenshot() != before
    # A table says the same in text.
    loss.get_by_text("Values as a table").click()
    expect(loss.locator("tbody tr")).to_have_count(11)
    expect(loss.locator("tbody tr").last).to_contain_text("0.5")
    odd = page.locator('figure[data-metric="grad_norm"]')
    odd.get_by_text("Values as a table").click()
    expect(odd.locator("tbody")).to_contain_text("not finite")
    # Over steps, attempts lie above each other.
    page.get_by_role("button", name="Step").click()
    expect(frame).to_have_attribute("aria-label", re.compile("11 points"))
    whole = page.get_by_role("button", name="Whole run")
    expect(whole).to_be_disabled()
    box = frame.locator(".u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 40, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 150, box["y"] + 60, steps=4)
    page.mouse.up()
    expect(whole).to_be_enabled()
    page.mouse.move(box["x"] + 60, box["y"] + 40)
    expect(loss.locator(".chart-where")).to_contain_text("step")
    # The other charts show the same place.
    expect(page.locator('figure[data-metric=""] .chart-where')).to_contain_text("step")
    picture(page, "job-zoomed", whole=True)
    whole.click()
    expect(whole).to_be_disabled()


def test_curves_are_large_or_small_by_what_they_tell_pinned_hidden_and_smoothed(
    stub: Stub, window: Window, picture: Callable[..., None]
) -> None:
    job = sample_job("running")
    place = with_curves(stub, job)
    series = stub.series[f"{job.row.namespace}/{job.row.name}"]
    named = {"reward": 3.0, "lr": 0.0, "grad_norm": 0.5, "loss": 1.0, "checkpoint_step": 10.0}
    made = [
        curves.Curve(name=name, values=[1e-3 + rise * index for index in range(10)], not_finite=[])
        for name, rise in named.items()
    ]
    stub.series[f"{job.row.namespace}/{job.row.name}"] = replace(series, points=replace(series.points, curves=made))
    page = window.open(stub.url + place)
    figures = page.locator("figure.chart")

    def shown() -> list[tuple[str, str]]:
        found = figures.evaluate_all("(all) => all.map(({ dataset }) => [dataset.metric, dataset.size])")
        return [(name, size) for name, size in found]

    expect(figures).to_have_count(6)
    small = [("", "small"), ("lr", "small"), ("checkpoint_step", "small")]
    assert shown() == [("loss", "large"), ("reward", "large"), ("grad_norm", "middle"), *small]
    page.get_by_role("button", name="Hide lr").click()
    expect(figures).to_have_count(5)
    page.get_by_role("button", name="Pin grad_norm").click()
    expect(figures.first).to_have_attribute("data-metric", "grad_norm")
    page.get_by_role("slider", name="Smoothing").fill("0.9")
    expect(page).to_have_url(re.compile("smooth=0.9"))
    picture(page, "job-pinned", whole=True)
    assert audit(page) == []
    # The page keeps what was chosen, for all jobs.
    page.reload()
    expect(figures).to_have_count(5)
    assert shown() == [("grad_norm", "large"), ("loss", "large"), ("reward", "large"), small[0], small[2]]
    expect(page.locator("output")).to_have_text("0.90")
    page.get_by_role("button", name="Show lr").click()
    page.get_by_role("button", name="Pin grad_norm").click()
    expect(figures).to_have_count(6)
    expect(figures.first).to_have_attribute("data-metric", "loss")


def test_reports_within_a_second_are_all_drawn(stub: Stub, window: Window) -> None:
    """Times are whole seconds: the last report of a short training has often that of the one before."""
    job = sample_job("running")
    key = f"{job.row.namespace}/{job.row.name}"
    page = window.open(stub.url + with_curves(stub, job))
    loss = page.locator('figure[data-metric="loss"]')
    expect(loss.locator(".chart-frame")).to_have_attribute("aria-label", re.compile("10 points"))
    both = replace(
        more_points(job, 12),
        times=[1_795_343_600.0] * 2,
        steps=[70.0, 71.0],
        percentages=[70, 71],
        curves=[curves.Curve(name="loss", values=[0.5, 0.25], not_finite=[])],
    )
    for points in (more_points(job), both, more_points(job, 13, 0.125)):
        stub.send("points", points, key)
    expect(loss.locator(".chart-value")).to_have_text("0.125")
    # They lie side by side.
    expect(loss.locator(".chart-frame")).to_have_attribute("aria-label", re.compile("13 points"))
    page.get_by_role("button", name="Step").click()
    expect(loss.locator(".chart-frame")).to_have_attribute("aria-label", re.compile("12 points"))


def test_a_series_that_changes_while_it_is_read_is_read_again(stub: Stub, window: Window) -> None:
    job = sample_job("running")
    key = f"{job.row.namespace}/{job.row.name}"
    page = window.open(stub.url + with_curves(stub, job))
    gradient = page.locator('figure[data-metric="grad_norm"]')
    expect(gradient).to_be_visible()
    before = stub.series[key]
    held: list[Route] = []

    def hold(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route("**/series", hold)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_request("**/series"):
        stub.send("points", replace(more_points(job), replace=True), key)
    stub.series[key] = replace(before, points=replace(before.points, curves=job_curves(10)[:1]))
    stub.send("points", replace(more_points(job), replace=True), key)
    stub.send("job", replace(job, row=replace(job.row, percentage=77)), key)
    expect(page.locator(".summary-progress")).to_contain_text("77%")
    held[0].fulfill(content_type="application/json", body=msgspec.json.encode(before))
    expect(gradient).to_have_count(0)
    assert [url.rpartition("/")[2] for url in asked] == ["series", "series"], "a stream that begins again reads it too"


def test_labels_of_large_values_are_not_cut_off(stub: Stub, window: Window) -> None:
    job = sample_job("running")
    place = with_curves(stub, job)
    series = stub.series[f"{job.row.namespace}/{job.row.name}"]
    tokens = curves.Curve(name="tokens", values=[-5e8 + 1e8 * index for index in range(10)], not_finite=[])
    stub.series[f"{job.row.namespace}/{job.row.name}"] = replace(series, points=replace(series.points, curves=[tokens]))
    page = window.open(stub.url)
    page.evaluate(_NOTE_LABELS)
    page.goto(stub.url + place)
    expect(page.locator('figure[data-metric="tokens"] canvas')).to_be_visible()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    # The right ends of labels of the vertical axis are where it begins.
    labels = page.evaluate("labels.filter(([, side]) => side === 'right')")
    assert any(text.endswith("e+8") for text, _, _ in labels), labels
    assert [text for text, _, left in labels if left < 0] == []


def test_a_failed_job_says_what_failed_first(stub: Stub, window: Window, picture: Callable[..., None]) -> None:
    job = sample_job("failed")
    page = window.open(stub.url + with_curves(stub, job))
    why = page.get_by_role("region", name="Why it failed")
    expect(why).to_contain_text("exit code 1")
    expect(why.locator("pre")).to_contain_text("FloatingPointError: loss is nan")
    expect(page.locator(".job-head .state")).to_have_text("Failed")
    # The log that is shown first is that of the pod that failed first.
    expect(page.get_by_role("combobox", name="Pod")).to_have_value("resnet50-node-0-1-x1k2p")
    entries = page.get_by_role("list", name="Latest first").get_by_role("listitem")
    expect(entries.locator("strong")).to_have_text(["Failed", "Attempt 3 failed", "Attempt 2 failed", "Created"])
    page.get_by_role("button", name="1 Kubernetes event").click()
    expect(entries).to_have_count(5)
    expect(entries.nth(2)).to_contain_text("LossNotFinite")
    picture(page, "job-failed", whole=True)
    assert audit(page) == []


def test_what_failed_first_is_named_as_far_as_it_is_known(stub: Stub, window: Window) -> None:
    job = sample_job("failed")
    attempt = job.attempts[-1]
    assert attempt.failure is not None
    pod = attempt.failure.pod
    for known, shown in (
        (
            {"container": "", "exit_code": None, "reason": "Evicted"},
            f"Failed first: rank 1, pod {pod}, Evicted",
        ),
        ({"container": "", "pod": "", "exit_code": None, "reason": "", "log": []}, None),
    ):
        failure = replace(attempt.failure, **known)
        page = window.open(stub.url + with_curves(stub, replace(job, attempts=[replace(attempt, failure=failure)])))
        why = page.get_by_role("region", name="Why it failed")
        expect(why.locator(".why-message")).to_be_visible()
        if shown is not None:
            expect(why.locator(".evidence p")).to_have_text(shown)
        else:
            expect(why.locator(".evidence")).to_have_count(0)


def test_the_log_shown_first_is_that_of_a_pod_that_crashes(stub: Stub, window: Window) -> None:
    job = sample_job("running")
    crashed = replace(job.pods[1].containers[0], state="waiting", reason="CrashLoopBackOff", exit_code=3)
    message = "Traceback (most recent call last):\n  File 'train.py', line 3\nValueError: no data"
    pods = [job.pods[0], replace(job.pods[1], containers=[crashed], message=message), *job.pods[2:]]
    page = window.open(stub.url + stub.put(replace(job, pods=pods)))
    expect(page.get_by_role("combobox", name="Pod")).to_have_value(pods[1].name)
    # The log has the traceback; the table says what was raised.
    expect(page.locator(".pod-message")).to_have_text("ValueError: no data")


def test_a_job_that_waits_says_for_what(stub: Stub, window: Window, picture: Callable[..., None]) -> None:
    page = window.open(stub.url + stub.put(sample_job("waiting")))
    why = page.get_by_role("region", name="What it waits for")
    expect(why).to_contain_text("wait for other jobs to end, or ask for fewer GPUs.")
    expect(why).to_contain_text("InsufficientResource")
    expect(why).to_contain_text("no right to list nodes")
    expect(page.get_by_role("region", name="Pods").get_by_role("row")).to_have_count(5)
    expect(page.get_by_role("region", name="Log")).to_contain_text("has not started (ContainerCreating)")
    picture(page, "job-waiting", whole=True)


def test_logs_are_chosen_followed_and_refused(stub: Stub, window: Window) -> None:
    asked: list[tuple[str, Query]] = []

    def log(pod: str, query: Query) -> bytes | contract.PageProblem:
        asked.append((pod, query))
        if pod.endswith("x1k2p"):
            return problem("log_forbidden")
        return b"".join(b"line %d\n" % number for number in range(200))

    stub.log = log
    job = sample_job("running")
    page = window.open(stub.url + stub.put(job))
    lines = page.locator("pre.log")
    expect(lines).to_contain_text("line 199")
    assert asked[0][1]["from"] == ["-200"]
    assert lines.evaluate("node => node.scrollTop + node.clientHeight >= node.scrollHeight - 30")
    follow = page.get_by_role("button", name="Follow")
    expect(follow).to_have_attribute("aria-pressed", "true")
    lines.evaluate("node => { node.scrollTop = 0; }")
    expect(follow).to_have_attribute("aria-pressed", "false")
    follow.click()
    assert lines.evaluate("node => node.scrollTop > 0")
    page.get_by_role("button", name="Log of rank 1").click()
    expect(page.get_by_role("region", name="Log")).to_contain_text("No right to get pods/log in namespace default.")
    expect(page.get_by_role("combobox", name="Pod")).to_have_value(next(p for p, _ in asked if p.endswith("x1k2p")))
    window.expects("403")


def test_parts_without_rights_say_so(stub: Stub, window: Window, picture: Callable[..., None]) -> None:
    page = window.open(stub.url + stub.put(sample_job("unread")))
    expect(page.get_by_role("region", name="Pods")).to_contain_text("no right to list pods in namespace default")
    expect(page.get_by_role("region", name="Log")).to_contain_text("no right to list pods in namespace default")
    expect(page.locator("main")).to_contain_text("no right to list events in namespace default")
    picture(page, "job-no-rights", whole=True)


def test_what_the_job_became_is_shown_with_who_set_it(stub: Stub, window: Window) -> None:
    page = window.open(stub.url + stub.put(sample_job("running")))
    page.get_by_text("What the job became").click()
    lines = page.locator(".yaml .line")
    expect(lines.filter(has_text="PET_NNODES")).to_contain_text("Torch")
    expect(lines.filter(has_text="completions")).to_contain_text("the TrainJob")
    expect(lines.filter(has_text="image:")).to_contain_text("the runtime")
    page.get_by_role("button", name="Secret bert-finetune-ssh").click()
    expect(page.locator(".yaml")).to_contain_text("(hidden)")
    page.get_by_text("Every value and who set it").click()
    expect(page.locator(".settings tbody tr")).to_have_count(3)
    assert audit(page) == []


def test_jobs_that_are_not_there(stub: Stub, window: Window) -> None:
    page = window.open(f"{stub.url}#/jobs/{UNSEEN}/absent")
    expect(page.get_by_role("heading", name="The job is not there")).to_be_visible()
    page.goto(f"{stub.url}#/jobs/default/absent")
    expect(page.locator("main").get_by_text("There is no TrainJob absent in namespace default.")).to_be_visible()
    expect(page.locator("#link")).to_have_text("Live")
    job = sample_job("running")
    key = f"{job.row.namespace}/{job.row.name}"
    page.goto(stub.url + stub.put(job))
    expect(page.locator(".job-head .state")).to_have_text("Running")
    stub.send("gone", contract.JobGone(now=job.now, namespace=job.row.namespace, name=job.row.name), key)
    expect(page.locator("main").get_by_text("The job was deleted.")).to_be_visible()
    stub.send("job", job, key)
    expect(page.locator(".job-head .state")).to_have_text("Running")
    # It was asked for again and again, since it may be created.
    window.expects("404")


def test_what_the_ranks_use_is_shown_in_place(stub: Stub, window: Window, picture: Callable[..., None]) -> None:
    job = sample_job("running")
    page = window.open(stub.url + stub.put(job))
    table = page.get_by_role("group", name="Pods").get_by_role("table")
    rows = table.locator("tbody tr")
    expect(table.locator("th:visible", has_text=re.compile("^(CPU|Memory|GPU)$"))).to_have_count(3)
    expect(rows.first).to_contain_text("1.97")
    expect(rows.first).to_contain_text("1.5 GiB")
    expect(rows.first).to_contain_text("0.87 busy, 12 GiB")
    assert audit(page) == []
    picture(page, "usage-light", whole=True)
    # Other values do not take the keyboard away.
    button = rows.first.get_by_role("button", name="Log")
    button.focus()
    used = contract.UsageView(cpu=0.5, memory=2**20, gpu=None, gpu_memory=None)
    key = f"{job.row.namespace}/{job.row.name}"
    stub.send("job", replace(job, pods=[replace(pod, usage=used) for pod in job.pods]), key)
    expect(rows.first).to_contain_text("0.50")
    expect(rows.first).to_contain_text("1 MiB")
    expect(button).to_be_focused()
    # A cluster without metrics has no columns for them.
    stub.send("job", replace(job, pods=[replace(pod, usage=None) for pod in job.pods]), key)
    expect(table.locator("thead th:visible")).to_have_count(5)
    stub.send("job", job, key)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(rows.first).to_contain_text("CPU 1.97 \N{MIDDLE DOT} 1.5 GiB \N{MIDDLE DOT} GPU 0.87 busy, 12 GiB")
    expect(table.locator("thead th:visible")).to_have_count(3)
