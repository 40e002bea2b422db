# SPDX-License-Identifier: Apache-2.0
"""What Pods do that no recorded write shows: their owners, and the grace period of their deletion."""

import copy
from typing import Any

import pytest

from tests.cases import cases
from trainwright.api.amounts import of_containers
from trainwright.controller.local.apiserver.kinds.pods import PodStrategy
from trainwright.controller.local.apiserver.schema.published.kinds import recorded

CASES = cases(__file__)

Document = dict[str, Any]

PODS = PodStrategy(next(one for one in recorded().kinds if one.kind == "Pod"))


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


def test_defaults_are_stable() -> None:
    once = defaulted(pod({"resources": {"limits": {"cpu": "1000m"}}}, hostNetwork=True))
    assert defaulted(once) == once


def test_unknown_fields_survive() -> None:
    document = defaulted(pod({"fromTomorrow": [1]}, alsoNew={"a": 1}))
    assert document["spec"]["alsoNew"] == {"a": 1}
    assert document["spec"]["containers"][0]["fromTomorrow"] == [1]


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


@pytest.mark.parametrize(("spec", "phase", "asked", "grace"), CASES["grace_of_a_deletion"])
def test_grace_of_a_deletion(spec: Document, phase: str, asked: int | None, grace: int) -> None:
    document = created(pod(**spec))
    document["status"]["phase"] = phase
    assert PODS.grace_of(document, asked) == grace
