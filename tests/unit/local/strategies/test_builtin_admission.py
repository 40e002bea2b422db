# SPDX-License-Identifier: Apache-2.0
"""The plugins that kube-apiserver runs by default."""

import asyncio
import copy
from types import SimpleNamespace
from typing import Any

import pytest

from tests.assertions import does_not_raise
from trainwright.controller.local.apiserver.admission.plugins import BuiltInPlugins
from trainwright.controller.local.apiserver.admission.request import AdmissionRequest
from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.apiserver.kinds.pods import PodStrategy
from trainwright.controller.local.apiserver.request.info import WriteQuery
from trainwright.controller.local.apiserver.schema.published.kinds import recorded_kinds
from trainwright.controller.local.apiserver.store import ObjectName

Document = dict[str, Any]

PODS = PodStrategy(recorded_kinds()["v1", "Pod"])

NAMESPACE = {"metadata": {"name": "n"}, "status": {"phase": "Active"}}
ACCOUNT = {"metadata": {"name": "default"}}


class Objects:
    """A store of objects by group, plural, namespace and name."""

    def __init__(self, *more: tuple[str, str, str, Document]) -> None:
        stored = (("", "namespaces", "", NAMESPACE), ("", "serviceaccounts", "n", ACCOUNT), *more)
        self._stored: dict[tuple[str, ObjectName], Document] = {}
        for group, plural, namespace, document in stored:
            collection = f"{plural}.{group}" if group else plural
            self._stored[collection, ObjectName(namespace, document["metadata"]["name"])] = document

    def get(self, collection: str, name: ObjectName) -> Any:
        found = self._stored.get((collection, name))
        return None if found is None else SimpleNamespace(document=lambda: found)

    def collection(self, collection: str) -> Any:
        def listed(namespace: str) -> list[Any]:
            known = self._stored.items()
            found = [one for (place, name), one in known if place == collection and name.namespace == namespace]
            return [SimpleNamespace(document=lambda one=one: one) for one in found]

        return SimpleNamespace(listed=listed)


def request(
    new: Document,
    operation: Any = "CREATE",
    plural: str = "pods",
    *,
    group: str = "",
    namespace: str = "n",
    subresource: str = "",
    old: Document | None = None,
) -> AdmissionRequest:
    call: Any = SimpleNamespace(group=group, plural=plural, namespace=namespace, subresource=subresource, name="")
    return AdmissionRequest(call, operation, new, old, WriteQuery(manager="", dry_run=False, validation=""))


def mutated(one: AdmissionRequest, *objects: tuple[str, str, str, Document]) -> Document:
    store: Any = Objects(*objects)
    asyncio.run(BuiltInPlugins(store, service_accounts=True).mutate(one))
    assert one.new is not None
    return one.new


def validate(one: AdmissionRequest, *objects: tuple[str, str, str, Document]) -> None:
    store: Any = Objects(*objects)
    asyncio.run(BuiltInPlugins(store, service_accounts=True).validate(one))


def pod(**spec: Any) -> Document:
    containers = [{"name": "c", "image": "i"}]
    made: Document = {"metadata": {"name": "p"}, "spec": {"containers": containers, **copy.deepcopy(spec)}}
    PODS.default(made)
    return made


def admitted(document: Document, *objects: tuple[str, str, str, Document], plural: str = "pods") -> Document:
    one = request(document, plural=plural)
    made = mutated(one, *objects)
    validate(one, *objects)
    return made


def refusal(document: Document, *objects: tuple[str, str, str, Document]) -> StatusError:
    with pytest.raises(StatusError) as error:
        admitted(document, *objects)
    assert error.value.code == 403
    return error.value


def test_a_pod_gets_its_token() -> None:
    made = admitted(pod(initContainers=[{"name": "i", "image": "i"}]))["spec"]
    assert made["serviceAccountName"] == made["serviceAccount"] == "default"
    [volume] = made["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert len(volume["name"]) == len("kube-api-access-") + 5
    assert volume["projected"] == {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
            {
                "downwardAPI": {
                    "items": [
                        {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}
                    ]
                }
            },
        ],
    }
    mount = {"name": volume["name"], "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    for field in ("initContainers", "containers"):
        assert made[field][0]["volumeMounts"] == [mount]


def test_a_pod_may_go_without_its_token() -> None:
    assert "volumes" not in admitted(pod(automountServiceAccountToken=False))["spec"]
    silent = ("", "serviceaccounts", "n", {**ACCOUNT, "automountServiceAccountToken": False})
    assert "volumes" not in admitted(pod(), silent)["spec"]
    assert "volumes" in admitted(pod(automountServiceAccountToken=True), silent)["spec"]


def test_admission_twice_changes_nothing() -> None:
    once = admitted(pod())
    assert admitted(copy.deepcopy(once)) == once


def test_pull_secrets_come_from_the_account() -> None:
    account = ("", "serviceaccounts", "n", {**ACCOUNT, "imagePullSecrets": [{"name": "s"}]})
    assert admitted(pod(), account)["spec"]["imagePullSecrets"] == [{"name": "s"}]
    assert admitted(pod(imagePullSecrets=[{"name": "t"}]), account)["spec"]["imagePullSecrets"] == [{"name": "t"}]


def test_nothing_is_created_in_an_ending_namespace() -> None:
    ending = ("", "namespaces", "", {**NAMESPACE, "status": {"phase": "Terminating"}})
    error = refusal(pod(), ending)
    assert error.message == (
        'pods "p" is forbidden: unable to create new content in namespace n because it is being terminated'
    )
    assert error.details is not None
    assert error.details["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace n is being terminated",
            "field": "metadata.namespace",
        }
    ]
    mutated(request({}, "UPDATE", "configmaps"), ending)


def priority_class(name: str, value: int, **fields: Any) -> tuple[str, str, str, Document]:
    return ("scheduling.k8s.io", "priorityclasses", "", {"metadata": {"name": name}, "value": value, **fields})


def test_priorities() -> None:
    high = priority_class("high", 7, preemptionPolicy="Never")
    made = admitted(pod())["spec"]
    assert (made["priority"], made["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    made = admitted(pod(priorityClassName="high"), high)["spec"]
    assert (made["priority"], made["preemptionPolicy"]) == (7, "Never")
    defaults = priority_class("a", 5, globalDefault=True), priority_class("b", 3, globalDefault=True)
    made = admitted(pod(), *defaults)["spec"]
    assert (made["priority"], made["priorityClassName"]) == (3, "b")
    assert refusal(pod(priorityClassName="nope")).message.endswith("no PriorityClass with name nope was found")
    assert refusal(pod(priority=5)).message.startswith(
        'pods "p" is forbidden: the integer value of priority (5) must not be provided in pod spec'
    )


def test_an_update_keeps_its_priority() -> None:
    old = admitted(pod())
    new = mutated(request(pod(), "UPDATE", old=old))
    assert new["spec"]["priority"] == 0
    assert new["spec"]["preemptionPolicy"] == "PreemptLowerPriority"


def test_one_priority_class_is_the_default() -> None:
    given = priority_class("a", 5, globalDefault=True)
    with pytest.raises(StatusError, match="PriorityClass a is already marked as default"):
        validate(
            request(
                {"metadata": {"name": "b"}, "globalDefault": True},
                plural="priorityclasses",
                group="scheduling.k8s.io",
                namespace="",
            ),
            given,
        )


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], ["not-ready", "unreachable"]),
        ([{"operator": "Exists"}], []),
        ([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}], ["unreachable"]),
        ([{"operator": "Exists", "effect": "NoSchedule"}], ["not-ready", "unreachable"]),
    ],
)
def test_default_tolerations(given: list[Document], added: list[str]) -> None:
    made = admitted(pod(tolerations=given))["spec"].get("tolerations") or []
    assert made == given + [
        {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for name in added
    ]


def test_limit_ranges_fill_in() -> None:
    item = {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1", "memory": "1Gi"}}
    limits = ("", "limitranges", "n", {"metadata": {"name": "l"}, "spec": {"limits": [item]}})
    made = admitted(pod(), limits)
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "2"},
        "requests": {"cpu": "1", "memory": "1Gi"},
    }
    assert made["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": (
            "LimitRanger plugin set: cpu, memory request for container c; cpu limit for container c"
        )
    }


def bounds(kind: str, **item: Document) -> tuple[str, str, str, Document]:
    """A LimitRange with one item."""
    return ("", "limitranges", "n", {"metadata": {"name": "l"}, "spec": {"limits": [{"type": kind, **item}]}})


def needing(cpu: str, limit: str = "") -> Document:
    """A pod of one container."""
    resources = {"requests": {"cpu": cpu}, **({"limits": {"cpu": limit}} if limit else {})}
    return pod(containers=[{"name": "c", "image": "i", "resources": resources}])


@pytest.mark.parametrize("kind", ["Container", "Pod"])
@pytest.mark.parametrize(
    ("document", "item", "problem"),
    [
        (needing("1", "2"), {"max": {"cpu": "2000m"}, "min": {"cpu": "1"}}, ""),
        (needing("1", "2"), {"max": {"cpu": "1500m"}}, "maximum cpu usage per {} is 1500m, but limit is 2"),
        (needing("1"), {"max": {"cpu": "2"}}, "maximum cpu usage per {} is 2.  No limit is specified"),
        (needing("100m", "2"), {"min": {"cpu": "0.5"}}, "minimum cpu usage per {} is 500m, but request is 100m"),
        (pod(), {"min": {"cpu": "1"}}, "minimum cpu usage per {} is 1.  No request is specified"),
    ],
)
def test_limit_ranges_bound(kind: str, document: Document, item: Document, problem: str) -> None:
    if problem:
        assert refusal(document, bounds(kind, **item)).message == f'pods "p" is forbidden: {problem.format(kind)}'
    else:
        with does_not_raise():
            admitted(document, bounds(kind, **item))


def test_all_bounds_are_named() -> None:
    told = refusal(needing("1", "3"), bounds("Container", min={"cpu": "2"}, max={"cpu": "2"})).message
    below, above = "minimum cpu usage per Container is 2, but request is 1", "maximum cpu usage per Container is 2"
    assert told == f'pods "p" is forbidden: [{below}, {above}, but limit is 3]'


def test_a_runtime_class_must_be_there() -> None:
    stored = ("node.k8s.io", "runtimeclasses", "", {"metadata": {"name": "r"}})
    assert admitted(pod(runtimeClassName="r"), stored)["spec"]["runtimeClassName"] == "r"
    assert refusal(pod(runtimeClassName="x")).message.endswith('pod rejected: RuntimeClass "x" not found')


def test_claims_get_the_default_class() -> None:
    def storage_class(name: str, created: str) -> tuple[str, str, str, Document]:
        annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
        metadata = {"name": name, "creationTimestamp": created, "annotations": annotations}
        return ("storage.k8s.io", "storageclasses", "", {"metadata": metadata})

    classes = storage_class("old", "2025-01-01T00:00:00Z"), storage_class("new", "2026-01-01T00:00:00Z")
    made = admitted({"metadata": {"name": "c"}, "spec": {}}, *classes, plural="persistentvolumeclaims")
    assert made["spec"] == {"storageClassName": "new"}
    made = admitted({"metadata": {}, "spec": {"storageClassName": ""}}, *classes, plural="persistentvolumeclaims")
    assert made["spec"] == {"storageClassName": ""}
