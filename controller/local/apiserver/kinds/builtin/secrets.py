# SPDX-License-Identifier: Apache-2.0
"""Errors of Secrets: each type has keys that must be there."""

import base64
import json

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.builtin.formats import Errors, config_key
from trainwright.controller.local.apiserver.kinds.builtin.parts import part
from trainwright.controller.local.apiserver.merge.nesting import TOO_DEEP
from trainwright.controller.local.apiserver.schema.errors import invalid, required, too_long

LARGEST = 1024 * 1024
"""Bytes of a Secret or ConfigMap."""
_ACCOUNT = "kubernetes.io/service-account.name"
_JSON_KEYS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


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
