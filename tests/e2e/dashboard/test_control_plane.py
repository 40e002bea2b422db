# SPDX-License-Identifier: Apache-2.0
"""The dashboard over the real API server, with the rights of a user who may not read logs."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import NOWHERE, Trainer
from tests.e2e.dashboard.conftest import Window
from tests.e2e.dashboard.running import dashboard
from trainwright.controller.runtime.testing.waiting import eventually_sync

pytestmark = pytest.mark.parity

READ = ["get", "list", "watch"]
RULES = (
    {"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainjobs", "trainingruntimes"], "verbs": READ},
    {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": READ},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": READ},
    {"apiGroups": [""], "resources": ["pods", "events"], "verbs": READ},
)
"""Of a user who may see how jobs stand, and neither logs nor ConfigMaps."""


def report(trainer: Trainer, name: str, percentage: int, loss: float) -> None:
    """Store a report, as the manager does for a training."""
    metrics = [{"name": "loss", "value": str(loss)}, {"name": "current_step", "value": str(10 * percentage)}]
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"trainerStatus": {"progressPercentage": percentage, "metrics": metrics, "lastUpdatedTime": moment}}
    patch = json.dumps({"status": status})
    trainer.kubectl("patch", "trainjob", name, "--subresource=status", "--type=merge", f"--patch={patch}")


def test_jobs_of_a_cluster_with_few_rights(trainer: Trainer, window: Window, picture: Callable[..., None]) -> None:
    runtime = trainer.runtime("waits", **NOWHERE)
    trainer.job("waits", runtime, trainer={"numNodes": 2})
    trainer.job("late", runtime, activeDeadlineSeconds=1)
    trainer.job("plain", trainer.runtime("plain"))
    report(trainer, "waits", 10, 0.9)
    user = trainer.cluster.add_user(f"viewer-{trainer.namespace}", rules=RULES, namespace=trainer.namespace)
    with dashboard(user, f"--namespace={trainer.namespace}") as address:
        page = window.open(address)
        line = {
            name: page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))
            for name in ("waits", "late", "plain")
        }
        expect(line["waits"]).to_contain_text("10%")
        expect(line["plain"]).to_contain_text("Complete")
        expect(line["late"]).to_contain_text("Failed")
        expect(line["late"]).to_contain_text(re.compile("deadline", re.IGNORECASE))
        page.get_by_role("link", name="waits", exact=True).click()
        why = page.get_by_role("region", name="Why it does not train")
        expect(why).to_contain_text("No node has the label example.com/nowhere=yes", timeout=120_000)
        frame = page.locator('figure[data-metric="loss"] .chart-frame')
        expect(frame).to_have_attribute("aria-label", re.compile("1 point, "))
        report(trainer, "waits", 20, 0.5)
        expect(frame).to_have_attribute("aria-label", re.compile("2 points, lowest 0.5"))
        expect(page.locator(".big")).to_have_text("20%")
        expect(page.get_by_role("region", name="Pods").get_by_role("row")).to_have_count(3)
        page.get_by_role("button", name="Kubernetes event").click()
        expect(page.get_by_role("list", name="Latest first")).to_contain_text("FailedScheduling")
        picture(page, "real-waits", whole=True)
        # A pod that has run: the user may not read its log, and the page says so.
        page.keyboard.press("Escape")
        eventually_sync(trainer.pods, lambda pods: any(pod["status"]["phase"] == "Succeeded" for pod in pods))
        page.get_by_role("link", name="plain", exact=True).click()
        expect(page.get_by_role("region", name="Log")).to_contain_text(re.compile("no right", re.IGNORECASE))
        page.get_by_text("What the job became").click()
        expect(page.locator(".yaml:visible, .objects-details .none:visible").first).to_be_visible()
        picture(page, "real-no-logs", whole=True)
        trainer.kubectl("delete", "trainjob", "plain")
        expect(page.locator("main").get_by_text("The job was deleted.")).to_be_visible()
        # Before the dashboard ends: the page would try to reach it again.
        page.close()
        # Chromium itself notes each request that is refused.
        window.expects("403")
