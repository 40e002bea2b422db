# SPDX-License-Identifier: Apache-2.0
"""The dashboard over a local cluster while jobs train, in a real browser."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.dashboard.conftest import Window, audit
from tests.e2e.dashboard.running import Gate, LocalCluster, dashboard

pytestmark = pytest.mark.parity

EVIL = "<img src=x onerror=alert(1)>"
TRAINS = f"""
import math, time
from trainwright.progress import Reporter
with Reporter(total=30000, every=0.5) as progress:
    for step in range(1, 30001):
        loss = 2 * math.exp(-step / 300)
        progress.update(step=step, loss=loss, metrics={{"accuracy": 1 - loss / 3, "{EVIL}": step}})
        print("step", step, "{EVIL}")
        time.sleep(0.1)
"""
FAILS = """
import time
from trainwright.progress import Reporter
with Reporter(total=100, every=0.2) as progress:
    for step in range(1, 11):
        progress.update(step=step, loss=float("nan") if step > 5 else 1 / step)
        time.sleep(0.1)
    raise FloatingPointError("<script>alert(2)</script> the loss is not a number")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster on which two jobs train, and one fails."""
    made = LocalCluster(tmp_path_factory.mktemp("cluster"))
    made.train("trains", TRAINS, nodes=2)
    made.train("trains-too", TRAINS)
    made.add_runtime()
    made.train("fails", FAILS, once=True)
    yield made
    made.end()


@pytest.fixture(scope="module")
def gate(cluster: LocalCluster) -> Iterator[Gate]:
    made = Gate(cluster.port)
    yield made
    made.close()


@pytest.fixture(scope="module")
def address(cluster: LocalCluster, gate: Gate) -> Iterator[str]:
    with dashboard(cluster.kubeconfig_through(gate)) as url:
        yield url


def open_job(page: Page, name: str) -> None:
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()
    expect(page.locator(".job")).to_be_visible()


def test_a_training_is_seen_to_move(
    cluster: LocalCluster, address: str, window: Window, picture: Callable[..., None]
) -> None:
    page = window.open(address)
    # The token is not left in the address, where it could be copied by mistake.
    expect(page).not_to_have_url(re.compile("token"))
    for name in ("trains", "trains-too"):
        line = page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))
        expect(line).to_contain_text("Running")
        expect(line).to_contain_text(re.compile(r"\d+% ?step [\d,]+ of 30,000"))
        expect(line).to_contain_text(re.compile(r"\d+s ago"))
        note = line.locator(".row-note").first
        expect(note).not_to_have_text(note.inner_text())
        expect(line.locator(".spark polyline")).to_have_attribute("points", re.compile(" "))
    picture(page, "local-list")
    open_job(page, "trains")
    frame = page.locator('figure[data-metric="loss"] .chart-frame')
    expect(frame).to_have_attribute("aria-label", re.compile(r"loss: ([2-9]|\d\d+) points"))
    before = frame.locator("canvas").screenshot()
    label = frame.get_attribute("aria-label") or ""
    expect(frame).not_to_have_attribute("aria-label", label)
    assert frame.locator("canvas").screenshot() != before
    # The name of a metric and a line of a log are text.
    expect(page.locator("figure h3", has_text=EVIL)).to_be_visible()
    expect(page.locator("pre.log")).to_contain_text(re.compile(rf"step \d+ {re.escape(EVIL)}"))
    log = page.locator("pre.log")
    last = log.locator(".log-line").last
    expect(last).not_to_have_text(last.inner_text())
    pods = page.get_by_role("region", name="Pods")
    expect(pods.get_by_role("row", name=re.compile("rank 1"))).to_contain_text("Running")
    pods.get_by_role("button", name="Log of rank 1").click()
    expect(page.get_by_role("combobox", name="Pod")).to_have_value(re.compile("trains-node-0-1-"))
    expect(log).to_contain_text(re.compile(r"step \d+ "))
    assert page.locator("main img, main script").count() == 0
    assert audit(page) == []
    picture(page, "local-job", whole=True)


def test_what_the_job_became_names_who_set_what(address: str, window: Window, picture: Callable[..., None]) -> None:
    page = window.open(address)
    open_job(page, "trains")
    page.get_by_text("What the job became").click()
    line = page.locator(".yaml .line").filter(has_text="PET_NNODES")
    expect(line).to_have_count(1)
    expect(line.locator(".by")).not_to_be_empty()
    picture(page, "local-objects", whole=True)


def test_a_failed_job_is_seen_as_failed_with_its_reason(
    address: str, window: Window, picture: Callable[..., None]
) -> None:
    page = window.open(address)
    line = page.get_by_role("row").filter(has=page.get_by_role("link", name="fails", exact=True))
    expect(line).to_contain_text("Failed", timeout=120_000)
    page.get_by_role("button", name="Failed").click()
    expect(page.locator(".rows .row")).to_have_count(1)
    open_job(page, "fails")
    why = page.get_by_role("region", name="Why it failed")
    expect(why.locator("pre")).to_contain_text("FloatingPointError: <script>alert(2)</script> the loss is not a number")
    expect(why).to_contain_text("exit code 1")
    expect(page.get_by_role("list", name="Latest first")).to_contain_text("Failed")
    assert audit(page) == []
    picture(page, "local-failed", whole=True)
    page.keyboard.press("Escape")
    expect(page.get_by_role("searchbox")).to_be_visible()


def test_an_api_server_is_lost_and_found(
    address: str, gate: Gate, window: Window, picture: Callable[..., None]
) -> None:
    page = window.open(address)
    expect(page.locator("#link")).to_have_text("Live")
    gate.shut()
    try:
        expect(page.locator("#link")).to_have_text("API server lost")
        expect(page.locator("#banner")).to_contain_text("as of")
        expect(page.get_by_role("link", name="trains", exact=True)).to_be_visible()
        picture(page, "local-lost")
    finally:
        gate.reopen()
    expect(page.locator("#link")).to_have_text("Live", timeout=90_000)
    expect(page.locator("#banner")).to_be_hidden()


def test_text_of_users_in_objects_is_text(cluster: LocalCluster, address: str, window: Window, tmp_path: Path) -> None:
    jobs = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs"
    job = cluster.send(
        "POST",
        jobs,
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": "hostile", "annotations": {"example.com/note": EVIL}},
            "spec": {"runtimeRef": {"name": "torch-distributed"}, "suspend": True, "trainer": {"args": [EVIL]}},
        },
    )
    condition = {
        "type": "Suspended",
        "status": "True",
        "reason": "Suspended",
        "message": EVIL,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }
    cluster.send("PATCH", f"{jobs}/hostile/status", {"status": {"conditions": [condition]}}, kind="merge-patch+json")
    event = {
        "metadata": {"name": "hostile.1", "namespace": "default"},
        "involvedObject": {
            "apiVersion": job["apiVersion"],
            "kind": "TrainJob",
            "name": "hostile",
            "namespace": "default",
            "uid": job["metadata"]["uid"],
        },
        "type": "Warning",
        "reason": EVIL,
        "message": EVIL,
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "firstTimestamp": "2026-01-02T03:04:05Z",
    }
    cluster.send("POST", "/api/v1/namespaces/default/events", event)
    page = window.open(address)
    open_job(page, "hostile")
    page.get_by_role("button", name="Kubernetes event").click()
    expect(page.get_by_role("list", name="Latest first")).to_contain_text(EVIL)
    page.get_by_text("What the job became").click()
    expect(page.locator(".yaml")).to_contain_text(EVIL)
    assert page.locator("main img, main script").count() == 0


def test_a_page_without_the_token_gets_nothing(address: str, window: Window) -> None:
    page = window.open(address.partition("?")[0])
    expect(page.locator("body")).to_contain_text("token")
    assert page.locator(".rows").count() == 0
    window.expects("403")
