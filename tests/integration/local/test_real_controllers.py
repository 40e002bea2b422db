# SPDX-License-Identifier: Apache-2.0
"""The real controllers on the local API server: clients on client-go and controller-runtime, which send protobuf."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.assertions import does_not_raise
from tests.e2e.test_chain import jobset
from trainwright.controller.local.testing.control_plane import LocalControlPlane
from trainwright.controller.runtime.testing.waiting import eventually_sync

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def plane() -> Iterator[LocalControlPlane]:
    with LocalControlPlane.complete(audit=True) as running:
        yield running


def listed(plane: LocalControlPlane, resource: str, namespace: str) -> list[dict[str, Any]]:
    return plane.stored.list(resource, namespace)


def test_a_jobset_completes_under_the_real_programs(plane: LocalControlPlane) -> None:
    namespace = plane.create_namespace()
    plane.apply(jobset(namespace))
    plane.kubectl("wait", f"--namespace={namespace}", "--for=condition=Completed", "--timeout=60s", "jobset/chain")
    pods = listed(plane, "pods", namespace)
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded", "Succeeded"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"pretend-0"}

    def sources() -> set[tuple[str, str]]:
        events = listed(plane, "events", namespace)
        return {(event["reason"], event["source"].get("component") or event["reportingComponent"]) for event in events}

    # They write their events beside their work, perhaps after it.
    eventually_sync(sources, {("Scheduled", "default-scheduler"), ("SuccessfulCreate", "job-controller")}.issubset)
    agents = {call.user_agent.partition("/")[0] for call in plane.audit_log.calls() if call.verb == "create"}
    assert {"jobset", "kube-controller-manager", "kube-scheduler"} <= agents


def test_the_scheduler_says_why_a_pod_waits(plane: LocalControlPlane) -> None:
    namespace = plane.create_namespace()
    claimed = {"resources": {"requests": {"cpu": "1000000"}}}
    pod = {"containers": [{"name": "c", "image": "i", **claimed}]}
    plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": namespace}, "spec": pod})
    said = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}=Unschedulable"
    with does_not_raise():
        plane.kubectl("wait", f"--namespace={namespace}", f"--for={said}", "--timeout=60s", "pod/a")


def test_a_replica_set_gets_its_pods_and_loses_them_with_it(plane: LocalControlPlane) -> None:
    namespace = plane.create_namespace()
    scope = f"--namespace={namespace}"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    metadata = {"name": "a", "namespace": namespace}
    plane.apply({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec})
    plane.kubectl("wait", scope, "--for=jsonpath={.status.readyReplicas}=2", "--timeout=60s", "replicaset/a")
    plane.kubectl("delete", scope, "replicaset/a", "--cascade=foreground", "--timeout=60s")
    assert listed(plane, "pods", namespace) == []
