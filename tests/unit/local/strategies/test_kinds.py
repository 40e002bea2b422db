# SPDX-License-Identifier: Apache-2.0
"""What the strategies of the smaller kinds fill in, reset and keep."""

import copy
from typing import Any

import pytest

from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.apiserver.kinds.built_in import built_in_kinds
from trainwright.controller.local.apiserver.kinds.others import to_core, to_events
from trainwright.controller.local.apiserver.kinds.registry import Resource
from trainwright.controller.local.apiserver.kinds.strategy import Strategy

Document = dict[str, Any]
ALL = built_in_kinds(for_others=True)
KINDS = {(one.group, one.kind): one for one in ALL}


def strategy(kind: str, group: str = "") -> Strategy:
    return KINDS[group, kind].strategy


def created(kind: str, document: Document, group: str = "") -> Document:
    made = copy.deepcopy(document)
    made["metadata"] = {"name": "a", "uid": "u-1", **made.get("metadata", {})}
    strategy(kind, group).default(made)
    strategy(kind, group).prepare_for_create(made)
    return made


def updated(kind: str, old: Document, change: Document, subresource: str = "", group: str = "") -> Document:
    new = {**copy.deepcopy(old), **change}
    strategy(kind, group).default(new)
    strategy(kind, group).prepare_for_update(new, old, subresource)
    return new


@pytest.mark.parametrize("built_in", ALL, ids=lambda one: f"{one.api_version} {one.kind}")
def test_a_document_without_anything_is_defaulted_once(built_in: Resource) -> None:
    document: Document = {"metadata": {"name": "a"}}
    built_in.strategy.default(document)
    again = copy.deepcopy(document)
    built_in.strategy.default(again)
    assert again == document


def test_events_of_both_groups_are_stored_once() -> None:
    names = [one.stored_in for one in ALL]
    assert names.count("events") == 2
    assert len(set(names)) == len(names) - 1


def test_job_selector_and_labels() -> None:
    job = created("Job", {"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {}}}}, "batch")
    labels = {
        "a": "b",
        "job-name": "a",
        "batch.kubernetes.io/job-name": "a",
        "controller-uid": "u-1",
        "batch.kubernetes.io/controller-uid": "u-1",
    }
    assert job["metadata"]["labels"] == labels
    assert job["metadata"]["generation"] == 1
    assert job["spec"]["template"]["metadata"]["labels"] == labels
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}


def test_job_keeps_labels_of_its_own() -> None:
    document = {"metadata": {"labels": {"own": "1"}}, "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
    assert created("Job", document, "batch")["metadata"]["labels"] == {"own": "1"}


@pytest.mark.parametrize(
    ("spec", "completions", "parallelism", "backoff", "replacement"),
    [
        ({}, 1, 1, 6, "TerminatingOrFailed"),
        ({"parallelism": 3}, None, 3, 6, "TerminatingOrFailed"),
        ({"completions": 3}, 3, 1, 6, "TerminatingOrFailed"),
        ({"backoffLimitPerIndex": 1}, 1, 1, 2**31 - 1, "TerminatingOrFailed"),
        ({"podFailurePolicy": {"rules": [{}]}}, 1, 1, 6, "Failed"),
    ],
)
def test_job_defaults(
    spec: Document, completions: int | None, parallelism: int, backoff: int, replacement: str
) -> None:
    made = created("Job", {"spec": spec, "status": {"active": 1}}, "batch")
    assert made["spec"].get("completions") == completions
    assert made["spec"]["parallelism"] == parallelism
    assert made["spec"]["backoffLimit"] == backoff
    assert made["spec"]["podReplacementPolicy"] == replacement
    assert made["spec"]["completionMode"] == "NonIndexed"
    assert made["spec"]["suspend"] is False
    assert made["status"] == {}


def test_job_generation_and_status() -> None:
    old = created("Job", {}, "batch")
    assert (
        updated("Job", old, {"metadata": {**old["metadata"], "labels": {}}}, group="batch")["metadata"]["generation"]
        == 1
    )
    changed = updated("Job", old, {"spec": {**old["spec"], "suspend": True}, "status": {"active": 1}}, group="batch")
    assert changed["metadata"]["generation"] == 2
    assert changed["status"] == {}
    changed = updated("Job", old, {"spec": {}, "status": {"active": 1}}, "status", "batch")
    assert changed["spec"] == old["spec"]
    assert changed["status"] == {"active": 1}


def test_namespace_life() -> None:
    namespace = created("Namespace", {"status": {"phase": "Terminating"}})
    assert namespace["spec"] == {"finalizers": ["kubernetes"]}
    assert namespace["status"] == {"phase": "Active"}
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "a"}
    rules = strategy("Namespace")
    rules.before_delete(namespace)
    rules.begin_deletion(namespace)
    assert namespace["status"] == {"phase": "Terminating"}
    assert rules.is_held(namespace)
    kept = updated("Namespace", namespace, {"spec": {}})
    assert kept["spec"] == {"finalizers": ["kubernetes"]}
    assert not rules.is_held(updated("Namespace", namespace, {"spec": {"finalizers": []}}, "finalize"))


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_some_namespaces_stay(name: str) -> None:
    with pytest.raises(StatusError, match=f'namespaces "{name}" is forbidden: this namespace may not be deleted'):
        strategy("Namespace").before_delete({"metadata": {"name": name}})


def test_secret_texts_become_data() -> None:
    secret = created("Secret", {"data": {"a": "MQ==", "b": "Mg=="}, "stringData": {"a": "x"}})
    assert secret["data"] == {"a": "eA==", "b": "Mg=="}
    assert "stringData" not in secret
    assert secret["type"] == "Opaque"


def test_service_account_secrets_are_names() -> None:
    account = created("ServiceAccount", {"secrets": [{"name": "s", "kind": "Secret"}]})
    assert account["secrets"] == [{"name": "s"}]


def test_headless_service() -> None:
    service = created("Service", {"spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]}})
    assert service["spec"] == {
        "clusterIP": "None",
        "clusterIPs": ["None"],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "selector": {"a": "b"},
        "sessionAffinity": "None",
        "type": "ClusterIP",
    }
    assert service["status"] == {"loadBalancer": {}}


def test_service_addresses_are_made_from_the_uid_and_kept() -> None:
    document = {"spec": {"type": "NodePort", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}}
    service = created("Service", document)
    assert service == created("Service", document)
    spec = service["spec"]
    assert spec["clusterIP"].startswith("10.96.")
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert spec["externalTrafficPolicy"] == "Cluster"
    assert len({port["nodePort"] for port in spec["ports"]}) == 2
    assert updated("Service", service, copy.deepcopy(document))["spec"] == spec
    plain = updated("Service", service, {"spec": {**copy.deepcopy(spec), "type": "ClusterIP"}})["spec"]
    assert "externalTrafficPolicy" not in plain
    assert all("nodePort" not in port for port in plain["ports"])


@pytest.mark.parametrize(
    ("validation", "condition", "told"),
    [
        ({"expression": "true ? 1 : 2"}, "true", "must evaluate to bool but got int"),
        ({"expression": "true", "messageExpression": "1 + 1"}, "true", "must evaluate to string but got int"),
        ({"expression": "true"}, "'a'", "must evaluate to bool but got string"),
        ({"expression": "object.data.a", "messageExpression": "object.data.b"}, "object.data.c", ""),
    ],
)
def test_expressions_of_a_policy_give_what_is_asked_of_them(validation: Document, condition: str, told: str) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "c", "expression": condition}],
        "validations": [validation],
    }
    kind, group = "ValidatingAdmissionPolicy", "admissionregistration.k8s.io"
    policy = created(kind, {"spec": spec}, group)
    errors = [str(error) for error in strategy(kind, group).validate(policy)]
    assert [told in error for error in errors] == ([True] if told else [])


@pytest.mark.parametrize(("kind", "allowed"), [("LoadBalancer", True), ("NodePort", False), ("ClusterIP", False)])
def test_only_services_of_a_load_balancer_have_its_address(kind: str, allowed: bool) -> None:
    service = created("Service", {"spec": {"type": kind, "ports": [{"port": 80}]}})
    status = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
    errors = strategy("Service").validate_update({**service, "status": status}, service, "status")
    told = "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"
    assert [str(error) for error in errors] == ([] if allowed else [told])


def test_events_go_both_ways() -> None:
    event = created("Event", {"message": "m", "involvedObject": {"name": "p"}, "count": 2})
    there = to_events(event)
    assert there["regarding"] == {"name": "p"}
    assert there["note"] == "m"
    assert there["deprecatedCount"] == 2
    assert {**to_core(there)} == {**event, "apiVersion": "v1"}


def test_webhook_defaults() -> None:
    rules = [{"apiGroups": ["*"]}]
    made = created("MutatingWebhookConfiguration", {"webhooks": [{"rules": rules}]}, "admissionregistration.k8s.io")
    assert made["webhooks"] == [
        {
            "admissionReviewVersions": None,
            "clientConfig": {},
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "name": "",
            "namespaceSelector": {},
            "objectSelector": {},
            "reinvocationPolicy": "Never",
            "rules": [{"apiGroups": ["*"], "scope": "*"}],
            "sideEffects": None,
            "timeoutSeconds": 10,
        }
    ]
    assert made["metadata"]["generation"] == 1


def test_limits_fill_each_other() -> None:
    item = {"type": "Container", "max": {"cpu": "2000m"}, "min": {"memory": "1Mi"}}
    made = created("LimitRange", {"spec": {"limits": [item]}})["spec"]["limits"][0]
    assert made["default"] == {"cpu": "2"}
    assert made["defaultRequest"] == {"cpu": "2", "memory": "1Mi"}


@pytest.mark.parametrize(
    ("service", "fields"),
    [
        ({"name": "s", "namespace": "n"}, []),
        ({"name": "s", "port": 0, "path": "a"}, ["namespace", "port", "path"]),
        ({}, ["name", "namespace"]),
    ],
)
def test_services_of_webhooks(service: Document, fields: list[str]) -> None:
    webhook = {
        "name": "a.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"service": service},
    }
    rules = strategy("ValidatingWebhookConfiguration", "admissionregistration.k8s.io")
    document: Document = {"metadata": {"name": "a"}, "webhooks": [webhook]}
    rules.default(document)
    assert [error.field.rpartition("service.")[2] for error in rules.validate(document)] == fields


@pytest.mark.parametrize(("kind", "field"), [("ConfigMap", "[]"), ("Secret", "data")])
def test_large_objects_are_refused(kind: str, field: str) -> None:
    text = "x" * (1024 * 1024 + 1)
    made = created(kind, {"stringData": {"a": text}} if kind == "Secret" else {"data": {"a": text}})
    assert [(error.reason, error.field) for error in strategy(kind).validate(made)] == [("FieldValueTooLong", field)]
