# SPDX-License-Identifier: Apache-2.0
"""Builders of small objects in wire form, for scripts and for real servers."""

from collections.abc import Mapping
from typing import Any

from trainwright.controller.runtime.objects import Document


def config_map(
    name: str,
    namespace: str = "default",
    *,
    data: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    version: str = "",
    uid: str = "",
    owner: Document | None = None,
    **metadata: Any,
) -> Document:
    """A ConfigMap. `owner` becomes its controller. Without `version` and `uid` it can be created."""
    meta: Document = {"name": name, "namespace": namespace, **metadata}
    if version:
        meta |= {"resourceVersion": version, "uid": uid or f"uid-{name}"}
    elif uid:
        meta["uid"] = uid
    if labels:
        meta["labels"] = dict(labels)
    if owner is not None:
        meta["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
        ]
    document: Document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    if data is not None:
        document["data"] = dict(data)
    return document
