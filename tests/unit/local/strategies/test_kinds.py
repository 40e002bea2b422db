# SPDX-License-Identifier: Apache-2.0
"""What strategies do that no recorded write shows (tests/integration/local/writes.json)."""

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


def strategy(kind: str) -> Strategy:
    return KINDS["", kind].strategy


def created(kind: str, document: Document) -> Document:
    made = copy.deepcopy(document)
    made["metadata"] = {"name": "a", "uid": "u-1", **made.get("metadata", {})}
    strategy(kind).default(made)
    strategy(kind).prepare_for_create(made)
    return made


def updated(kind: str, old: Document, change: Document, subresource: str = "") -> Document:
    new = {**copy.deepcopy(old), **change}
    strategy(kind).default(new)
    strategy(kind).prepare_for_update(new, old, subresource)
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


def test_events_go_both_ways() -> None:
    event = created("Event", {"message": "m", "involvedObject": {"name": "p"}, "count": 2})
    there = to_events(event)
    assert there["regarding"] == {"name": "p"}
    assert there["note"] == "m"
    assert there["deprecatedCount"] == 2
    assert {**to_core(there)} == {**event, "apiVersion": "v1"}


@pytest.mark.parametrize(("kind", "field"), [("ConfigMap", "[]"), ("Secret", "data")])
def test_large_objects_are_refused(kind: str, field: str) -> None:
    text = "x" * (1024 * 1024 + 1)
    made = created(kind, {"stringData": {"a": text}} if kind == "Secret" else {"data": {"a": text}})
    assert [(error.reason, error.field) for error in strategy(kind).validate(made)] == [("FieldValueTooLong", field)]
