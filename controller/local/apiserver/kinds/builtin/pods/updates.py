# SPDX-License-Identifier: Apache-2.0
"""Errors of changes to Pods: hardly anything of a specification may change."""

import copy

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    MAX_INT32,
    Errors,
    between,
    finalizer_errors,
    same,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part
from trainwright.controller.local.apiserver.kinds.builtin.pods.placement import REQUIRED, toleration_errors
from trainwright.controller.local.apiserver.kinds.builtin.pods.specification import (
    MIRROR,
    annotation_errors,
    pod_errors,
)
from trainwright.controller.local.apiserver.schema.errors import forbidden, invalid, required

_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_CHANGEABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_update_errors(pod: Document, old: Document) -> Errors:
    """Errors of a changed Pod."""
    found = finalizer_errors(pod) + pod_errors(pod) + annotation_update_errors(pod, old)
    spec, before = part(pod, "spec"), part(old, "spec")
    for name in ("containers", "initContainers"):
        if len(entries(spec, name)) != len(entries(before, name)):
            return [*found, forbidden(f"spec.{name}", "pod updates may not add or remove containers")]
        found += _image_errors(entries(spec, name), f"spec.{name}")
    deadline, deadline_before = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    where = "spec.activeDeadlineSeconds"
    if deadline is not None:
        if not 0 <= deadline <= MAX_INT32:
            return [*found, invalid(where, deadline, between(0, MAX_INT32))]
        if deadline_before is not None and deadline_before < deadline:
            return [*found, invalid(where, deadline, "must be less than or equal to previous value")]
    elif deadline_before is not None:
        found.append(invalid(where, None, "must not update from a positive integer to nil value"))
    found += _toleration_update_errors(spec, before)
    found += _gate_update_errors(spec, before)
    return found + _other_errors(spec, before)


def _image_errors(containers: list[Document], field: str) -> Errors:
    found: Errors = []
    for index, container in enumerate(containers):
        where, image = f"{field}[{index}].image", container.get("image") or ""
        if not image:
            found.append(required(where))
        if image != image.strip():
            found.append(invalid(where, image, "must not have leading or trailing whitespace"))
    return found


def annotation_update_errors(pod: Document, old: Document) -> Errors:
    """Some annotations may be neither added nor changed."""
    now, before = (part(part(one, "metadata"), "annotations") for one in (pod, old))
    found: Errors = []
    for key in before:
        if now.get(key) != before[key]:
            where = f"metadata.annotations[{key}]"
            if key.startswith(_APP_ARMOR):
                found.append(forbidden(where, "may not remove or update AppArmor annotations"))
            if key == MIRROR:
                found.append(forbidden(where, "may not remove or update mirror pod annotation"))
    for key in now:
        if key not in before:
            where = f"metadata.annotations[{key}]"
            if key.startswith(_APP_ARMOR):
                found.append(forbidden(where, "may not add AppArmor annotations"))
            if key == MIRROR:
                found.append(forbidden(where, "may not add mirror pod annotation"))
    return found + annotation_errors(now, part(pod, "spec"), "metadata.annotations")


def _toleration_update_errors(spec: Document, before: Document) -> Errors:
    now = entries(spec, "tolerations")
    field = "spec.tolerations"
    known = [_without_seconds(toleration) for toleration in now]
    if any(_without_seconds(toleration) not in known for toleration in entries(before, "tolerations")):
        return [forbidden(field, "existing toleration can not be modified except its tolerationSeconds")]
    return toleration_errors(now, field)


def _without_seconds(toleration: Document) -> Document:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds" and value}


def _gate_update_errors(spec: Document, before: Document) -> Errors:
    known = {gate.get("name") for gate in entries(before, "schedulingGates")}
    return [
        forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for index, gate in enumerate(entries(spec, "schedulingGates"))
        if gate.get("name") not in known
    ]


def _other_errors(spec: Document, before: Document) -> Errors:
    """What differs once the fields that may change are set to what they were."""
    if same(spec, before):
        return []
    compared = copy.deepcopy(spec)
    for name in ("containers", "initContainers"):
        for container, old in zip(entries(compared, name), entries(before, name), strict=True):
            container["image"] = old.get("image")
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _put_back(compared, before, name)
    grace = before.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and compared.get("terminationGracePeriodSeconds") == 1:
        compared["terminationGracePeriodSeconds"] = grace
    found = _gated_errors(compared, before) if entries(before, "schedulingGates") else []
    if not same(compared, before):
        text = f"pod updates may not change fields other than {_CHANGEABLE}"
        found.append(forbidden("spec", text))
    return found


def _put_back(document: Document, old: Document, field: str) -> None:
    if old.get(field) is None:
        document.pop(field, None)
    else:
        document[field] = old[field]


def _gated_errors(compared: Document, before: Document) -> Errors:
    """While gates hold a pod, node selectors and required node affinity may be narrowed (KEP-3838)."""
    found: Errors = []
    chosen, chosen_before = part(compared, "nodeSelector"), part(before, "nodeSelector")
    if any(chosen.get(key) != value for key, value in chosen_before.items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        found.append(invalid("spec.nodeSelector", chosen, text))
    _put_back(compared, before, "nodeSelector")
    affinity, affinity_before = (part(part(one, "affinity"), "nodeAffinity") for one in (compared, before))
    if not same(affinity, affinity_before):
        found += _affinity_update_errors(affinity, affinity_before)
        rest = {key: value for key, value in part(compared, "affinity").items() if key != "nodeAffinity"}
        kept = {**rest, "nodeAffinity": affinity_before} if affinity_before else rest
        if kept:
            compared["affinity"] = kept
        else:
            compared.pop("affinity", None)
    return found


def _affinity_update_errors(affinity: Document, before: Document) -> Errors:
    terms, terms_before = (entries(part(one, REQUIRED), "nodeSelectorTerms") for one in (affinity, before))
    field = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    if not terms_before:
        return []
    if len(terms) != len(terms_before):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(field, terms or None, text)]
    text = "only additions are allowed (no mutations or deletions)"
    return [
        invalid(f"{field}[{index}]", term, text)
        for index, (term, old) in enumerate(zip(terms, terms_before, strict=True))
        if not _only_added(term, old)
    ]


def _only_added(term: Document, old: Document) -> bool:
    names = ("matchExpressions", "matchFields")
    if not any(entries(old, name) for name in names):
        # An empty term matches nothing, so anything added would widen it.
        return not any(entries(term, name) for name in names)
    return all(
        same(entries(term, name)[: len(entries(old, name))], entries(old, name)) for name in names if entries(old, name)
    )
