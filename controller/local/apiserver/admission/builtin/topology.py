# SPDX-License-Identifier: Apache-2.0
"""PodTopologyLabels: a pod has the zone and the region of its node as labels, so that its containers can learn them."""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.admission.builtin.write import Context, Write
from trainwright.controller.local.apiserver.kinds.parts import part

_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def mutate(document: Document, write: Write, context: Context) -> None:
    """Copy the labels to a new pod that has a node, or to the binding, which brings them to the pod."""
    node = context.get("", "nodes", "", name) if (name := _node_name(document, write)) else None
    labels = part(part(node or {}, "metadata"), "labels")
    copied = {label: labels[label] for label in _LABELS if label in labels}
    if copied:
        metadata = document.setdefault("metadata", {})
        metadata["labels"] = {**part(metadata, "labels"), **copied}


def _node_name(document: Document, write: Write) -> str:
    if write.creates("", "pods"):
        return part(document, "spec").get("nodeName") or ""
    target = part(document, "target")
    binds = (write.operation, write.group, write.plural, write.subresource) == ("CREATE", "", "pods", "binding")
    return target.get("name") or "" if binds and target.get("kind") == "Node" else ""
