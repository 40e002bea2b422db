# SPDX-License-Identifier: Apache-2.0
"""What Node objects say of their machines, and which of them a pod may run on. Pure functions."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainwright.api.objects import Document, labels_of, name_of

_LOCAL = "local://"
"""Begins the container runtime of the nodes of `trainwright local`, which run pods as processes."""
_NO_NODE = ("NoSchedule", "NoExecute")


def is_local(node: Document) -> bool:
    """Whether the node is that of a local cluster, which is this machine: no device plugin runs there."""
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return str(info.get("containerRuntimeVersion")).startswith(_LOCAL)


def selects(spec: Document, node: Document) -> bool:
    """Whether the node selector and the required node affinity of a pod's spec admit the node.

    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
    """
    labels = labels_of(node)
    if any(labels.get(name) != value for name, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    # The terms are alternatives; one without any requirement matches no node.
    return required is None or any(_admits(term, node) for term in required.get("nodeSelectorTerms") or ())


def _admits(term: Document, node: Document) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    named = {"metadata.name": name_of(node)}
    return all(is_met(one, labels_of(node)) for one in expressions) and all(is_met(one, named) for one in fields)


def is_met(requirement: Mapping[str, Any], found: Mapping[str, str]) -> bool:
    """Whether labels or fields meet a requirement of a selector."""
    value = found.get(str(requirement.get("key")))
    values: Sequence[str] = requirement.get("values") or ()
    match operator := requirement.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" if value is not None and len(values) == 1 and _is_integer(value) and _is_integer(values[0]):
            return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
    return False


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def untolerated(spec: Document, node: Document) -> list[Document]:
    """The taints that keep a pod with this spec away from the node.

    https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
    """
    taints = (node.get("spec") or {}).get("taints") or ()
    return [one for one in taints if one.get("effect") in _NO_NODE and not tolerates(spec, one)]


def tolerates(spec: Document, taint: Document) -> bool:
    return any(_tolerates(toleration, taint) for toleration in spec.get("tolerations") or ())


def _tolerates(toleration: Document, taint: Document) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")
