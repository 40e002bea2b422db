# SPDX-License-Identifier: Apache-2.0
"""Fields of a pod as text, for `fieldRef` and `resourceFieldRef` of variables and volumes (the downward API)."""

import json
import re
from collections.abc import Mapping

from trainwright.api.objects import Document, annotations_of, labels_of, name_of, namespace_of, uid_of
from trainwright.api.quantity import Quantity
from trainwright.controller.local.node.document.pods import all_containers, spec_of

HOST_IP = "127.0.0.1"
"""The address of the node and of all its pods."""

_KEYED = re.compile(r"metadata\.(annotations|labels)\['([^']+)'\]")


class FieldReferenceError(ValueError):
    """The field does not exist or cannot be referred to."""


def field_value(pod: Document, path: str) -> str:
    """The value of a `fieldRef`. Raises FieldError for a path that Kubernetes does not know."""
    if keyed := _KEYED.fullmatch(path):
        values = annotations_of(pod) if keyed[1] == "annotations" else labels_of(pod)
        return str(values.get(keyed[2], ""))
    spec = spec_of(pod)
    plain = {
        "metadata.name": name_of(pod),
        "metadata.namespace": namespace_of(pod),
        "metadata.uid": uid_of(pod),
        "spec.nodeName": str(spec.get("nodeName") or ""),
        "spec.serviceAccountName": str(spec.get("serviceAccountName") or ""),
        "status.hostIP": HOST_IP,
        "status.hostIPs": HOST_IP,
        "status.podIP": HOST_IP,
        "status.podIPs": HOST_IP,
    }
    if path in plain:
        return plain[path]
    if path in {"metadata.labels", "metadata.annotations"}:
        values = labels_of(pod) if path.endswith("labels") else annotations_of(pod)
        # As Go's %q, which JSON equals for what labels hold.
        return "".join(f"{key}={json.dumps(values[key], ensure_ascii=False)}\n" for key in sorted(values)).rstrip("\n")
    raise FieldReferenceError(f"unsupported fieldPath: {path}")


def resource_value(
    pod: Document, reference: Document, container: Document | None, allocatable: Mapping[str, str]
) -> str:
    """The value of a `resourceFieldRef`, in units of its divisor, rounded up.

    A limit that is not set is what the node has to give (`allocatable`); a request that is not set is 0. Raises
    FieldError for an unknown container or resource.
    """
    name = reference.get("containerName")
    if name:
        container = next((one for one in all_containers(pod) if one["name"] == name), None)
    if container is None:
        raise FieldReferenceError(f"container {name} not found")
    side, _, resource = str(reference.get("resource", "")).partition(".")
    if side not in {"limits", "requests"} or not resource:
        raise FieldReferenceError(f"unsupported container resource : {reference.get('resource')}")
    amount = ((container.get("resources") or {}).get(side) or {}).get(resource)
    if amount is None:
        amount = allocatable.get(resource, "0") if side == "limits" else "0"
    divisor = Quantity.parse(reference.get("divisor") or "0") or Quantity.parse("1")
    return str(-(-Quantity.parse(amount).nanos // divisor.nanos))
