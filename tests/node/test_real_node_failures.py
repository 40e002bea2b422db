# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in real containers, and what `trainwright explain` says of it: see docs/users/causes.md."""

import json

from tests.node.conftest import Containers
from trainwright.controller.runtime.testing import ControlPlaneError
from trainwright.controller.runtime.testing.waiting import eventually_sync

FILL = "print('filling', flush=True); x = [bytearray(1 << 20) for _ in range(4000)]"


def test_out_of_memory(containers: Containers) -> None:
    limits = {"resources": {"limits": {"memory": "100Mi"}}}
    job = containers.one("greedy", "python", "-c", FILL, runtime={"container": limits})
    assert containers.ends(job) == "Failed"
    containers.told(job, "memory", "100Mi")


def test_an_image_that_is_not_there(containers: Containers) -> None:
    # The loopback of the node, where no registry listens.
    job = containers.one("unpulled", "true", runtime={"container": {"image": "127.0.0.1:5000/nothing:2"}})
    containers.told(job, "127.0.0.1:5000/nothing:2")


def test_a_command_that_is_not_there(containers: Containers) -> None:
    job = containers.one("nowhere", "/no/such/program")
    assert containers.ends(job) == "Failed"
    containers.told(job, "/no/such/program")


def test_a_configmap_of_a_variable_that_is_not_there(containers: Containers) -> None:
    sky = {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "colours", "key": "sky"}}}
    job = containers.one("colourless", "true", env=[sky])
    containers.told(job, "colours", "COLOUR")


def test_a_configmap_of_a_volume_that_is_not_there(containers: Containers) -> None:
    volume = {"volumes": [{"name": "v", "configMap": {"name": "colours"}}]}
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    job = containers.one("unmounted", "true", runtime={**volume, "container": mount})
    containers.told(job, "colours", "volume v")


def test_more_than_the_node_has(containers: Containers) -> None:
    asked = {"resources": {"requests": {"cpu": "1000"}}}
    job = containers.one("large", "true", runtime={"container": asked})
    containers.told(job, "1000", "cpu")


def test_root_where_only_others_may_run(containers: Containers) -> None:
    job = containers.one("rootless", "true", runtime={"container": {"securityContext": {"runAsNonRoot": True}}})
    containers.told(job, "runAsNonRoot")


def test_a_pod_that_ignores_sigterm_ends_with_its_grace(containers: Containers) -> None:
    stubborn = "trap '' TERM; echo deaf; while :; do sleep 1; done"
    job = containers.one("deaf", "sh", "-c", stubborn, runtime={"terminationGracePeriodSeconds": 2})
    # Until the container runs, there are no logs to be had.
    ignore = (ControlPlaneError,)
    eventually_sync(lambda: containers.logs(job), lambda lines: "deaf" in lines, seconds=120, ignore=ignore)
    containers.delete("trainjob", job)
    eventually_sync(
        lambda: containers.cluster.stored.list("pods", containers.namespace), lambda pods: not pods, seconds=60
    )


def test_a_volume_that_is_too_full(containers: Containers) -> None:
    volume = {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "5Mi"}}]}
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    fill = "head -c 20000000 /dev/zero > /v/fill; sleep 3600"
    job = containers.one("full", "sh", "-c", fill, runtime={**volume, "container": mount})
    assert containers.ends(job) == "Failed"
    text = containers.told(job, "evicted rank 0", "EmptyDir", "5Mi")
    assert "made again" not in text


def test_a_liveness_probe_that_fails(containers: Containers) -> None:
    probe = {"exec": {"command": ["sh", "-c", "echo stuck; exit 1"]}, "periodSeconds": 1, "failureThreshold": 2}
    stubborn = "trap '' TERM; while :; do sleep 1; done"
    runtime = {"container": {"livenessProbe": probe}, "terminationGracePeriodSeconds": 2}
    job = containers.one("stuck", "sh", "-c", stubborn, runtime=runtime)
    assert containers.ends(job) == "Failed"
    containers.told(job, "exit code 137", "its liveness probe failed: stuck")


def test_a_pod_that_an_admin_evicts(containers: Containers) -> None:
    job = containers.one("drained", "sleep", "3600", runtime={"terminationGracePeriodSeconds": 1})

    def running() -> list[str]:
        pods = containers.cluster.stored.list("pods", containers.namespace)
        return [pod["metadata"]["name"] for pod in pods if pod.get("status", {}).get("phase") == "Running"]

    name = eventually_sync(running, bool, seconds=120)[0]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": containers.namespace},
    }
    path = f"/api/v1/namespaces/{containers.namespace}/pods/{name}/eviction"
    containers.cluster.kubectl("create", "--raw", path, "--filename=-", stdin=json.dumps(eviction))
    assert containers.ends(job) == "Failed"
    text = containers.told(job, "evicted, as when a node is drained", "trainwright.dev/recovery")
    assert "restartPolicy" not in text
