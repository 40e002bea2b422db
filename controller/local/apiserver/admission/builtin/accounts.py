# SPDX-License-Identifier: Apache-2.0
"""ServiceAccount: each pod runs as an account of its namespace and finds its token in a volume."""

import copy

from trainwright.api.objects import Document, generated_name
from trainwright.controller.local.apiserver.admission.builtin.write import Context, Write
from trainwright.controller.local.apiserver.kinds.parts import entries, part
from trainwright.controller.local.apiserver.kinds.podspecs import set_account

_DEFAULT = "default"
"""The account of pods that name none. A controller makes it in each namespace."""
_MIRROR = "kubernetes.io/config.mirror"
_VOLUME_PREFIX = "kube-api-access-"
_MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 60 * 60 + 7
"""An hour, and a little more by which the API server recognises its own tokens."""
_SOURCES = (
    {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
    {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
    {
        "downwardAPI": {
            "items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}]
        }
    },
)


def is_awaited(document: Document, write: Write, context: Context) -> bool:
    """Whether a new pod needs the account that each namespace gets, and that is not there yet."""
    if not write.creates("", "pods") or _is_mirror(document) or _name(document) != _DEFAULT:
        return False
    return context.get("", "serviceaccounts", write.namespace, _DEFAULT) is None


def mutate(document: Document, write: Write, context: Context) -> None:
    """Set the account, mount its token and take over its pull secrets."""
    if not write.creates("", "pods"):
        return
    if not _is_mirror(document):
        spec = document["spec"]
        set_account(spec, _name(document))
        account = _account(document, write, context)
        if _mounts(spec, account):
            _mount(spec)
        secrets = [{"name": secret.get("name")} for secret in entries(account, "imagePullSecrets")]
        if secrets and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = secrets
    validate(document, write, context)


def validate(document: Document, write: Write, context: Context) -> None:
    """Make sure that the account is there. Raises StatusError."""
    if not write.creates("", "pods"):
        return
    spec = document["spec"]
    if _is_mirror(document):
        if spec.get("serviceAccountName"):
            raise write.forbidden(document, "a mirror pod may not reference service accounts")
        return
    if not spec.get("serviceAccountName"):
        name = part(document, "metadata").get("name") or ""
        raise write.forbidden(document, f"no service account specified for pod {write.namespace}/{name}")
    _account(document, write, context)


def _name(document: Document) -> str:
    return document["spec"].get("serviceAccountName") or _DEFAULT


def _account(document: Document, write: Write, context: Context) -> Document:
    name = document["spec"]["serviceAccountName"]
    found = context.get("", "serviceaccounts", write.namespace, name)
    if found is None:
        missing = f'serviceaccount "{name}" not found'
        raise write.forbidden(document, f"error looking up service account {write.namespace}/{name}: {missing}")
    return found


def _is_mirror(pod: Document) -> bool:
    return _MIRROR in part(part(pod, "metadata"), "annotations")


def _mounts(spec: Document, account: Document) -> bool:
    for holder in (spec, account):
        if holder.get("automountServiceAccountToken") is not None:
            return bool(holder["automountServiceAccountToken"])
    return True


def _mount(spec: Document) -> None:
    taken = [volume["name"] for volume in entries(spec, "volumes") if volume.get("name", "").startswith(_VOLUME_PREFIX)]
    name = taken[0] if taken else generated_name(_VOLUME_PREFIX)
    mount = {"name": name, "readOnly": True, "mountPath": _MOUNT_PATH}
    mounted = False
    for field in ("initContainers", "containers"):
        for container in entries(spec, field):
            mounts = entries(container, "volumeMounts")
            if all(one.get("mountPath") != _MOUNT_PATH for one in mounts):
                container["volumeMounts"] = [*mounts, dict(mount)]
                mounted = True
    if mounted and not taken:
        volume = {"name": name, "projected": {"defaultMode": 0o644, "sources": copy.deepcopy(list(_SOURCES))}}
        spec["volumes"] = [*entries(spec, "volumes"), volume]
