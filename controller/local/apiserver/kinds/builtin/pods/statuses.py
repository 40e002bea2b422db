# SPDX-License-Identifier: Apache-2.0
"""Errors of changes to the status of Pods."""

from trainwright.api.objects import Document
from trainwright.api.validation import names
from trainwright.controller.local.apiserver.kinds.builtin.amounts import restarts_always
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    finalizer_errors,
    immutable_errors,
    ip_errors,
    name_errors,
    qualified_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part
from trainwright.controller.local.apiserver.kinds.builtin.pods.updates import annotation_update_errors
from trainwright.controller.local.apiserver.schema.errors import forbidden, invalid

_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_NOT_BACK = "may not be transitioned to non-terminated state"


def pod_status_errors(pod: Document, old: Document) -> Errors:
    """Errors of a changed status."""
    status, before, spec = part(pod, "status"), part(old, "status"), part(old, "spec")
    found = finalizer_errors(pod) + annotation_update_errors(pod, old)
    for index, condition in enumerate(entries(status, "conditions")):
        where, kind = f"status.conditions[{index}]", condition.get("type") or ""
        found += _generation_errors(condition, where)
        if kind not in _SYSTEM_CONDITIONS:
            found += qualified_errors(kind, f"{where}.Type")
    nominated = status.get("nominatedNodeName") or ""
    if nominated and nominated != (before.get("nominatedNodeName") or ""):
        found += name_errors(nominated, "status.nominatedNodeName", names.dns_subdomain)
        if spec.get("nodeName"):
            text = "may not be set on pods that are already bound to a node"
            found.append(forbidden("status.nominatedNodeName", text))
    found += _generation_errors(status, "status")
    found += immutable_errors(status.get("qosClass"), before.get("qosClass"), "status.qosClass")
    found += _transition_errors(status, before, spec)
    return found + _address_errors(status, before)


def _generation_errors(document: Document, field: str) -> Errors:
    generation = document.get("observedGeneration") or 0
    if generation >= 0:
        return []
    return [invalid(f"{field}.observedGeneration", generation, "must be a non-negative integer")]


def _transition_errors(status: Document, before: Document, spec: Document) -> Errors:
    """A container that ended stays ended, unless it may restart."""
    if _restarts_all(spec):
        return []
    found: Errors = []
    known = {
        "containerStatuses": entries(spec, "containers"),
        "initContainerStatuses": entries(spec, "initContainers"),
        "ephemeralContainerStatuses": [],
    }
    for field, containers in known.items():
        declared = {container.get("name"): container for container in containers}
        running = {one.get("name") for one in entries(status, field) if part(one, "state").get("terminated") is None}
        for index, one in enumerate(entries(before, field)):
            ended = part(one, "state").get("terminated")
            if ended is None or one.get("name") not in running:
                continue
            container = declared.get(one.get("name"))
            if container is None or not _may_restart(container, spec, ended.get("exitCode") or 0, field):
                found.append(forbidden(f"status.{field}[{index}].state", _NOT_BACK))
    return found


def _restarts_all(spec: Document) -> bool:
    """Whether a rule of some container restarts all of them."""
    return any(
        rule.get("action") == "RestartAllContainers"
        for field in ("containers", "initContainers")
        for container in entries(spec, field)
        for rule in entries(container, "restartPolicyRules")
    )


def _may_restart(container: Document, spec: Document, code: int, field: str) -> bool:
    if field == "initContainerStatuses" and restarts_always(container):
        return True
    for rule in entries(container, "restartPolicyRules"):
        codes = part(rule, "exitCodes")
        if (code in (codes.get("values") or [])) == (codes.get("operator") == "In"):
            return True
    policy = container.get("restartPolicy") or spec.get("restartPolicy")
    if policy == "Always" and field == "initContainerStatuses":
        # An init container of a pod that restarts runs again if it failed.
        return True
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _address_errors(status: Document, before: Document) -> Errors:
    found: Errors = []
    addresses = [one.get("ip") or "" for one in entries(status, "podIPs")]
    found += _family_errors(status, before, "podIPs", addresses)
    host = [one.get("ip") or "" for one in entries(status, "hostIPs")]
    if host and (status.get("hostIP") or "") != host[0]:
        found.append(invalid("status.hostIPs[0].ip", host[0], "must be equal to `hostIP`"))
    return found + _family_errors(status, before, "hostIPs", host)


def _family_errors(status: Document, before: Document, field: str, addresses: list[str]) -> Errors:
    known = {one.get("ip") for one in entries(before, field)}
    found: Errors = []
    for index, address in enumerate(addresses):
        if address not in known:
            found += ip_errors(address, f"status.{field}[{index}]")
    families = [":" in address for address in addresses]
    if len(addresses) > 1 and sorted(families) != [False, True]:
        text = "may specify no more than one IP for each IP family"
        found.append(invalid(f"status.{field}", status[field], text))
    return found
