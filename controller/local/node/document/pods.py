# SPDX-License-Identifier: Apache-2.0
"""Reading pods, which are documents here. Nothing changes an object."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from trainwright.api import times
from trainwright.api.objects import Document, annotations_of, deletion_timestamp_of, name_of, namespace_of, uid_of

GRACE_SECONDS = 30
"""The API server's default of terminationGracePeriodSeconds."""
TERMINAL = frozenset({"Succeeded", "Failed"})
RESTARTS = "local.trainwright.dev/restarts"
"""Annotation of pods: with `none`, the local node starts no container again, whatever the pod says."""


_REFERENCES = frozenset({"configMap", "secret", "configMapRef", "secretRef", "configMapKeyRef", "secretKeyRef"})


class Containers(NamedTuple):
    """The containers of a pod by role, in the order of the document."""

    init: list[Document]
    """All init containers, sidecars among them."""
    main: list[Document]


def spec_of(pod: Document) -> Document:
    """`spec`, never None."""
    spec: Document = pod.get("spec") or {}
    return spec


def status_of(pod: Document) -> Document:
    """`status`, never None."""
    status: Document = pod.get("status") or {}
    return status


def phase_of(pod: Document) -> str:
    """`status.phase`; Pending if there is none."""
    return str(status_of(pod).get("phase") or "Pending")


def is_finished(pod: Document) -> bool:
    """Whether the phase is Succeeded or Failed, which a pod never leaves."""
    return phase_of(pod) in TERMINAL


def containers_of(pod: Document) -> Containers:
    """The containers by role."""
    spec = spec_of(pod)
    return Containers(spec.get("initContainers") or [], spec.get("containers") or [])


def all_containers(pod: Document) -> Iterator[Document]:
    """Init containers, then the others."""
    init, main = containers_of(pod)
    yield from init
    yield from main


def is_sidecar(container: Document) -> bool:
    """Whether an init container runs beside the others (`restartPolicy: Always`)."""
    return container.get("restartPolicy") == "Always"


def describe(pod: Document) -> str:
    """A pod in messages, as the kubelet writes it: `name_namespace(uid)`."""
    return f"{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"


def shown_hostname_of(pod: Document) -> str:
    """What `hostname` prints inside the pod: with `setHostnameAsFQDN`, the whole name in the cluster."""
    host, spec = hostname_of(pod), spec_of(pod)
    if not (spec.get("setHostnameAsFQDN") and spec.get("subdomain")):
        return host
    return f"{host}.{spec['subdomain']}.{namespace_of(pod)}.svc.cluster.local"


def hostname_of(pod: Document) -> str:
    """The host name inside the pod: `spec.hostname`, else the name, at most 63 characters."""
    return str(spec_of(pod).get("hostname") or name_of(pod)[:63].rstrip("-."))


def grace_of(pod: Document) -> float:
    """Seconds between SIGTERM and SIGKILL: of the deletion if there is one, else of the spec."""
    grace = (pod.get("metadata") or {}).get("deletionGracePeriodSeconds")
    if grace is None:
        grace = spec_of(pod).get("terminationGracePeriodSeconds", GRACE_SECONDS)
    return float(grace)


def is_deleted(pod: Document) -> bool:
    """Whether the pod has a deletion timestamp."""
    return deletion_timestamp_of(pod) is not None


def deadline_of(pod: Document) -> float | None:
    """`spec.activeDeadlineSeconds`, counted from the start time."""
    seconds = spec_of(pod).get("activeDeadlineSeconds")
    return None if seconds is None else float(seconds)


def start_time_of(pod: Document) -> datetime | None:
    """`status.startTime`; None until the node has seen the pod."""
    text = status_of(pod).get("startTime")
    return times.parse(text) if text else None


def should_restart(pod: Document, container: Document, code: int) -> bool:
    """Whether a container that ended with this code is started again.

    `restartPolicyRules` of the container come first (the first match decides), then its own `restartPolicy`, then that
    of the pod.
    """
    if annotations_of(pod).get(RESTARTS) == "none" and not (is_sidecar(container) and is_init(pod, container)):
        return False
    for rule in container.get("restartPolicyRules") or ():
        if _matches(rule.get("exitCodes") or {}, code):
            return rule.get("action") in {"Restart", "RestartAllContainers"}
    policy = container.get("restartPolicy") or spec_of(pod).get("restartPolicy") or "Always"
    if is_init(pod, container) and not is_sidecar(container):
        # An init container that succeeded is done, whatever the policy says.
        return code != 0 and policy != "Never"
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def is_init(pod: Document, container: Document) -> bool:
    """Whether the container is one of the init containers."""
    return any(one["name"] == container["name"] for one in containers_of(pod).init)


def references_of(pod: Document) -> frozenset[str]:
    """Names of the ConfigMaps and Secrets that a pod's volumes and variables refer to."""
    return frozenset(_references(spec_of(pod)))


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for item in part:
            yield from _references(item)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key in _REFERENCES and isinstance(value, dict):
                yield str(value.get("secretName") or value.get("name") or "")
            else:
                yield from _references(value)


def _matches(condition: Mapping[str, Any], code: int) -> bool:
    values = condition.get("values") or ()
    return code in values if condition.get("operator") == "In" else code not in values
