# SPDX-License-Identifier: Apache-2.0
"""What every cluster has from its beginning."""

from pathlib import Path

import msgspec

from trainwright.api.objects import Document
from trainwright.api.times import Now, wall_clock
from trainwright.controller.local.apiserver import authorization, errors
from trainwright.controller.local.apiserver.identity.tokens import ADMINISTRATOR
from trainwright.controller.local.apiserver.kinds.registry import ResourceRegistry
from trainwright.controller.local.apiserver.request.info import RequestInfo, ServerRequest, WriteQuery
from trainwright.controller.local.apiserver.verbs.writes import ResourceWrites

_MANAGER = "kube-apiserver"
_PRESETS = Path(__file__).parent / "presets.json"
_ROLES = Path(authorization.__file__).parent / "bootstrap_roles.json"
"""Made by `hack/published_schemas.py`."""
_CLASSES, _RBAC = "storage.k8s.io/v1/storageclasses", "rbac.authorization.k8s.io/v1"


def _presets(authority: bytes, *, volumes: bool, rbac: bool) -> dict[str, list[Document]]:
    """Objects by version and plural."""
    found: dict[str, list[Document]] = msgspec.json.decode(_PRESETS.read_bytes())
    # Programs that serve HTTPS themselves, such as kube-scheduler, ask here whose client certificates to believe.
    place = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
    found["v1/configmaps"] = [{"metadata": place, "data": {"client-ca-file": authority.decode()}}]
    if not volumes:
        del found[_CLASSES]
    if rbac:
        found |= {f"{_RBAC}/{plural}": roles for plural, roles in msgspec.json.decode(_ROLES.read_bytes()).items()}
    return found


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

    `volumes`: also the default storage class. `rbac`: also the roles without which only administrators could do
    anything. `authority` is the PEM of the cluster's authority.
    """
    options = WriteQuery(manager=_MANAGER, dry_run=False, validation="Ignore")
    presets = _presets(authority, volumes=volumes, rbac=rbac).items()
    for kind, body in [(kind, body) for kind, documents in presets for body in documents]:
        *group, version, plural = kind.split("/")
        served = registry.find("".join(group), version, plural)
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
