# SPDX-License-Identifier: Apache-2.0
"""The kinds that the controllers read and write, and pure reads of their documents.

Kinds are Resources, not models: objects are carried as documents, so that a field that no model knows survives from a
JobSet to its Jobs and to their pods.

Sources: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ and, for the time at which a pod finished
and the order of removal, the Job controller of Kubernetes 1.36.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from trainwright.api.base import Resource
from trainwright.api.conditions import find, is_true
from trainwright.api.objects import Document, conditions_of, created_of, deletion_timestamp_of, spec_of, status_of
from trainwright.api.times import parse

POD = Resource(group="", version="v1", kind="Pod", plural="pods", namespaced=True)
SERVICE = Resource(group="", version="v1", kind="Service", plural="services", namespaced=True)
NODE = Resource(group="", version="v1", kind="Node", plural="nodes", namespaced=False)
JOB = Resource(group="batch", version="v1", kind="Job", plural="jobs", namespaced=True)
JOBSET = Resource(group="jobset.x-k8s.io", version="v1alpha2", kind="JobSet", plural="jobsets", namespaced=True)
CLAIM = Resource(group="", version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims", namespaced=True)
NAMESPACE = Resource(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
CONFIG_MAP = Resource(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)
ACCOUNT = Resource(group="", version="v1", kind="ServiceAccount", plural="serviceaccounts", namespaced=True)
VOLUME = Resource(group="", version="v1", kind="PersistentVolume", plural="persistentvolumes", namespaced=False)
CLUSTER_ROLE = Resource(
    group="rbac.authorization.k8s.io", version="v1", kind="ClusterRole", plural="clusterroles", namespaced=False
)


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Document:
    """The JSON merge patch (RFC 7386) that turns `before` into `after`; empty if they are equal.

    Lists are replaced as a whole, and a field that `after` lacks becomes null.
    """
    patch: Document = {name: None for name in before if name not in after}
    for name, value in after.items():
        current = before.get(name)
        if name in before and current == value:
            continue
        if isinstance(value, Mapping) and isinstance(current, Mapping):
            patch[name] = merge_patch(current, value)
        else:
            patch[name] = value
    return patch


_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_NEVER = datetime(1, 1, 1, tzinfo=UTC)


def phase_of(pod: Document) -> str:
    return str(status_of(pod).get("phase") or "")


def is_terminal(pod: Document) -> bool:
    """Whether all containers have ended for good."""
    return phase_of(pod) in ("Succeeded", "Failed")


def is_active(pod: Document) -> bool:
    """Whether the pod runs or will run: neither ended nor being deleted."""
    return not is_terminal(pod) and deletion_timestamp_of(pod) is None


def is_terminating(pod: Document) -> bool:
    return not is_terminal(pod) and deletion_timestamp_of(pod) is not None


def is_ready(pod: Document) -> bool:
    return is_true(conditions_of(pod), "Ready")


def node_of(pod: Document) -> str:
    return str(spec_of(pod).get("nodeName") or "")


def restarts_of(pod: Document) -> int:
    status = status_of(pod)
    return sum(
        int(container.get("restartCount") or 0)
        for part in ("initContainerStatuses", "containerStatuses")
        for container in status.get(part) or ()
    )


def finished_at(pod: Document) -> datetime:
    """When the pod finished.

    The first that is known: the end of the last container, the time since which the pod is not ready, the request to
    delete it, its creation.
    """
    ended = _containers_ended(pod)
    if ended is not None:
        return ended
    ready = find(conditions_of(pod), "Ready")
    if ready is not None and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return parse(ready["lastTransitionTime"])
    deleted = deletion_timestamp_of(pod)
    if deleted is not None:
        grace = (pod.get("metadata") or {}).get("deletionGracePeriodSeconds") or 0
        return parse(deleted) - timedelta(seconds=grace)
    return _time(created_of(pod))


def _containers_ended(pod: Document) -> datetime | None:
    status = status_of(pod)
    sidecars = {
        container.get("name")
        for container in spec_of(pod).get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    containers = [
        *(status.get("containerStatuses") or ()),
        *(c for c in status.get("initContainerStatuses") or () if c.get("name") in sidecars),
    ]
    times = [((c.get("state") or {}).get("terminated") or {}).get("finishedAt") for c in containers]
    if not times or not all(times):
        return None
    return max(parse(str(time)) for time in times)


def in_order_of_removal(pods: Iterable[Document]) -> list[Document]:
    """Active pods, the ones to remove first at the front: those that have got least far."""
    return sorted(pods, key=_removal_key)


def _removal_key(pod: Document) -> tuple[bool, int, bool, float, int, float]:
    ready = find(conditions_of(pod), "Ready")
    ready_since = _time(ready.get("lastTransitionTime") or "") if ready is not None and is_ready(pod) else _NEVER
    return (
        bool(node_of(pod)),
        _PHASES.get(phase_of(pod), 0),
        is_ready(pod),
        -_seconds(ready_since),
        -max((int(c.get("restartCount") or 0) for c in status_of(pod).get("containerStatuses") or ()), default=0),
        -_seconds(_time(created_of(pod))),
    )


def _time(text: str) -> datetime:
    return parse(text) if text else _NEVER


def _seconds(moment: datetime) -> float:
    """Seconds since year 1; a missing time sorts as the newest, as in Kubernetes."""
    return (moment - _NEVER).total_seconds() or float("inf")
