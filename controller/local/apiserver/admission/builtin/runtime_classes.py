# SPDX-License-Identifier: Apache-2.0
"""RuntimeClass: pods get the overhead and the node selection of their runtime class."""

from trainwright.api.objects import Document
from trainwright.api.quantity import canonical
from trainwright.controller.local.apiserver.admission.builtin.write import Context, Write
from trainwright.controller.local.apiserver.kinds.parts import entries, part

_MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


def mutate(document: Document, write: Write, context: Context) -> None:
    """Set overhead, node selector and tolerations. Raises StatusError if the class is not there or contradicts."""
    if not write.creates("", "pods"):
        return
    found = _class_of(document, write, context)
    if found is None:
        return
    spec = document["spec"]
    if found.get("overhead") is not None:
        fixed = part(found["overhead"], "podFixed")
        if spec.get("overhead") and _canonical(spec["overhead"]) != _canonical(fixed):
            raise write.forbidden(document, _MISMATCH)
        if fixed:
            spec["overhead"] = dict(fixed)
    scheduling = found.get("scheduling")
    if scheduling is None:
        return
    selector = part(spec, "nodeSelector")
    for key, value in part(scheduling, "nodeSelector").items():
        if selector.get(key, value) != value:
            raise write.forbidden(
                document,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}",
            )
    if scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**selector, **scheduling["nodeSelector"]}
    given = entries(spec, "tolerations")
    added = [toleration for toleration in entries(scheduling, "tolerations") if toleration not in given]
    if added:
        spec["tolerations"] = [*given, *added]


def validate(document: Document, write: Write, context: Context) -> None:
    """Make sure that the overhead is that of the class. Raises StatusError."""
    if not write.creates("", "pods"):
        return
    found = _class_of(document, write, context)
    overhead = part(document["spec"], "overhead")
    if found is not None and found.get("overhead") is not None:
        if _canonical(part(found["overhead"], "podFixed")) != _canonical(overhead):
            raise write.forbidden(document, _MISMATCH)
    elif overhead:
        text = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise write.forbidden(document, text)


def _class_of(pod: Document, write: Write, context: Context) -> Document | None:
    name = pod["spec"].get("runtimeClassName")
    if name is None:
        return None
    found = context.get("node.k8s.io", "runtimeclasses", "", name)
    if found is None:
        raise write.forbidden(pod, f'pod rejected: RuntimeClass "{name}" not found')
    return found


def _canonical(amounts: Document) -> Document:
    return {name: canonical(wire) for name, wire in amounts.items()}
