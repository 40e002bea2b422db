# SPDX-License-Identifier: Apache-2.0
"""The environment of a container: what its document says, from `envFrom`, `valueFrom` and `value`.

Pure, apart from `Lookup`, which reads ConfigMaps and Secrets. Order and texts are those of the kubelet: `envFrom`
first, then `env` in its order; a `value` may refer to what was set before it.
"""

import base64
from collections.abc import Mapping
from typing import Any, Protocol

from trainwright.api.objects import Document, namespace_of
from trainwright.controller.local.node.document.expansion import expand
from trainwright.controller.local.node.document.fields import FieldReferenceError, field_value, resource_value


class ConfigError(Exception):
    """The container cannot be configured yet: CreateContainerConfigError with this message."""


class SourceUnavailableError(Exception):
    """An object cannot be read now, for example because the API server does not answer. Try again."""


class Lookup(Protocol):
    """Reads objects of the namespace of the pod. None: it does not exist. Raises SourceUnavailableError."""

    async def config_map(self, namespace: str, name: str) -> Document | None:
        """One ConfigMap."""
        ...

    async def secret(self, namespace: str, name: str) -> Document | None:
        """One Secret."""
        ...


async def variables_of(
    pod: Document, container: Document, lookup: Lookup, *, service: Mapping[str, str], allocatable: Mapping[str, str]
) -> dict[str, str]:
    """The variables that the document sets, in their order.

    `service` holds variables of the cluster (KUBERNETES_SERVICE_HOST …), to which values may refer; they are not part
    of the result. Raises ConfigError for a missing object or key that is not optional.
    """
    found: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        data = await _all_of(source, namespace_of(pod), lookup)
        prefix = source.get("prefix") or ""
        found.update({prefix + key: value for key, value in sorted(data.items()) if _is_name(prefix + key)})
    for entry in container.get("env") or ():
        name = entry["name"]
        reference = entry.get("valueFrom")
        if reference:
            value = await _value_from(reference, pod, container, lookup, allocatable)
            if value is not None:
                found[name] = value
        else:
            found[name] = expand(entry.get("value") or "", {**service, **found})
    return found


async def _value_from(
    reference: Document, pod: Document, container: Document, lookup: Lookup, allocatable: Mapping[str, str]
) -> str | None:
    """The value of one reference; None for a missing one that is optional."""
    try:
        if field := reference.get("fieldRef"):
            return field_value(pod, field.get("fieldPath", ""))
        if resource := reference.get("resourceFieldRef"):
            return resource_value(pod, resource, container, allocatable)
    except FieldReferenceError as error:
        raise ConfigError(str(error)) from None
    namespace = namespace_of(pod)
    if key := reference.get("configMapKeyRef"):
        value = _entry(await lookup.config_map(namespace, key["name"]), "ConfigMap", namespace, key)
        return None if value is None else str(value)
    if key := reference.get("secretKeyRef"):
        value = _entry(await lookup.secret(namespace, key["name"]), "Secret", namespace, key)
        return None if value is None else _text(value)
    raise ConfigError(f"unsupported source of a variable: {', '.join(reference) or 'none'}")


def _entry(found: Document | None, kind: str, namespace: str, reference: Document) -> Any:
    """The value of a key as it is stored; None for a missing one that is optional."""
    name, key = reference["name"], reference["key"]
    if found is None:
        _missing(reference, f'{kind.lower()} "{name}" not found')
        return None
    data = found.get("data") or {}
    if key not in data:
        _missing(reference, f"couldn't find key {key} in {kind} {namespace}/{name}")
        return None
    return data[key]


async def _all_of(source: Document, namespace: str, lookup: Lookup) -> dict[str, str]:
    """All entries of one `envFrom` source."""
    if reference := source.get("configMapRef"):
        found = await lookup.config_map(namespace, reference["name"])
        if found is None:
            _missing(reference, f'configmap "{reference["name"]}" not found')
            return {}
        return {key: str(value) for key, value in (found.get("data") or {}).items()}
    if reference := source.get("secretRef"):
        found = await lookup.secret(namespace, reference["name"])
        if found is None:
            _missing(reference, f'secret "{reference["name"]}" not found')
            return {}
        return {key: _text(value) for key, value in (found.get("data") or {}).items()}
    return {}


def _missing(reference: Document, message: str) -> None:
    if not reference.get("optional"):
        raise ConfigError(message)


def _is_name(name: str) -> bool:
    """Whether the operating system takes it as the name of a variable."""
    return bool(name) and "=" not in name and "\0" not in name


def _text(encoded: str) -> str:
    """A value of a Secret as it reaches a process: bytes that are no UTF-8 survive as surrogates."""
    return base64.b64decode(encoded).decode("utf-8", "surrogateescape")
