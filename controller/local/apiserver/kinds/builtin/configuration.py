# SPDX-License-Identifier: Apache-2.0
"""ConfigMaps, Secrets and ServiceAccounts."""

import base64
import json

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    config_key,
    immutable_errors,
    same,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part
from trainwright.controller.local.apiserver.kinds.builtin.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.schema.errors import forbidden, invalid, required, too_long
from trainwright.controller.local.values import TOO_DEEP

_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"
LARGEST = 1024 * 1024
"""Bytes of a Secret or ConfigMap."""
_ACCOUNT = "kubernetes.io/service-account.name"
_JSON_KEYS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


class ConfigMapStrategy(BuiltInStrategy):
    """ConfigMaps."""

    def faults(self, document: Document) -> Errors:
        return _config_map_errors(document)

    def changes(self, new: Document, old: Document) -> Errors:
        return _sealed_errors(new, old, ("data", "binaryData"))


class SecretStrategy(BuiltInStrategy):
    """Secrets. What a client writes to `stringData` is stored in `data`."""

    def fill_in(self, document: Document) -> None:
        given = document.pop("stringData", None)
        if given:
            data = document["data"] = dict(part(document, "data"))
            for key, text in given.items():
                data[key] = base64.b64encode((text or "").encode()).decode()
        if not document.get("type"):
            document["type"] = "Opaque"

    def faults(self, document: Document) -> Errors:
        return secret_errors(document)

    def changes(self, new: Document, old: Document) -> Errors:
        return immutable_errors(new.get("type"), old.get("type"), "type") + _sealed_errors(new, old, ("data",))


class ServiceAccountStrategy(BuiltInStrategy):
    """ServiceAccounts."""

    def prepare_for_create(self, document: Document) -> None:
        super().prepare_for_create(document)
        _names_only(document)

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        super().prepare_for_update(new, old, subresource)
        _names_only(new)

    def warnings(self, new: Document, old: Document | None) -> list[str]:
        if _mountable(old) or not _mountable(new):
            return []
        advice = "prefer separate namespaces to isolate access to mounted secrets"
        return [f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; {advice}"]


def _config_map_errors(document: Document) -> Errors:
    texts, blobs = part(document, "data"), part(document, "binaryData")
    found: Errors = []
    for key in texts:
        found += [invalid(f"data[{key}]", key, text) for text in config_key(key)]
        if key in blobs:
            found.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in blobs:
        found += [invalid(f"binaryData[{key}]", key, text) for text in config_key(key)]
    size = sum(len(value.encode()) for value in texts.values()) + sum(map(_decoded_size, blobs.values()))
    if size > LARGEST:
        found.append(too_long("[]", LARGEST))
    return found


def _decoded_size(encoded: str | None) -> int:
    return len(base64.b64decode(encoded or ""))


def _sealed_errors(new: Document, old: Document, fields: tuple[str, ...]) -> Errors:
    if not old.get("immutable"):
        return []
    text = "field is immutable when `immutable` is set"
    found = [] if new.get("immutable") else [forbidden("immutable", text)]
    return found + [forbidden(field, text) for field in fields if not same(new.get(field), old.get(field))]


def _names_only(account: Document) -> None:
    """Secrets are named; other fields of the references mean nothing."""
    if account.get("secrets"):
        kept = [{"name": secret["name"]} if secret.get("name") else {} for secret in entries(account, "secrets")]
        account["secrets"] = kept


def _mountable(account: Document | None) -> bool:
    return account is not None and _MOUNTABLE in part(part(account, "metadata"), "annotations")


def secret_errors(secret: Document) -> Errors:
    """Errors of a Secret."""
    data = {key: base64.b64decode(value or "") for key, value in part(secret, "data").items()}
    found = [invalid(f"data[{key}]", key, text) for key in data for text in config_key(key)]
    if sum(map(len, data.values())) > LARGEST:
        found.append(too_long("data", LARGEST))
    kind = secret.get("type") or ""
    if kind == "kubernetes.io/service-account-token":
        if not part(part(secret, "metadata"), "annotations").get(_ACCOUNT):
            found.append(required(f"metadata.annotations[{_ACCOUNT}]"))
    elif kind in _JSON_KEYS:
        found += _json_errors(data, _JSON_KEYS[kind])
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            found += [required("data[username]"), required("data[password]")]
    elif kind == "kubernetes.io/ssh-auth":
        found += [] if data.get("ssh-privatekey") else [required("data[ssh-privatekey]")]
    elif kind == "kubernetes.io/tls":
        found += [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    return found


def _json_errors(data: dict[str, bytes], key: str) -> Errors:
    field = f"data[{key}]"
    if key not in data:
        return [required(field)]
    problem = _json_problem(data[key])
    return [invalid(field, "<secret contents redacted>", problem)] if problem else []


def _json_problem(content: bytes) -> str:
    try:
        decoded = json.loads(content)
    except RecursionError:
        return TOO_DEEP
    except ValueError:
        return "not JSON"
    return "" if decoded is None or isinstance(decoded, dict) else "not a JSON object"
