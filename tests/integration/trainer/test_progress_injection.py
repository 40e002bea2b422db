# SPDX-License-Identifier: Apache-2.0
"""Jobs and the CA certificates of the status server, on a real API server; scenarios of the page on progress."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from http.client import HTTPSConnection
from typing import Any

import pytest
import yaml

from tests.integration.trainer.conftest import TEMPLATE, User, conditions
from tests.repository import ROOT
from trainwright.api.conditions import is_true
from trainwright.api.config.v1alpha1 import (
    CertManagement,
    Configuration,
    ControllerHealth,
    ControllerWebhook,
    StatusServer,
)
from trainwright.api.kubernetes.core.v1 import Secret, ServiceAccount
from trainwright.api.manifest import dump
from trainwright.controller.runtime import load_config
from trainwright.controller.runtime.manager.manager import ProcessSettings
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.trainer.assembly.manager import make_manager
from trainwright.controller.trainer.assembly.settings import settings_of

SYSTEM = "kubeflow-system"
CASE = ROOT / "tests" / "conformance" / "cases" / "355-progress-injection"


class Reporting(User):
    """A user whose training reports to the manager."""

    port = 0

    async def report(self, path: str, token: str, percentage: int) -> int:
        """Send a report; returns the code of the answer."""
        status = {"progressPercentage": percentage, "lastUpdatedTime": "2026-01-02T03:04:05Z"}
        # The certificate of a manager outside of a cluster is not that of the Secret.
        context = ssl._create_unverified_context()
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=30, context=context)

        def send() -> int:
            with closing(connection):
                body = json.dumps({"trainerStatus": status})
                connection.request("POST", path, body, {"Authorization": f"Bearer {token}"})
                return connection.getresponse().status

        return await asyncio.to_thread(send)


@asynccontextmanager
async def reporting(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Reporting]:
    """The manager runs with the gate for the length of the block; its Secret is named after the namespace."""
    configuration = Configuration(
        health=ControllerHealth(health_probe_bind_address="0"),
        webhook=ControllerWebhook(host="127.0.0.1"),
        cert_management=CertManagement(webhook_secret_name=namespace),
        status_server=StatusServer(port=free_port()),
        feature_gates={"TrainJobStatus": True},
    )
    settings = settings_of(configuration)
    manager = await make_manager(
        load_config(control_plane.kubeconfig),
        settings,
        user_agent=f"test/{namespace}",
        namespace=namespace,
        process=ProcessSettings(detect_mutation=True),
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run(), name="manager")
        await manager.wait_ready()
        user = Reporting(control_plane, namespace, manager)
        user.port = settings.status_server.port
        yield user
        manager.stop()


@pytest.fixture
def place(with_jobsets: ControlPlane, namespace: str) -> tuple[ControlPlane, str]:
    """The shared API server with the manager's namespace, which others may have made."""
    with_jobsets.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
    return with_jobsets, namespace


async def put_secret(user: User, **data: str) -> None:
    """Make the Secret hold exactly these values."""
    encoded = {name.replace("_", "."): base64.b64encode(value.encode()).decode() for name, value in data.items()}
    metadata = {"name": user.namespace, "namespace": SYSTEM}
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}
    await asyncio.to_thread(user.control_plane.apply, document)


def bundle(config_map: dict[str, Any]) -> str:
    found: str = config_map["data"]["ca.crt"]
    return found


async def finish(user: User, name: str) -> None:
    """Play JobSet's controller: the JobSet is complete, and the TrainJob with it."""
    completed = {"type": "Completed", "status": "True", "reason": "R", "message": "m"}
    body = {"status": {"conditions": [{**completed, "lastTransitionTime": "2026-01-02T03:04:05Z"}]}}
    await user.patch("jobset", name, body, subresource="status")
    await user.until("trainjob", name, lambda job: "Complete" in conditions(job))


async def test_a_new_job_waits_for_the_secret_and_a_running_one_goes_on(place: tuple[ControlPlane, str]) -> None:
    """Scenario 36 of progress."""
    _, namespace = place
    async with reporting(*place) as user:
        await user.runtime()
        await user.job("waits")
        job = await user.until("trainjob", "waits", lambda job: "Blocked" in conditions(job))
        message = conditions(job)["Blocked"]["message"]
        assert f"Secret {SYSTEM}/{user.namespace} does not exist" in message
        assert await user.get("jobset", "waits") is None

        await put_secret(user, tls_crt="only")
        await user.until("trainjob", "waits", lambda job: "has no ca.crt" in str(conditions(job).get("Blocked")))
        await put_secret(user, ca_crt="ONE")
        assert bundle(await user.until("configmap", "waits-tls-config", bool)) == "ONE"
        await user.until("jobset", "waits", bool)
        await user.until("trainjob", "waits", lambda job: "Blocked" not in conditions(job))

        await put_secret(user, tls_crt="only")
        await user.noticed(Secret, namespace, SYSTEM)
        await user.job("second")
        await user.until("trainjob", "second", lambda job: "Blocked" in conditions(job))
        await user.patch("trainjob", "waits", {"spec": {"suspend": True}})
        await user.until("jobset", "waits", lambda jobset: jobset["spec"]["suspend"])
        job = await user.until("trainjob", "waits", lambda job: is_true(conditions(job).values(), "Suspended"))
        assert "Blocked" not in conditions(job)
        assert bundle(await user.until("configmap", "waits-tls-config", bool)) == "ONE"


async def test_a_new_bundle_reaches_unfinished_jobs_only(place: tuple[ControlPlane, str]) -> None:
    """Scenario 35 of progress."""
    async with reporting(*place) as user:
        await user.runtime()
        await put_secret(user, ca_crt="ONE")
        names = [f"job-{number}" for number in range(6)]
        await each(user.job(name, suspend=name == "job-5") for name in names)
        for name in names:
            assert bundle(await user.until("configmap", f"{name}-tls-config", bool)) == "ONE"
        await each(user.until("jobset", name, bool) for name in names)
        done = names[:2]
        await each(finish(user, name) for name in done)
        await put_secret(user, ca_crt="ONE AND TWO")
        for name in names[2:]:
            await user.until("configmap", f"{name}-tls-config", lambda found: bundle(found) == "ONE AND TWO")
        for name in done:
            assert bundle(await user.until("configmap", f"{name}-tls-config", bool)) == "ONE"


async def test_without_reports_nothing_is_added(place: tuple[ControlPlane, str]) -> None:
    """Scenarios 38 and 39 of progress."""
    async with reporting(*place) as user:
        metadata = {"name": "runtime", "annotations": {"trainwright.dev/progress": "none"}}
        spec = {"mlPolicy": {"numNodes": 1}, "template": TEMPLATE}
        document = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime"}
        await user.make({**document, "metadata": metadata, "spec": spec})
        await user.job("quiet")
        jobset = await user.until("jobset", "quiet", bool)
        (replicated,) = jobset["spec"]["replicatedJobs"]
        pod = replicated["template"]["spec"]["template"]["spec"]
        assert "volumes" not in pod
        assert not {"env", "volumeMounts"} & pod["containers"][0].keys()
        assert await user.get("configmap", "quiet-tls-config") is None


async def test_a_job_of_kubeflow_trainer_reports_on(place: tuple[ControlPlane, str]) -> None:
    """Scenario 40 of progress. What Kubeflow Trainer left is as its pods know it: they need no restart."""
    control_plane, namespace = place
    nothing: Any = None
    before = User(control_plane, namespace, nothing)  # no manager runs yet
    runtime = yaml.safe_load((CASE / "runtime.yaml").read_text())
    job = yaml.safe_load((CASE / "trainjob.yaml").read_text())
    for document in (runtime, job):
        await before.make(document)
    stored = await before.until("trainjob", "referee", bool)
    for document in yaml.safe_load((CASE / "expected.yaml").read_text())["objects"]:
        text = json.dumps(document).replace("<namespace>", namespace)
        left = json.loads(text)
        for owner in left["metadata"]["ownerReferences"]:
            owner["uid"] = stored["metadata"]["uid"]
        if "runtime" in left.get("data", {}):
            left["data"]["runtime"] = dump(await before.until("trainingruntime", "scoreboard", bool))
        control_plane.stored.apply(left, field_manager="trainer")
    jobset = await before.until("jobset", "referee", bool)

    await put_secret(before, ca_crt="NEW")
    async with reporting(control_plane, namespace) as user:
        await user.until("configmap", "referee-tls-config", lambda found: bundle(found) == "NEW")
        now = await user.until("jobset", "referee", bool)
        assert now["metadata"]["resourceVersion"] == jobset["metadata"]["resourceVersion"]
        # The audience and the path are those that the pods have.
        (node,) = (one for one in jobset["spec"]["replicatedJobs"] if one["name"] == "node")
        pod = node["template"]["spec"]["template"]["spec"]
        (url,) = (v["value"] for v in pod["containers"][0]["env"] if v["name"] == "KUBEFLOW_TRAINER_SERVER_URL")
        audience = pod["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]["audience"]
        await user.make({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reporter"}})
        request = {"spec": {"audiences": [audience]}}
        answer = await user.manager.client.post_subresource(ServiceAccount, "reporter", namespace, "token", request)
        token = answer["status"]["token"]
        assert await user.report(url.partition(":10443")[2], token, 7) == 200
        job = await user.until("trainjob", "referee", lambda job: "trainerStatus" in job.get("status", {}))
        assert job["status"]["trainerStatus"]["progressPercentage"] == 7


async def each(many: Iterable[Any]) -> None:
    """Do many things, one after the other: the API server is shared."""
    for one in many:
        await one
