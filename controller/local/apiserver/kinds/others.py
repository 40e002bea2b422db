# SPDX-License-Identifier: Apache-2.0
"""All kinds but Pods, Jobs and definitions: what no rule of `rules/*.json` and no recorded default says."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from ipaddress import IPv4Address

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
from trainwright.controller.local.cel.expression import compiled_over
from trainwright.controller.local.types.errors import DocumentError, invalid, required, too_long
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


# -------------------------------------------------------------- webhooks and policies: mostly their expressions

_AUTHORIZER = re.compile(r"\bauthorizer\b")
USED = re.compile(r"\bvariables\.(\w+)")
"""Variables in an expression."""
VARIABLES = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
"""What validations may name."""
CONDITION_VARIABLES = ("object", "oldObject", "request", "params")
"""What match conditions may name."""


class PolicyStrategy(BuiltInStrategy):
    """ValidatingAdmissionPolicies. Nobody checks the types of their expressions, so their status stays empty."""

    reset_fields: ResetFields = {"status": (("spec",), ("metadata",))}  # noqa: RUF012 - never changed


@register("a known review version")
def _version_errors(versions: list[str], field: str, _: Document) -> Errors:
    known = not versions or {"v1", "v1beta1"} & set(versions)
    return [] if known else [invalid(field, versions, "must include at least one of v1, v1beta1")]


@register("only *")
def _star_errors(values: list[str], field: str, _: Document) -> Errors:
    text = "if '*' is present, must not specify others"
    return [invalid(field, values, text)] if len(values) > 1 and "*" in values else []


@register("Deny or Warn")
def _action_errors(actions: list[str], field: str, _: Document) -> Errors:
    return [invalid(field, actions, "must not contain both Deny and Warn")] if {"Deny", "Warn"} <= set(actions) else []


_EXPRESSIONS = (
    ("matchConditions", "expression", CONDITION_VARIABLES, "bool"),
    ("variables", "expression", VARIABLES, "dyn"),
    ("validations", "expression", VARIABLES, "bool"),
    ("validations", "messageExpression", VARIABLES, "string"),
    ("auditAnnotations", "valueExpression", VARIABLES, "dyn"),
)
"""Where a policy has expressions, what they may name, and the type that each has to give."""


@register("expressions")
def _policy_errors(spec: Document, field: str, _: Document) -> Errors:
    found: Errors = []
    declared = [one.get("name") or "" for one in entries(spec, "variables")]
    for name, key, variables, wanted in _EXPRESSIONS:
        # Without a kind of parameters there are none.
        known = tuple(one for one in variables if one != "params" or spec.get("paramKind") is not None)
        for index, one in enumerate(entries(spec, name)):
            usable = declared[:index] if name == "variables" else declared
            found += _expression_errors(one.get(key) or "", f"{field}.{name}[{index}].{key}", known, wanted, usable)
    return found


@register("match condition of a webhook")
def _condition_errors(text: str, field: str, _: Document) -> Errors:
    # The evaluator does not know the functions of an authorizer, which only the conditions of webhooks may name here.
    variables = tuple(one for one in CONDITION_VARIABLES if one != "params")
    return [] if _AUTHORIZER.search(text) else _expression_errors(text, field, variables, "bool", [])


def _expression_errors(text: str, field: str, variables: tuple[str, ...], wanted: str, declared: list[str]) -> Errors:
    if not (text := text.strip()):
        return []
    try:
        found = compiled_over(text, variables).result.partition("<")[0]
    except ValueError as error:
        return [invalid(field, text, f"compilation failed: {error}")]
    if missing := set(USED.findall(text)).difference(declared):
        return [invalid(field, text, f"compilation failed: undeclared variables {', '.join(sorted(missing))}")]
    fits = "dyn" in (wanted, found) or found == wanted
    return [] if fits else [invalid(field, text, f"must evaluate to {wanted} but got {found}")]


# -------------------------------------------------------------- services

# They are stored and never routed, so addresses and node ports need not be unique: they are made from the uid and the
# name of the port. The same Service always gets the same ones.
HEADLESS = "None"
ADDRESSES = IPv4Address("10.96.0.0")
"""The range of addresses begins here and holds 65,536."""
_NODE_PORTS = range(30_000, 32_768)
_AFFINITY_SECONDS = 10_800
_EXTERNAL = ("NodePort", "LoadBalancer")


class ServiceStrategy(BuiltInStrategy):
    """Services."""

    def default(self, document: Document) -> None:
        super().default(document)
        spec = document["spec"]
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif spec["sessionAffinity"] == "ClientIP" and not part(spec, "sessionAffinityConfig").get("clientIP"):
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
        for port in entries(spec, "ports"):
            ensure_filled(port, "targetPort", port.get("port"))
        if spec["type"] in _EXTERNAL:
            ensure_filled(spec, "externalTrafficPolicy", "Cluster")
        if spec["type"] in ("ClusterIP", *_EXTERNAL):
            ensure(spec, "internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            ensure(spec, "allocateLoadBalancerNodePorts", True)

    def prepare_for_create(self, document: Document) -> None:
        super().prepare_for_create(document)
        _allocate(document["spec"], document["metadata"].get("uid") or "", {})

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        super().prepare_for_update(new, old, subresource)
        if not subresource:
            _drop_what_the_type_lost(new["spec"], old["spec"])
            _allocate(new["spec"], new["metadata"].get("uid") or "", old["spec"])

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        found = super().validate_update(new, old, subresource)
        now, then = (texts(part(one, "spec"), "clusterIPs") for one in (new, old))
        if now[:1] != then[:1] and now and then and not subresource:
            found.append(invalid("spec.clusterIPs[0]", now, "may not change once set"))
        return found


@register("names of ports")
def _port_name_errors(ports: list[Document], field: str, _: Document) -> Errors:
    missing = [index for index, port in enumerate(ports) if not port.get("name")] if len(ports) > 1 else []
    return [required(f"{field}[{index}].name") for index in missing]


def _drop_what_the_type_lost(spec: Document, before: Document) -> None:
    """Take out what only the old type could have, unless the client has changed it too."""
    lost: list[str] = []
    if before.get("type") != "ExternalName" and spec.get("type") == "ExternalName":
        lost += ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]
    if before.get("type") in _EXTERNAL and spec.get("type") not in _EXTERNAL:
        lost.append("externalTrafficPolicy")
        known = {port.get("nodePort") for port in entries(before, "ports")}
        for port in entries(spec, "ports"):
            if port.get("nodePort") in known:
                port.pop("nodePort", None)
    if before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        lost += ["allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"]
    for field in lost:
        if spec.get(field) == before.get(field):
            spec.pop(field, None)


def _allocate(spec: Document, uid: str, before: Document) -> None:
    """Give addresses and node ports. What an update leaves open stays as it was."""
    if spec.get("clusterIP"):
        ensure_filled(spec, "clusterIPs", [spec["clusterIP"]])
    if spec.get("type") == "ExternalName":
        return
    address = spec.get("clusterIP") or next(iter(texts(spec, "clusterIPs")), None) or before.get("clusterIP")
    ensure_filled(spec, "clusterIP", address or str(ADDRESSES + 1 + _number(uid, 2**16 - 2)))
    if spec.get("clusterIPs") in (None, [], before.get("clusterIPs")):
        # Clients that know only the old field change it alone.
        spec["clusterIPs"] = [spec["clusterIP"], *texts(spec, "clusterIPs")[1:]]
    anywhere = spec["clusterIP"] == HEADLESS and not spec.get("selector")
    families = ["IPv4", "IPv6"] if anywhere else ["IPv6" if ":" in spec["clusterIP"] else "IPv4"]
    ensure(spec, "ipFamilyPolicy", before.get("ipFamilyPolicy") or ("RequireDualStack" if anywhere else "SingleStack"))
    ensure_filled(spec, "ipFamilies", before.get("ipFamilies") or families)
    if spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts"):
        known = {port.get("name"): port.get("nodePort") for port in entries(before, "ports")}
        taken = {port.get("nodePort") for port in entries(spec, "ports")} | set(known.values())
        start = _number(uid, len(_NODE_PORTS))
        free = (one for one in (*_NODE_PORTS[start:], *_NODE_PORTS[:start]) if one not in taken)
        for port in entries(spec, "ports"):
            if not port.get("nodePort"):
                port["nodePort"] = known.get(port.get("name")) or next(free)


def _number(text: str, below: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % below
