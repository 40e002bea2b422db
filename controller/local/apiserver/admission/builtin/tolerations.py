# SPDX-License-Identifier: Apache-2.0
"""DefaultTolerationSeconds: a pod stays five minutes on a node that is not ready or cannot be reached."""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.admission.builtin.write import Context, Write
from trainwright.controller.local.apiserver.kinds.parts import entries

_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS = 300


def mutate(document: Document, write: Write, context: Context) -> None:  # noqa: ARG001
    """Add tolerations for both taints, where a pod says nothing of them."""
    if not write.is_of("", "pods") or write.operation == "DELETE":
        return
    given = entries(document["spec"], "tolerations")
    added = [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
        for taint in _TAINTS
        if not any(_covers(toleration, taint) for toleration in given)
    ]
    if added:
        document["spec"]["tolerations"] = [*given, *added]


def _covers(toleration: Document, taint: str) -> bool:
    return (toleration.get("key") or taint) == taint and (toleration.get("effect") or "NoExecute") == "NoExecute"
