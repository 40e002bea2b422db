# SPDX-License-Identifier: Apache-2.0
"""What every cluster has from its beginning."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from trainwright.api.objects import Document
from trainwright.api.times import Now, wall_clock
from trainwright.controller.local.apiserver import authorization, errors
from trainwright.controller.local.apiserver.identity.tokens import ADMINISTRATOR
from trainwright.controller.local.apiserver.kinds.registry import ResourceRegistry
from trainwright.controller.local.apiserver.request.info import RequestInfo, ServerRequest, WriteQuery
from trainwright.controller.local.apiserver.verbs.writes import ResourceWrites

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_MANAGER = "kube-apiserver"
_ROLES = Path(authorization.__file__).parent / "bootstrap_roles.json"
"""Made by `hack/published_schemas.py`."""


def _roles() -> Iterable[tuple[str, str, str, Document]]:
    for plural, documents in msgspec.json.decode(_ROLES.read_bytes()).items():
        for document in documents:
            yield "rbac.authorization.k8s.io", "v1", plural, document


_PRIORITIES = (
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster; they can be moved to another node.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
)


def _presets(authority: bytes, *, volumes: bool) -> Iterable[tuple[str, str, str, Document]]:
    for name in NAMESPACES:
        yield "", "v1", "namespaces", {"metadata": {"name": name}}
    # Programs that serve HTTPS themselves, such as kube-scheduler, ask here whose client certificates to believe.
    place = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
    yield "", "v1", "configmaps", {"metadata": place, "data": {"client-ca-file": authority.decode()}}
    for name, value, text in _PRIORITIES:
        document: Document = {"metadata": {"name": name}, "value": value, "description": text}
        yield "scheduling.k8s.io", "v1", "priorityclasses", document
    if volumes:
        default = {"storageclass.kubernetes.io/is-default-class": "true"}
        document = {
            "metadata": {"name": "local", "annotations": default},
            "provisioner": "trainwright.local/folder",
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
        }
        yield "storage.k8s.io", "v1", "storageclasses", document


async def add_presets(
    writes: ResourceWrites,
    registry: ResourceRegistry,
    *,
    authority: bytes,
    volumes: bool,
    rbac: bool = False,
    now: Now = wall_clock,
) -> None:
    """Create what is not there yet.

    Args:
        writes: to the store.
        registry: of what is served.
        authority: PEM of the authority of the cluster.
        volumes: also the default storage class: a controller makes its volumes.
        rbac: also the roles without which nobody but administrators could do anything.
        now: the time of day.
    """
    options = WriteQuery(manager=_MANAGER, dry_run=False, validation="Ignore")
    for group, version, plural, body in (*_presets(authority, volumes=volumes), *(_roles() if rbac else ())):
        served = registry.find(group, version, plural)
        if served is None:
            continue
        document = {"apiVersion": served.api_version, "kind": served.kind, **body}
        served.strategy.default(document)
        call = RequestInfo(
            request=ServerRequest(method="POST", path="/"),
            user=ADMINISTRATOR,
            resource=served,
            namespace=body["metadata"].get("namespace", ""),
            name="",
            subresource="",
            now=now(),
        )
        try:
            await writes.create(call, document, options)
        except errors.StatusError as error:
            if error.reason != "AlreadyExists":
                raise
