# SPDX-License-Identifier: Apache-2.0
"""Our field manager on built-in kinds, from the schemas that the API server publishes, beside the real one."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.local.replay import Replay
from trainwright.controller.local.apiserver.merge import fieldset
from trainwright.controller.local.apiserver.merge.fieldmanager import FieldManager
from trainwright.controller.local.types.go_json import zero
from trainwright.controller.local.types.model import builtin
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.testing import ControlPlane

Document = dict[str, Any]


@pytest.fixture
async def transport(control_plane: ControlPlane) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(control_plane.kubeconfig))
    yield made
    await made.close()


async def job_replay(transport: HTTPTransport, namespace: str) -> Replay:
    model = "io.k8s.api.batch.v1.Job"
    empty = zero(model, apiVersion="batch/v1", kind="Job")
    assert empty["spec"] == {"template": {"metadata": {}, "spec": {"containers": None}}}
    reset = fieldset.of(("f:status",))
    manager = FieldManager(builtin(model), "batch/v1", "Job", reset=reset, empty=empty)
    return Replay(transport, {("batch/v1", ""): manager}, "jobs", namespace, "it", entries_only=True)


def job(**container: Any) -> Document:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "example/c:1", **container}]}
    return {"spec": {"suspend": True, "template": {"spec": pod}}}


async def test_jobs(transport: HTTPTransport, namespace: str) -> None:
    replay = await job_replay(transport, namespace)
    ports = [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]
    env = [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    first = job(ports=ports, env=env, resources={"limits": {"cpu": 1, "memory": "1Gi"}})
    for _ in range(2):
        assert (await replay.apply("one", first))["kind"] == "Job"
    await replay.apply("two", {"metadata": {"labels": {"a": "b"}}, "spec": {"parallelism": 2}}, force=True)
    answer = await replay.apply("three", {"spec": {"parallelism": 3, "suspend": False}})
    assert answer["message"] == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .spec.suspend\nconflicts with "two":\n'
        "- .spec.parallelism"
    )
    answer = await replay.apply("four", job(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]))
    assert answer["message"].endswith('duplicate entries for key [containerPort=80,protocol="TCP"]')


async def test_config_maps(transport: HTTPTransport, namespace: str) -> None:
    model = "io.k8s.api.core.v1.ConfigMap"
    empty = zero(model, apiVersion="v1", kind="ConfigMap")
    manager = FieldManager(builtin(model), "v1", "ConfigMap", empty=empty)
    replay = Replay(transport, {("v1", ""): manager}, "configmaps", namespace, "it", entries_only=True)
    await replay.update("one", {"data": {"a": "1", "b": "2"}})
    await replay.apply("two", {"data": {"a": "1", "c": "3"}, "metadata": {"finalizers": ["x/y"]}})
    answer = await replay.apply("three", {"data": {"b": "4", "c": "5"}})
    assert answer["message"] == (
        'Apply failed with 2 conflicts: conflicts with "one" using v1:\n- .data.b\nconflicts with "two":\n- .data.c'
    )
    answer = await replay.apply("two", {"data": {"c": 3}})
    assert answer["message"].endswith(".data.c: expected string, got &value.valueUnstructured{Value:3}")
    await replay.apply("two", {"data": {"a": "2"}}, force=True)
    await replay.update("one", {"data": {"a": "2"}, "binaryData": {"d": "AA=="}})
