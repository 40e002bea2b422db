# SPDX-License-Identifier: Apache-2.0
"""The dashboard's server over the real API server, with the rights that the page for users names, and with fewer."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import yaml

from tests.dashboards import Browser, dashboard
from tests.e2e.conftest import NOWHERE, Trainer
from tests.pages import blocks_of
from tests.repository import ROOT
from trainwright.controller.dashboard import contract, curves
from trainwright.controller.dashboard.service import DashboardService
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.testing.waiting import contains, eventually, eventually_sync
from trainwright.controller.views.rendered import ObjectsView

pytestmark = pytest.mark.parity
Rules = Sequence[Mapping[str, Any]]


def documented() -> Rules:
    blocks = blocks_of(ROOT / "docs" / "users" / "dashboard.md")
    (role,) = [yaml.safe_load(block.text) for block in blocks if block.title == "dashboard-reader.yaml"]
    rules: Rules = role["rules"]
    return rules


@asynccontextmanager
async def seen_by(trainer: Trainer, user: str, rules: Rules) -> AsyncIterator[tuple[Browser, DashboardService]]:
    """The dashboard of a user who has these rights in the namespace of the test."""
    kubeconfig = trainer.cluster.add_user(user, rules=rules, namespace=trainer.namespace)
    transport = HTTPTransport(load_config(kubeconfig))
    try:
        async with dashboard(transport, trainer.namespace) as found:
            yield found
    finally:
        await transport.close()


def path(trainer: Trainer, *parts: str) -> str:
    return "/".join(("/api/v1/jobs", trainer.namespace, *parts))


@pytest.fixture
def jobs(trainer: Trainer) -> Trainer:
    """One job that waits for a node, one that is complete."""
    trainer.job("waits", trainer.runtime("waits", **NOWHERE))
    trainer.job("plain", trainer.runtime("plain"))
    eventually_sync(lambda: "Complete" in trainer.conditions("plain"))
    eventually_sync(
        lambda: [event["reason"] for event in trainer.cluster.stored.list("events", trainer.namespace)],
        contains("FailedScheduling"),
    )
    return trainer


async def test_the_rights_of_the_page_are_enough(jobs: Trainer) -> None:
    user = f"reader-{jobs.namespace}"
    async with seen_by(jobs, user, documented()) as (browser, site):
        await eventually(lambda: {row.name for row in site.jobs().jobs} == {"waits", "plain"})
        await eventually(lambda: site.jobs().connection.state == "live")
        for name in ("waits", "plain"):
            job = (await browser.get(path(jobs, name))).as_(contract.Job)
            assert (job.unread, len(job.pods)) == ([], 1)
            assert job.explanation is not None
            # The rest needs rights that the page does not name, and is not needed to say why.
            unread = {text.removeprefix("no right to ").split()[1] for text in job.explanation.not_read}
            assert unread <= {"nodes"}, job.explanation.not_read
            series = (await browser.get(path(jobs, name, "series"))).as_(curves.JobSeries)
            assert series.unread == ""
            objects = (await browser.get(path(jobs, name, "objects"))).as_(ObjectsView)
            assert (objects.problems, [one.kind for one in objects.objects]) == ([], ["JobSet"])
        waits = (await browser.get(path(jobs, "waits"))).as_(contract.Job)
        assert waits.explanation is not None
        assert waits.explanation.outcome == "Pending"
        assert any(one.reason == "FailedScheduling" for one in waits.timeline)
        # There is no kubelet behind the pods of this cluster, so the answer is no log, but no refusal either.
        plain = (await browser.get(path(jobs, "plain"))).as_(contract.Job)
        log = (await browser.get(f"{path(jobs, 'plain', 'lines')}?pod=*&known=-1")).body.decode()
        assert plain.pods
        assert "no right" not in log
    calls = list(jobs.cluster.audit_log.calls(user=user))
    assert {call.verb for call in calls} <= {"get", "list", "watch"}
    assert {"trainjobs", "pods", "events", "jobsets"} <= {call.resource for call in calls}
    assert "secrets" not in {call.resource for call in calls}


async def test_each_right_less_costs_its_own_part_alone(jobs: Trainer) -> None:
    lost = {"pods": "pods", "events": "events", "configmaps": "attempts", "jobsets": "attempts"}
    for right, part in lost.items():
        rules = [{**rule, "resources": [one for one in rule["resources"] if one != right]} for rule in documented()]
        kept = [rule for rule in rules if rule["resources"]]
        async with seen_by(jobs, f"no-{right}-{jobs.namespace}", kept) as (browser, site):
            await eventually(lambda: {row.name for row in site.jobs().jobs} == {"waits", "plain"})
            job = (await browser.get(path(jobs, "waits"))).as_(contract.Job)
            assert {one.part for one in job.unread} == {part}, right
            assert all(f" {right}" in one.message for one in job.unread)
            assert (job.row.name, bool(job.pods)) == ("waits", right != "pods")
            series = (await browser.get(path(jobs, "waits", "series"))).as_(curves.JobSeries)
            said = f"no right to get configmaps in namespace {jobs.namespace}: reports from before"
            assert series.unread.startswith(said) == (right == "configmaps")


async def test_no_right_to_watch_is_said(jobs: Trainer) -> None:
    rules = [{"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainjobs"], "verbs": ["get", "list"]}]
    async with seen_by(jobs, f"lists-{jobs.namespace}", rules) as (_, site):
        told = await eventually(lambda: site.jobs().connection, lambda found: found.state == "forbidden")
    assert told.message.startswith("no right to list and watch trainjobs.trainer.kubeflow.org in namespace")
