# SPDX-License-Identifier: Apache-2.0
"""Comparing a document with an object and its managedFields, without asking the server."""

from typing import Any

import pytest

from trainwright.controller.runtime.apply.compare import FieldComparison, compare, differences

OWNED: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:app": {}}, "f:ownerReferences": {'k:{"uid":"u1"}': {}}},
    "f:spec": {
        "f:selector": {},
        "f:type": {},
        "f:finalizers": {".": {}, 'v:"a"': {}},
        "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}}},
        "f:resources": {"f:limits": {"f:cpu": {}}},
        "f:ref": {},
    },
}
LIVE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Thing",
    "metadata": {
        "name": "x",
        "uid": "u0",
        "labels": {"app": "shop", "theirs": "yes"},
        "ownerReferences": [{"uid": "u1", "kind": "Owner", "name": "o", "controller": True}],
    },
    "spec": {
        "selector": {"app": "shop"},
        "type": "ClusterIP",
        "finalizers": ["b", "a"],
        "ports": [
            {"port": 80, "protocol": "TCP", "name": "http", "targetPort": 80},
            {"port": 81, "protocol": "TCP", "name": "theirs"},
        ],
        "resources": {"limits": {"cpu": "1"}},
        "ref": {"name": "r", "apiVersion": "v1"},
        "defaulted": True,
    },
    "status": {"ready": True},
}


def desired() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {
            "name": "x",
            "labels": {"app": "shop"},
            "ownerReferences": [{"uid": "u1", "kind": "Owner", "name": "o", "controller": True}],
        },
        "spec": {
            "selector": {"app": "shop"},
            "type": "ClusterIP",
            "finalizers": ["a"],
            "ports": [{"port": 80, "name": "http"}],
            "resources": {"limits": {"cpu": "1"}},
            "ref": {"name": "r", "apiVersion": "v1"},
        },
    }


def test_what_is_there_is_the_same() -> None:
    assert list(differences(desired(), LIVE, OWNED)) == []
    assert compare(desired(), LIVE, OWNED) is FieldComparison.SAME


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda d: d["spec"].update(type="NodePort"), ".spec.type"),
        (lambda d: d["spec"].pop("type"), ".spec.type"),
        (lambda d: d["spec"].update(extra=1), ".spec.extra"),
        (lambda d: d["spec"]["selector"].update(app="bar"), ".spec.selector.app"),
        (lambda d: d["metadata"]["labels"].pop("app"), ".metadata.labels.app"),
        (lambda d: d["metadata"].update(labels={"app": "shop", "b": "c"}), ".metadata.labels.b"),
        (lambda d: d["metadata"].pop("labels"), ".metadata.labels"),
        (lambda d: d.pop("metadata"), ".metadata"),
        (lambda d: d["spec"]["ports"].append({"port": 81}), ".spec.ports[new]"),
        (lambda d: d["spec"].update(ports=[]), ".spec.ports[80,TCP]"),
        (lambda d: d["spec"]["ports"][0].update(name="web"), ".spec.ports[80,TCP].name"),
        (lambda d: d["spec"]["ports"][0].pop("name"), ".spec.ports[80,TCP].name"),
        (lambda d: d["spec"].update(finalizers=["a", "c"]), ".spec.finalizers[c]"),
        (lambda d: d["spec"].update(finalizers=[]), ".spec.finalizers[a]"),
        (lambda d: d["metadata"]["ownerReferences"][0].update(name="other"), ".metadata.ownerReferences[u1].name"),
        (lambda d: d["spec"].update(ref={"name": "r2", "apiVersion": "v1"}), ".spec.ref.name"),
        (lambda d: d["spec"]["resources"]["limits"].update(cpu="2"), ".spec.resources.limits.cpu"),
        (lambda d: d.pop("spec"), ".spec"),
    ],
)
def test_each_difference_is_found_and_named(change: Any, path: str) -> None:
    document = desired()
    change(document)
    assert compare(document, LIVE, OWNED) is FieldComparison.DIFFERENT
    assert path in [difference.path for difference in differences(document, LIVE, OWNED)]


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["spec"]["resources"]["limits"].update(cpu="1000m"),
        lambda d: d["spec"].update(ref={"name": "r"}),
    ],
)
def test_what_only_the_server_can_judge_is_unclear(change: Any) -> None:
    document = desired()
    change(document)
    assert compare(document, LIVE, OWNED) is FieldComparison.UNCLEAR


def test_a_foreign_edit_of_our_field_is_a_difference() -> None:
    live = {**LIVE, "spec": {**LIVE["spec"], "ports": LIVE["spec"]["ports"][1:]}}
    assert [f.path for f in differences(desired(), live, OWNED)] == [".spec.ports[80,TCP]"]


def test_unset_fields_are_not_wanted() -> None:
    document = desired()
    document["spec"]["nothing"] = None
    assert compare(document, LIVE, OWNED) is FieldComparison.SAME


def test_true_is_not_one() -> None:
    owned: dict[str, Any] = {"f:spec": {"f:on": {}}}
    assert compare({"spec": {"on": True}}, {"spec": {"on": 1}}, owned) is FieldComparison.DIFFERENT


def test_differences_are_told_in_words() -> None:
    document = desired()
    document["spec"] |= {"type": "NodePort", "extra": 1, "finalizers": []}
    document["spec"]["resources"]["limits"]["cpu"] = "1000m"
    document["spec"]["ports"].append({"port": 82, "name": "new"})
    live = {**LIVE, "metadata": {**LIVE["metadata"], "labels": {}}}
    assert [f"{difference.path}: {difference.why}" for difference in differences(document, live, OWNED)] == [
        ".metadata.labels.app: missing",
        '.spec.type: "NodePort" is wanted, the object has "ClusterIP"',
        ".spec.finalizers[a]: owned and no longer wanted",
        ".spec.ports[new]: wanted and not owned yet",
        ".spec.resources.limits.cpu: '1000m' is wanted, '1' may be the same amount",
        ".spec.extra: wanted and not owned yet",
    ]


def test_our_items_in_another_order_are_unclear() -> None:
    node: dict[str, Any] = {".": {}, "f:name": {}}
    owned = {"f:spec": {"f:env": {f'k:{{"name":"{name}"}}': node for name in "ab"}}}
    wanted = {"spec": {"env": [{"name": "a"}, {"name": "b"}]}}
    live = {"spec": {"env": [{"name": "theirs"}, {"name": "a"}, {"name": "between"}, {"name": "b"}]}}
    assert compare(wanted, live, owned) is FieldComparison.SAME
    live["spec"]["env"].reverse()
    assert compare(wanted, live, owned) is FieldComparison.UNCLEAR


def test_an_empty_list_that_nobody_owns_is_the_same_where_it_is_empty() -> None:
    assert compare({"spec": {"env": []}}, {"spec": {"env": []}}, {"f:spec": {}}) is FieldComparison.SAME
    assert (
        compare({"spec": {"env": []}}, {"spec": {"env": [{"name": "A"}]}}, {"f:spec": {}}) is FieldComparison.DIFFERENT
    )
