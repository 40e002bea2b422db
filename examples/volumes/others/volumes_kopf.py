# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
# pyright: reportMissingImports=false
"""The volumes as kopf's tutorial makes them: one handler each for creation, size and labels. Written anew."""

import kopf
import kubernetes

KIND = "ephemeralvolumeclaims"


@kopf.on.startup()
def load(**_):
    """As `kubectl` finds the cluster."""
    kubernetes.config.load_config()


def size_of(spec):
    """A claim without a size is never handled again, unless it changes."""
    if not spec.get("size"):
        raise kopf.PermanentError("spec.size is not set")
    return {"requests": {"storage": spec["size"]}}


def change(status, namespace, patch):
    """Change the claim whose name the first handler has left in the status."""
    name = status["create"]["claim"]
    kubernetes.client.CoreV1Api().patch_namespaced_persistent_volume_claim(name, namespace, patch)


@kopf.on.create(KIND)
def create(spec, name, namespace, labels, **_):
    """Make the claim, and remember its name."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"storageClassName": "standard", "accessModes": ["ReadWriteOnce"], "resources": size_of(spec)},
    }
    kopf.adopt(claim)
    made = kubernetes.client.CoreV1Api().create_namespaced_persistent_volume_claim(namespace, claim)
    return {"claim": made.metadata.name}


@kopf.on.update(KIND, field="spec.size")
def resize(spec, status, namespace, **_):
    """Pass the size on."""
    change(status, namespace, {"spec": {"resources": size_of(spec)}})


@kopf.on.field(KIND, field="metadata.labels")
def relabel(diff, status, namespace, **_):
    """Pass labels on; None removes one that is gone."""
    change(status, namespace, {"metadata": {"labels": {field[0]: new for _, field, _, new in diff}}})
