# SPDX-License-Identifier: Apache-2.0
"""Kinds that nothing here acts on: the recorded table, and what is made of it."""

import copy
from typing import Any

import pytest

from trainwright.controller.local.apiserver.kinds.built_in import ACTED_ON, built_in_kinds
from trainwright.controller.local.apiserver.schema.published.kinds import recorded
from trainwright.controller.local.apiserver.views.cells import CELLS
from trainwright.controller.local.apiserver.views.tables import table_format
from trainwright.controller.local.types.model import published_models

Document = dict[str, Any]

KINDS = {(kind.api_version, kind.kind): kind for kind in built_in_kinds(for_others=False)}
OTHERS = [kind for kind in KINDS.values() if kind.kind not in ACTED_ON]
TEMPLATE: Document = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def made(kind: str, document: Document, api_version: str = "apps/v1") -> Document:
    strategy = KINDS[api_version, kind].strategy
    new = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, **copy.deepcopy(document)}
    strategy.default(new)
    strategy.prepare_for_create(new)
    return new


def refusals(kind: str, document: Document, api_version: str = "apps/v1") -> set[tuple[str, str]]:
    found = KINDS[api_version, kind].strategy.validate(made(kind, document, api_version))
    return {(error.reason, error.field) for error in found}


def deployment(**spec: Any) -> Document:
    return {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE, **spec}}


def test_every_kind_has_a_model_and_columns_that_can_be_read() -> None:
    for kind in recorded().kinds:
        assert kind.model in published_models()
        assert set(CELLS.get(kind.kind, {})) <= {column.name for column in kind.columns}, kind.kind
        assert table_format(KINDS[kind.api_version, kind.kind]).columns


def test_hooks_are_of_kinds_that_are_served() -> None:
    assert {kind.kind for kind in KINDS.values()} >= ACTED_ON
    assert len(OTHERS) >= 30


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: f"{kind.api_version} {kind.kind}")
def test_who_creates_an_object_is_told_that_nothing_acts_on_it(kind: Any) -> None:
    document: Document = {"metadata": {"name": "a"}}
    kind.strategy.default(document)
    told = f"{kind.kind} is stored, but nothing in this cluster acts on it"
    assert kind.strategy.undone(document) == [told]


@pytest.mark.parametrize("rbac", [False, True])
def test_what_is_told_where_controllers_come_from_elsewhere(rbac: bool) -> None:
    """Only what kube-apiserver itself would act on is not done then."""
    kinds = built_in_kinds(for_others=True, rbac=rbac)
    told = {one.kind for one in kinds if one.strategy.undone({"metadata": {"name": "a"}})}
    roles = {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
    assert {"ResourceQuota", "PodDisruptionBudget"} <= told
    assert not {"Deployment", "Pod", "Service"} & told
    assert told & roles == (set() if rbac else roles)


@pytest.mark.parametrize(
    ("kind", "spec", "told"),
    [
        ("Pod", {"containers": [{"resources": {"requests": {"cpu": "1"}}}], "securityContext": {}}, []),
        ("Pod", {"runtimeClassName": "r", "containers": []}, ["spec.runtimeClassName is ignored"]),
        (
            *("Pod", {"containers": [{"resources": {"limits": {"memory": "1Gi", "nvidia.com/gpu": 1}}}]}),
            ["spec.containers[0].resources.limits: the limits of memory are not enforced"],
        ),
        (
            *("Job", {"template": {"spec": {"initContainers": [{"securityContext": {"runAsUser": 0}}]}}}),
            ["spec.template.spec.initContainers[0].securityContext is ignored"],
        ),
        ("Service", {"clusterIP": "None"}, []),
        ("Service", {"clusterIP": "10.96.0.9"}, ["spec.clusterIP: nothing answers"]),
    ],
)
def test_fields_that_nothing_acts_on(kind: str, spec: Document, told: list[str]) -> None:
    [found] = [one for one in KINDS.values() if one.kind == kind]
    document = {"metadata": {"name": "a"}, "spec": spec}
    texts = found.strategy.undone(document)
    assert len(texts) == len(told)
    assert all(text.startswith(start) for text, start in zip(texts, told, strict=True))
    document["metadata"] = {"ownerReferences": [{"controller": True}]}
    assert found.strategy.undone(document) == []


def test_defaults_of_a_deployment() -> None:
    spec = made("Deployment", deployment())["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    [container] = spec["template"]["spec"]["containers"]
    assert container["imagePullPolicy"] == "Always"
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert "enableServiceLinks" not in spec["template"]["spec"], "only pods get it"
    assert made("Deployment", deployment(strategy={"type": "Recreate"}))["spec"]["strategy"] == {"type": "Recreate"}


def test_what_a_deployment_refuses() -> None:
    assert refusals("Deployment", deployment()) == set()
    found = refusals("Deployment", deployment(replicas=-1, selector={}, strategy={"type": "X"}))
    assert found >= {
        ("FieldValueInvalid", "spec.replicas"),
        ("FieldValueInvalid", "spec.selector"),
        ("FieldValueNotSupported", "spec.strategy"),
    }
    other = deployment(selector={"matchLabels": {"a": "c"}})
    assert refusals("Deployment", other) == {("FieldValueInvalid", "spec.template.metadata.labels")}
    never = deployment(template={**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}})
    assert refusals("Deployment", never) == {("FieldValueNotSupported", "spec.template.spec.restartPolicy")}


def test_what_may_not_change() -> None:
    old = made("Deployment", deployment())
    new = copy.deepcopy(old)
    new["spec"]["selector"] = {"matchLabels": {"a": "b", "c": "d"}}
    new["spec"]["template"]["metadata"]["labels"] = {"a": "b", "c": "d"}
    found = KINDS["apps/v1", "Deployment"].strategy.validate_update(new, old, "")
    assert [(error.reason, error.field) for error in found] == [("FieldValueInvalid", "spec.selector")]


def test_generation_and_status() -> None:
    strategy = KINDS["apps/v1", "Deployment"].strategy
    old = made("Deployment", {**deployment(), "status": {"replicas": 5}})
    assert (old["metadata"]["generation"], old["status"]) == (1, {})
    new = copy.deepcopy(old)
    new["spec"]["replicas"], new["status"] = 2, {"replicas": 5}
    strategy.prepare_for_update(new, old, "")
    assert (new["metadata"]["generation"], new["status"]) == (2, {})
    new["status"], new["spec"] = {"replicas": 5}, {}
    strategy.prepare_for_update(new, old, "status")
    assert (new["spec"], new["status"]) == (old["spec"], {"replicas": 5})


def test_policies_cover_what_they_have_rules_for() -> None:
    version = "networking.k8s.io/v1"
    assert made("NetworkPolicy", {"spec": {"podSelector": {}}}, version)["spec"]["policyTypes"] == ["Ingress"]
    both = made("NetworkPolicy", {"spec": {"podSelector": {}, "egress": [{}]}}, version)
    assert both["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_alternatives_are_not_refused() -> None:
    version = "networking.k8s.io/v1"
    path = {
        "pathType": "ImplementationSpecific",
        "backend": {"resource": {"apiGroup": "e.com", "kind": "K", "name": "n"}},
    }
    rules = [{"host": "*.example.com", "http": {"paths": [path]}}]
    assert refusals("Ingress", {"spec": {"rules": rules}}, version) == set()
    bad = {"pathType": "X", "path": "/", "backend": {"service": {"name": "s", "port": {"number": 80}}}}
    found = refusals("Ingress", {"spec": {"rules": [{"http": {"paths": [bad]}}]}}, version)
    assert found == {("FieldValueNotSupported", "spec.rules[0].http.paths[0].pathType")}
