# SPDX-License-Identifier: Apache-2.0
"""The whole chain without any part of ours: a JobSet becomes Jobs and pods, and completes on pretend nodes."""

import json

from tests import builders
from trainwright.api.objects import Document, wire
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.plugins.testing import replicated_job


def jobset(namespace: str) -> Document:
    node = replicated_job(parallelism=2, completions=2, completionMode="Indexed", pod={"restartPolicy": "Never"})
    return wire(builders.jobset(node, name="chain", namespace=namespace, uid=""))


def test_a_jobset_becomes_jobs_and_pods_and_completes(cluster: ControlPlane, cluster_namespace: str) -> None:
    cluster.apply(jobset(cluster_namespace))
    scope = ("--namespace", cluster_namespace)
    cluster.kubectl("wait", *scope, "--for=condition=Completed", "--timeout=60s", "jobset/chain")
    jobs = json.loads(cluster.kubectl("get", "jobs", *scope, "-o", "json"))["items"]
    pods = json.loads(cluster.kubectl("get", "pods", *scope, "-o", "json"))["items"]
    assert [job["metadata"]["name"] for job in jobs] == ["chain-node-0"]
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded", "Succeeded"]


def test_jobsets_webhooks_are_asked(cluster: ControlPlane, cluster_namespace: str) -> None:
    # Left out by us, filled in by JobSet's mutating webhook.
    cluster.apply(jobset(cluster_namespace))
    scope = ("--namespace", cluster_namespace)
    stored = json.loads(cluster.kubectl("get", "jobset/chain", *scope, "-o", "json"))
    assert stored["spec"]["network"]["enableDNSHostnames"] is True
