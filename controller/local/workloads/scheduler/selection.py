# SPDX-License-Identifier: Apache-2.0
"""Whether a pod may be on a node: node selector, affinity, taints.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/ and taint-and-toleration.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from trainwright.api.nodes import is_required_value
from trainwright.api.objects import Document, labels_of, name_of
from trainwright.controller.local.workloads.documents import spec_of

_NO_NODE = ("NoSchedule", "NoExecute")
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"


def labels_match(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector in wire form matches; an empty one matches everything."""
    if any(labels.get(name) != value for name, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def node_matches(pod: Document, node: Document) -> bool:
    """Whether `nodeSelector` and the required node affinity admit the node."""
    labels, spec = labels_of(node), spec_of(pod)
    if any(labels.get(name) != value for name, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    # The terms are alternatives; one without any requirement matches no node.
    return any(_term_matches(term, node) for term in required.get("nodeSelectorTerms") or ())


def _term_matches(term: Document, node: Document) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    named = {"metadata.name": name_of(node)}
    return all(_holds(e, labels_of(node)) for e in expressions) and all(_holds(f, named) for f in fields)


def _holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(str(requirement.get("key")))
    return is_required_value(value, requirement.get("operator"), requirement.get("values") or ())


def tolerates(pod: Document, taint: Document) -> bool:
    """Whether the pod tolerates one taint."""
    return any(_tolerates(toleration, taint) for toleration in spec_of(pod).get("tolerations") or ())


def untolerated(pod: Document, node: Document) -> bool:
    """Whether a taint keeps the pod away from the node."""
    taints: Iterable[Document] = spec_of(node).get("taints") or ()
    return any(taint.get("effect") in _NO_NODE and not tolerates(pod, taint) for taint in taints)


def _tolerates(toleration: Document, taint: Document) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")
