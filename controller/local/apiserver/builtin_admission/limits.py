# SPDX-License-Identifier: Apache-2.0
"""LimitRanger, as far as it fills in: the defaults of LimitRanges. Their minimum and maximum are not enforced."""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.builtin_admission.write import Context, Write
from trainwright.controller.local.apiserver.strategies.parts import entries, part

_ANNOTATION = "kubernetes.io/limit-ranger"


def mutate(document: Document, write: Write, context: Context) -> None:
    """Give containers the default requests and limits, and note it in an annotation."""
    if not write.creates("", "pods"):
        return
    for limit_range in context.listed("", "limitranges", write.namespace):
        _apply(limit_range, document)


def _apply(limit_range: Document, pod: Document) -> None:
    requests: Document = {}
    limits: Document = {}
    for item in entries(part(limit_range, "spec"), "limits"):
        if item.get("type") == "Container":
            requests.update(part(item, "defaultRequest"))
            limits.update(part(item, "default"))
    notes: list[str] = []
    for field, spoken in (("containers", "container"), ("initContainers", "init container")):
        for container in entries(pod["spec"], field):
            for name, defaults in (("requests", requests), ("limits", limits)):
                added = _fill(container, name, defaults)
                if added:
                    notes.append(f"{', '.join(sorted(added))} {name[:-1]} for {spoken} {container.get('name')}")
    if notes:
        metadata = pod.setdefault("metadata", {})
        annotations = metadata["annotations"] = dict(part(metadata, "annotations"))
        annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _fill(container: Document, field: str, defaults: Document) -> list[str]:
    resources = container["resources"] = dict(part(container, "resources"))
    given = part(resources, field)
    added = [name for name in defaults if name not in given]
    if added:
        resources[field] = {**defaults, **given}
    return added
