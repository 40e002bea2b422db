# SPDX-License-Identifier: Apache-2.0
"""The smaller kinds: what no rule of `rules/*.json` and no recorded default says."""

import base64
import json
from collections.abc import Mapping

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds.formats import Errors
from trainwright.controller.local.apiserver.kinds.metadata import (
    ensure,
    ensure_filled,
    entries,
    part,
    set_or_drop,
    texts,
)
from trainwright.controller.local.apiserver.kinds.rules import register
from trainwright.controller.local.apiserver.kinds.strategy import BuiltInStrategy, ResetFields
from trainwright.controller.local.types.errors import invalid, required, too_long
from trainwright.controller.local.types.go_json import normalize

# -------------------------------------------------------------- namespaces

FINALIZER = "kubernetes"
NAME_LABEL = "kubernetes.io/metadata.name"
IMMORTAL = ("default", "kube-system", "kube-public")
"""Namespaces that cannot be deleted."""


class NamespaceStrategy(BuiltInStrategy):
    """Namespaces: held by a finalizer in `spec` until their content is gone."""

    reset_fields: ResetFields = {"finalize": (("status",),)}  # noqa: RUF012 - never changed
    marks_time_only = True

    def default(self, document: Document) -> None:
        super().default(document)
        ensure_filled(document["status"], "phase", "Active")
        _label(document)

    def prepare_for_create(self, document: Document) -> None:
        super().prepare_for_create(document)
        finalizers = texts(document["spec"], "finalizers")
        document["spec"]["finalizers"] = list(dict.fromkeys([*finalizers, FINALIZER]))
        # Once more: a generated name was not there for the defaults.
        _label(document)

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        super().prepare_for_update(new, old, subresource)
        if not subresource:
            set_or_drop(new["spec"], "finalizers", part(old, "spec").get("finalizers"))

    def before_delete(self, document: Document) -> None:
        name = document["metadata"]["name"]
        if name in IMMORTAL:
            raise errors.forbidden("", "namespaces", name, "this namespace may not be deleted")

    def begin_deletion(self, document: Document) -> None:
        document.setdefault("status", {})["phase"] = "Terminating"

    def is_held(self, document: Document) -> bool:
        return bool(part(document, "spec").get("finalizers"))


def _label(document: Document) -> None:
    metadata = document.setdefault("metadata", {})
    if metadata.get("name"):
        ensure(metadata, "labels", {})
        metadata["labels"][NAME_LABEL] = metadata["name"]


# -------------------------------------------------------------- configuration

LARGEST = 1024 * 1024
"""Bytes of a Secret or ConfigMap."""
_ACCOUNT = "kubernetes.io/service-account.name"
_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


class SecretStrategy(BuiltInStrategy):
    """Secrets. What a client writes to `stringData` is stored in `data`."""

    def complete(self, document: Document) -> None:
        if given := document.pop("stringData", None):
            encoded = {key: base64.b64encode((text or "").encode()).decode() for key, text in given.items()}
            document["data"] = {**part(document, "data"), **encoded}
        ensure_filled(document, "type", "Opaque")


@register("size of a ConfigMap")
def _config_map_errors(document: Document, _: str, __: Document) -> Errors:
    plain, blobs = part(document, "data"), part(document, "binaryData")
    text = "duplicate of key present in binaryData"
    found = [invalid(f"data[{key}]", key, text) for key in plain if key in blobs]
    size = sum(len(value.encode()) for value in plain.values())
    size += sum(len(base64.b64decode(value or "")) for value in blobs.values())
    return [*found, too_long("[]", LARGEST)] if size > LARGEST else found


@register("content of a Secret")
def _secret_errors(secret: Document, _: str, __: Document) -> Errors:
    """Errors of a Secret's data, which has the keys of its type."""
    data = {key: base64.b64decode(value or "") for key, value in part(secret, "data").items()}
    found = [too_long("data", LARGEST)] if sum(map(len, data.values())) > LARGEST else []
    kind = secret.get("type") or ""
    annotations = part(part(secret, "metadata"), "annotations")
    if kind == "kubernetes.io/service-account-token" and not annotations.get(_ACCOUNT):
        found.append(required(f"metadata.annotations[{_ACCOUNT}]"))
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
        found += [required("data[username]"), required("data[password]")]
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            found.append(required(f"data[{key}]"))
        elif "docker" in kind and not _is_json_object(data[key]):
            found.append(invalid(f"data[{key}]", "<secret contents redacted>", "must be a JSON object"))
    return found


def _is_json_object(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (RecursionError, ValueError):
        return False


# -------------------------------------------------------------- nodes, limits and volumes


class NodeStrategy(BuiltInStrategy):
    """Nodes. A creation may say the status."""

    def complete(self, document: Document) -> None:
        if capacity := document["status"].get("capacity"):
            ensure(document["status"], "allocatable", dict(capacity))

    def prepare_for_create(self, document: Document) -> None:
        document["status"].pop("config", None)


class LimitRangeStrategy(BuiltInStrategy):
    """LimitRanges. The amounts of a container fill each other."""

    def complete(self, document: Document) -> None:
        for item in entries(document["spec"], "limits"):
            if item.get("type") == "Container":
                limits = {**part(item, "max"), **part(item, "default")}
                requests = {**part(item, "min"), **limits, **part(item, "defaultRequest")}
                set_or_drop(item, "default", limits or None)
                set_or_drop(item, "defaultRequest", requests or None)


# -------------------------------------------------------------- events

_CORE_TO_EVENTS = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_EVENTS_TO_CORE = {there: here for here, there in _CORE_TO_EVENTS.items()}


def to_core(event: Document) -> Document:
    """An Event of events.k8s.io/v1 as core/v1 has it; both groups serve the same objects, stored as core/v1."""
    return _renamed(event, _EVENTS_TO_CORE, "v1", "io.k8s.api.core.v1.Event")


def to_events(event: Document) -> Document:
    """An Event of core/v1 as events.k8s.io/v1 has it."""
    return _renamed(event, _CORE_TO_EVENTS, "events.k8s.io/v1", "io.k8s.api.events.v1.Event")


def _renamed(event: Document, names_there: Mapping[str, str], api_version: str, model: str) -> Document:
    made = {names_there.get(field, field): value for field, value in event.items()}
    made["apiVersion"] = api_version
    normalize(made, model)
    return made


class EventStrategy(BuiltInStrategy):
    """Events of either group. Those of events.k8s.io/v1 must say more."""

    collects_garbage = False
    error_group = ""


@register("namespace of an event")
def _event_errors(event: Document, _: str, __: Document) -> Errors:
    namespace = part(event, "metadata").get("namespace") or ""
    about = (part(event, "involvedObject") or part(event, "regarding")).get("namespace") or ""
    new = bool(event.get("eventTime"))
    anywhere = ("default", "kube-system") if new else ("", "default")
    fits = namespace in anywhere if not about else new or namespace == about
    return [] if fits else [invalid("involvedObject.namespace", about, "does not match event.namespace")]
