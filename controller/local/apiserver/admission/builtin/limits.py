# SPDX-License-Identifier: Apache-2.0
"""LimitRanger: the defaults of LimitRanges are filled in, their bounds enforced.

https://kubernetes.io/docs/concepts/policy/limit-range/
"""

from collections.abc import Iterator
from typing import Literal

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.admission.builtin.write import Context, Write
from trainwright.controller.local.apiserver.kinds.amounts import Amounts, of_containers, read
from trainwright.controller.local.apiserver.kinds.parts import entries, part

_ANNOTATION = "kubernetes.io/limit-ranger"
_CLAIMS = "persistentvolumeclaims"


def mutate(document: Document, write: Write, context: Context) -> None:
    """Give containers the default requests and limits, and note it in an annotation."""
    if not write.creates("", "pods"):
        return
    for limit_range in context.listed("", "limitranges", write.namespace):
        _apply(limit_range, document)


def validate(document: Document, write: Write, context: Context) -> None:
    """Refuse pods and claims that are beyond the bounds of a LimitRange. Pods are looked at when they are created."""
    claim = write.is_of("", _CLAIMS) and not part(write.old or {}, "metadata").get("deletionTimestamp")
    if not claim and not write.creates("", "pods"):
        return
    check = _claim_problems if claim else _pod_problems
    for limit_range in context.listed("", "limitranges", write.namespace):
        items = entries(part(limit_range, "spec"), "limits")
        found = list(dict.fromkeys(problem for item in items for problem in check(document, item)))
        if found:
            raise write.forbidden(document, found[0] if len(found) == 1 else f"[{', '.join(found)}]")


def _claim_problems(claim: Document, item: Document) -> Iterator[str]:
    kind = item.get("type")
    if kind != "PersistentVolumeClaim":
        return
    requests = ("request", read(part(part(claim, "spec"), "resources").get("requests")))
    yield from _beyond(item, "min", requests)
    yield from _beyond(item, "max", requests)


def _pod_problems(pod: Document, item: Document) -> Iterator[str]:
    for requests, limits in _needs(pod["spec"], item.get("type")):
        yield from _beyond(item, "min", ("request", requests), ("limit", limits))
        yield from _beyond(item, "max", ("limit", limits), ("request", requests))
        yield from _apart(item, requests, limits)


def _needs(spec: Document, kind: str | None) -> Iterator[tuple[Amounts, Amounts]]:
    """Requests and limits of each container, or of the pod."""
    if kind == "Container":
        for field in ("containers", "initContainers"):
            for container in entries(spec, field):
                resources = part(container, "resources")
                yield read(resources.get("requests")), read(resources.get("limits"))
    elif kind == "Pod":
        yield of_containers(spec, "requests"), of_containers(spec, "limits")


def _beyond(item: Document, field: Literal["min", "max"], *given: tuple[str, Amounts]) -> Iterator[str]:
    """What is beyond a bound. The first of what is given has to name each resource that is bounded."""
    word, required = given[0]
    for name, bound in sorted(read(item.get(field)).items()):
        text = f"{field}imum {name} usage per {item['type']} is {bound}"
        if name not in required:
            yield f"{text}.  No {word} is specified"
            continue
        for said, amounts in given:
            amount = amounts.get(name)
            if amount is not None and _is_beyond(amount.milli(), bound.milli(), field):
                yield f"{text}, but {said} is {amount}"
                break


def _is_beyond(amount: int, bound: int, field: Literal["min", "max"]) -> bool:
    return amount < bound if field == "min" else amount > bound


def _apart(item: Document, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, most in sorted(read(item.get("maxLimitRequestRatio")).items()):
        text = f"{name} max limit to request ratio per {item['type']} is {most}"
        request, limit = requests.get(name), limits.get(name)
        if not request:
            yield f"{text}, but no request is specified or request is 0"
        elif not limit:
            yield f"{text}, but no limit is specified or limit is 0"
        elif limit.milli() / request.milli() * 1000 > most.milli():
            yield f"{text}, but provided ratio is {limit.milli() / request.milli():f}"


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
