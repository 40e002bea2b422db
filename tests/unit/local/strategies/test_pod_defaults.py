# SPDX-License-Identifier: Apache-2.0
"""Defaults of Pods, their QoS class, generation and grace period."""

import copy
from typing import Any

import pytest

from trainwright.api.amounts import of_containers
from trainwright.controller.local.apiserver.kinds.pods import PodStrategy
from trainwright.controller.local.apiserver.kinds.podspecs import pull_policy
from trainwright.controller.local.apiserver.schema.published.kinds import recorded_kinds

Document = dict[str, Any]

PODS = PodStrategy(recorded_kinds()["v1", "Pod"])


def pod(*containers: Document, **spec: Any) -> Document:
    named = [{"name": f"c{index}", "image": "i:1", **container} for index, container in enumerate(containers or ({},))]
    return {"metadata": {"name": "p"}, "spec": {"containers": named, **spec}}


def defaulted(document: Document) -> Document:
    made = copy.deepcopy(document)
    PODS.default(made)
    return made


def created(document: Document) -> Document:
    made = defaulted(document)
    PODS.prepare_for_create(made)
    return made


def test_a_small_pod() -> None:
    assert created(pod())["spec"] == {
        "containers": [
            {
                "name": "c0",
                "image": "i:1",
                "imagePullPolicy": "IfNotPresent",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }


def test_defaults_are_stable() -> None:
    once = defaulted(pod({"resources": {"limits": {"cpu": "1000m"}}}, hostNetwork=True))
    assert defaulted(once) == once


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1", "IfNotPresent"),
        ("localhost:5000/a/b", "Always"),
        ("localhost:5000/a/b:v1", "IfNotPresent"),
        ("a/b@sha256:" + "0" * 64, "IfNotPresent"),
        ("a/b:latest@sha256:" + "0" * 64, "Always"),
        ("Not/An/Image", "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_pull_policy(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_unknown_fields_survive() -> None:
    document = defaulted(pod({"fromTomorrow": [1]}, alsoNew={"a": 1}))
    assert document["spec"]["alsoNew"] == {"a": 1}
    assert document["spec"]["containers"][0]["fromTomorrow"] == [1]


def test_requests_follow_limits() -> None:
    resources = {"limits": {"cpu": "1500m", "memory": "1024Mi"}, "requests": {"cpu": 1}}
    [container] = defaulted(pod({"resources": resources}))["spec"]["containers"]
    assert container["resources"] == {
        "limits": {"cpu": "1500m", "memory": "1Gi"},
        "requests": {"cpu": "1", "memory": "1Gi"},
    }


def limits(**amounts: str) -> Document:
    return {"resources": {"limits": amounts}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (pod(), "BestEffort"),
        (pod(limits(cpu="1", memory="1Gi")), "Guaranteed"),
        (pod(limits(cpu="1")), "Burstable"),
        (pod(limits(cpu="1", memory="1Gi"), {}), "Burstable"),
        (pod({"resources": {"requests": {"cpu": "1"}}}), "Burstable"),
        (pod(limits(**{"example.com/gpu": "1"})), "BestEffort"),
    ],
)
def test_quality_of_service(document: Document, expected: str) -> None:
    assert created(document)["status"] == {"phase": "Pending", "qosClass": expected}


def test_a_sidecar_counts_beside_containers_and_later_init_containers() -> None:
    def requests(cpu: str) -> Document:
        return {"image": "i:1", "resources": {"requests": {"cpu": cpu}}}

    inits = [
        {"name": "first", **requests("5")},
        {"name": "sidecar", "restartPolicy": "Always", **requests("2")},
        {"name": "second", **requests("4")},
    ]
    document = pod(requests("1"), initContainers=inits)
    assert {name: str(amount) for name, amount in of_containers(document["spec"], "requests").items()} == {"cpu": "6"}


def test_generation_counts_changes_of_the_specification() -> None:
    old = created(pod())
    assert old["metadata"]["generation"] == 1
    new = copy.deepcopy(old)
    new["metadata"]["labels"] = {"a": "b"}
    PODS.prepare_for_update(new, old, "")
    assert new["metadata"]["generation"] == 1
    new["spec"]["activeDeadlineSeconds"] = 5
    PODS.prepare_for_update(new, old, "")
    assert new["metadata"]["generation"] == 2


def test_a_status_write_changes_neither_specification_nor_owners() -> None:
    old = created(pod())
    old["metadata"]["ownerReferences"] = [{"uid": "1"}]
    new = copy.deepcopy(old)
    new["spec"]["activeDeadlineSeconds"] = 5
    new["metadata"]["ownerReferences"] = []
    new["status"] = {"phase": "Running"}
    PODS.prepare_for_update(new, old, "status")
    assert new["spec"] == old["spec"]
    assert new["metadata"] == old["metadata"]
    assert new["status"] == {"phase": "Running", "qosClass": "BestEffort"}


@pytest.mark.parametrize(
    ("spec", "phase", "asked", "grace"),
    [
        ({}, "Pending", None, 0),
        ({"nodeName": "n"}, "Running", None, 30),
        ({"nodeName": "n"}, "Running", 5, 5),
        ({"nodeName": "n"}, "Running", 0, 0),
        ({"nodeName": "n"}, "Running", -3, 1),
        ({"nodeName": "n"}, "Succeeded", 5, 0),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 0}, "Running", None, 0),
        ({"nodeName": "n", "terminationGracePeriodSeconds": -1}, "Running", None, 1),
    ],
)
def test_grace_of_a_deletion(spec: Document, phase: str, asked: int | None, grace: int) -> None:
    document = created(pod(**spec))
    document["status"]["phase"] = phase
    assert PODS.grace_of(document, asked) == grace


def test_scheduling_gates_are_told_of() -> None:
    [condition] = created(pod(schedulingGates=[{"name": "a"}]))["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


def test_label_keys_become_part_of_the_selector() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["a", "absent"], "mismatchLabelKeys": ["b"]}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    document = pod(affinity=affinity)
    document["metadata"]["labels"] = {"a": "1", "b": "2"}
    [made] = created(document)["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert made["labelSelector"]["matchExpressions"] == [
        {"key": "a", "operator": "In", "values": ["1"]},
        {"key": "b", "operator": "NotIn", "values": ["2"]},
    ]
