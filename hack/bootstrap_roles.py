# SPDX-License-Identifier: Apache-2.0
"""Writes the roles and bindings that kube-apiserver creates at its start and that people use.

    python hack/bootstrap_roles.py

They are read from the test kit's kube-apiserver. Those of Kubernetes' own components are left out: here they are the
administrator.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from trainwright.controller.runtime.testing import ControlPlane

TARGET = Path(__file__).parents[1] / "controller" / "local" / "apiserver" / "authorization" / "bootstrap_roles.json"
WANTED = (
    "admin",
    "cluster-admin",
    "edit",
    "system:aggregate-to-admin",
    "system:aggregate-to-edit",
    "system:aggregate-to-view",
    "system:auth-delegator",
    "system:basic-user",
    "system:discovery",
    "system:monitoring",
    "system:public-info-viewer",
    "system:service-account-issuer-discovery",
    "view",
)
_PARTS = ("aggregationRule", "roleRef", "rules", "subjects")


def roles(control_plane: ControlPlane) -> dict[str, list[dict[str, Any]]]:
    return {
        plural: [
            _reduced(one)
            for one in control_plane.stored.list(f"{plural}.rbac.authorization.k8s.io")
            if one["metadata"]["name"] in WANTED
        ]
        for plural in ("clusterroles", "clusterrolebindings")
    }


def text(control_plane: ControlPlane) -> str:
    return json.dumps(roles(control_plane), indent=1, sort_keys=True) + "\n"


def _reduced(document: dict[str, Any]) -> dict[str, Any]:
    about = {part: document["metadata"][part] for part in ("annotations", "labels", "name")}
    return {"metadata": about, **{part: document[part] for part in _PARTS if document.get(part)}}


if __name__ == "__main__":
    with ControlPlane() as running:
        TARGET.write_text(text(running))
