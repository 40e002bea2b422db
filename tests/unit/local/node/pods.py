# SPDX-License-Identifier: Apache-2.0
"""Documents of pods for tables."""

from typing import Any

Document = dict[str, Any]

JOBSET = {"jobset.sigs.k8s.io/jobset-name": "mnist", "jobset.sigs.k8s.io/replicatedjob-name": "node"}


def container(name: str = "main", **more: Any) -> Document:
    """A container."""
    return {"name": name, "image": "python", "command": ["python"], **more}


def pod(*main: Document, name: str = "p", labels: dict[str, str] | None = None, **spec: Any) -> Document:
    """A pod in namespace `ns` with uid `uid-<name>`."""
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels or {}}
    return {"metadata": metadata, "spec": {"containers": list(main) or [container()], **spec}}


def member(index: int, *main: Document, jobset: str = "mnist", job: str = "node") -> Document:
    """A pod of a JobSet, as its controllers make it."""
    labels = {"jobset.sigs.k8s.io/jobset-name": jobset, "jobset.sigs.k8s.io/replicatedjob-name": job}
    host = f"{jobset}-{job}-0-{index}"
    return pod(*main, name=f"{host}-abcde", labels=labels, hostname=host, subdomain=jobset)
