# SPDX-License-Identifier: Apache-2.0
"""Priority: pods get the number that belongs to their class; one class at most is the default."""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.admission.builtin.write import Context, Write
from trainwright.controller.local.apiserver.kinds.parts import part

_GROUP = "scheduling.k8s.io"
_CLASSES = "priorityclasses"


def mutate(document: Document, write: Write, context: Context) -> None:
    """Set `priority` and `preemptionPolicy`. Raises StatusError if the class is not there, or says otherwise."""
    if not write.is_of("", "pods"):
        return
    spec = document["spec"]
    if write.operation == "UPDATE":
        before = part(write.old or {}, "spec")
        for field in ("priority", "preemptionPolicy"):
            if spec.get(field) is None and before.get(field) is not None:
                spec[field] = before[field]
        return
    found = _class_of(document, write, context)
    priority = found.get("value") or 0
    if found.get("metadata"):
        spec["priorityClassName"] = found["metadata"]["name"]
    if spec.get("priority") is not None and spec["priority"] != priority:
        raise write.forbidden(
            document,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission "
            f"controller computed {priority} from the given PriorityClass name",
        )
    spec["priority"] = priority
    policy = found.get("preemptionPolicy")
    if policy is None:
        return
    if spec.get("preemptionPolicy") not in (None, policy):
        raise write.forbidden(
            document,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    spec["preemptionPolicy"] = policy


def _class_of(pod: Document, write: Write, context: Context) -> Document:
    name = pod["spec"].get("priorityClassName")
    if not name:
        return _default(context) or {"value": 0, "preemptionPolicy": "PreemptLowerPriority"}
    found = context.get(_GROUP, _CLASSES, "", name)
    if found is None:
        raise write.forbidden(pod, f"no PriorityClass with name {name} was found")
    return found


def _default(context: Context) -> Document | None:
    """The default class; that of the lowest priority if several say so."""
    candidates = [one for one in context.listed(_GROUP, _CLASSES, "") if one.get("globalDefault")]
    return min(candidates, key=lambda one: one.get("value") or 0, default=None)


def validate(document: Document, write: Write, context: Context) -> None:
    """Make sure that a class is the only default. Raises StatusError."""
    if not write.is_of(_GROUP, _CLASSES) or write.operation == "DELETE" or not document.get("globalDefault"):
        return
    default = _default(context)
    if default is None:
        return
    name = default["metadata"]["name"]
    if write.operation == "CREATE" or name != document["metadata"].get("name"):
        raise write.forbidden(
            document, f"PriorityClass {name} is already marked as default. Only one default can exist"
        )
