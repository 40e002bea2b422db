#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: ARG002, C901, FURB167, FURB171, N818, PLR0911 - kept as it was recorded with, so that others can be brought in
"""Replay conformance cases against a Kubernetes API server with a running TrainJob manager.

Every case is a folder with the objects to create, the actions to perform and a recording
of what the manager made of them (see README.md for the file formats).  The script creates
those objects in a fresh namespace, waits until the manager settles and then either writes
``expected.yaml`` (``--record``) or compares with it (``--check``, the default).

    replay.py --kubeconfig ~/.kube/config                      # check all cases
    replay.py --only 'torch' --only '^0[0-4]'                  # check some (regular expressions)
    replay.py --record --only '^017'                           # write expected.yaml
    replay.py --cases DIR --cases DIR2 --jobs 4                # other folders, fewer workers
    replay.py --gate TrainJobStatus --status-server https://127.0.0.1:10443
    replay.py --purge                                          # remove what a killed run left

Requirements: Python 3.11 or newer and PyYAML.  The API server needs the CRDs of the trainer
API group, JobSet and both PodGroup kinds, and the webhooks of the manager under test.  No
JobSet controller may run: the cases play its part by patching the status of JobSets.

The exit status is 0 when every selected case passed, 1 when some failed, 2 on wrong usage.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import concurrent.futures
import copy
import dataclasses
import difflib
import fractions
import http.client
import json
import os
import re
import secrets
import ssl
import sys
import tempfile
import threading
import time
import tomllib
import traceback
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

TRAINER = "trainer.kubeflow.org/v1alpha1"
RUN_LABEL = "conformance.test/run"
FIELD_MANAGER = "conformance"

#: Kinds that a TrainJob is known to produce; polled while waiting for the manager.
POLLED: tuple[tuple[str, str], ...] = (
    ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
    ("scheduling.volcano.sh/v1beta1", "PodGroup"),
)
#: Further kinds looked at once, when a state is recorded or compared.
LOOKED_AT: tuple[tuple[str, str], ...] = (
    *POLLED,
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Pod"),
    ("batch/v1", "Job"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    (TRAINER, "TrainJob"),
)
#: Kinds emptied before a namespace goes away.
CLEANED: tuple[tuple[str, str], ...] = (
    *LOOKED_AT,
    (TRAINER, "TrainingRuntime"),
    ("v1", "LimitRange"),
    ("events.k8s.io/v1", "Event"),
)
#: Objects that a cluster itself puts into every namespace.
AMBIENT = {("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")}

DEFAULT_API_VERSION = {
    "TrainJob": TRAINER,
    "TrainingRuntime": TRAINER,
    "ClusterTrainingRuntime": TRAINER,
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "ConfigMap": "v1",
    "Secret": "v1",
    "Namespace": "v1",
    "ServiceAccount": "v1",
    "LimitRange": "v1",
    "RuntimeClass": "node.k8s.io/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
}

TIME_RE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
PREFIX_RE = re.compile(r"^cf[0-9a-f]{6}n\d{3}")


# --------------------------------------------------------------------------------------
# YAML
# --------------------------------------------------------------------------------------


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # libyaml is ten times faster
    """Loads timestamps as plain strings."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, rx) for tag, rx in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.SafeDumper):
    """Writes multi-line strings as blocks and never uses aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


#: Plain strings that other YAML parsers take for something else.
_AMBIGUOUS_RE = re.compile(r"[yYnN]|[-+]?\d+[eE][-+]?\d+|0o[0-7]+")


def _represent_str(dumper: yaml.SafeDumper, data: str) -> yaml.Node:
    style = None
    if "\n" in data and not re.search(r"[ \t]\n|[^\x09\x0a\x20-\ud7ff\ue000-\ufffd]", data):
        style = "|"
    elif TIME_RE.fullmatch(data) or _AMBIGUOUS_RE.fullmatch(data):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _represent_str)


def load_yaml(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)


def load_documents(path: Path) -> list[Any]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as stream:
        return [doc for doc in yaml.load_all(stream, Loader=_Loader) if doc is not None]


def dump_yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=110)


# --------------------------------------------------------------------------------------
# Kubernetes client
# --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Reply:
    """An HTTP answer of the API server."""

    code: int
    body: Json
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return 200 <= self.code < 300


class ClusterError(RuntimeError):
    """The API server could not do what the replay itself needs."""


@dataclasses.dataclass(frozen=True)
class Resource:
    api_version: str
    kind: str
    plural: str
    namespaced: bool


class Cluster:
    """A small, thread-safe client built on http.client."""

    def __init__(self, kubeconfig: Path, context: str | None = None) -> None:
        config = load_yaml(kubeconfig.read_text(encoding="utf-8"))
        name = context or config["current-context"]
        chosen = next(c["context"] for c in config["contexts"] if c["name"] == name)
        cluster = next(c["cluster"] for c in config["clusters"] if c["name"] == chosen["cluster"])
        user = next(u["user"] for u in config["users"] if u["name"] == chosen["user"]) or {}
        base = kubeconfig.resolve().parent
        self._url = urllib.parse.urlsplit(cluster["server"])
        self._headers = {"Accept": "application/json", "User-Agent": "conformance-replay"}
        token = user.get("token")
        if not token and user.get("tokenFile"):
            token = (base / user["tokenFile"]).read_text(encoding="utf-8").strip()
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._tls = self._tls_context(cluster, user, base)
        self._local = threading.local()
        self._resources: dict[str, dict[str, Resource]] = {}
        self._lock = threading.Lock()

    @staticmethod
    def _tls_context(cluster: Json, user: Json, base: Path) -> ssl.SSLContext:
        tls = ssl.create_default_context()
        if cluster.get("insecure-skip-tls-verify"):
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        elif cluster.get("certificate-authority-data"):
            tls.load_verify_locations(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        elif cluster.get("certificate-authority"):
            tls.load_verify_locations(cafile=str(base / cluster["certificate-authority"]))
        if user.get("client-certificate-data"):
            with tempfile.TemporaryDirectory() as folder:
                cert, key = Path(folder, "cert"), Path(folder, "key")
                cert.write_bytes(base64.b64decode(user["client-certificate-data"]))
                key.write_bytes(base64.b64decode(user["client-key-data"]))
                tls.load_cert_chain(str(cert), str(key))
        elif user.get("client-certificate"):
            tls.load_cert_chain(str(base / user["client-certificate"]), str(base / user["client-key"]))
        return tls

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Reply:
        payload = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        headers = dict(self._headers)
        if payload is not None:
            headers["Content-Type"] = content_type
        for attempt in range(4):
            connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
            fresh = connection is None
            if connection is None:
                host, port = self._url.hostname or "", self._url.port
                if self._url.scheme == "https":
                    connection = http.client.HTTPSConnection(host, port or 443, timeout=60, context=self._tls)
                else:
                    connection = http.client.HTTPConnection(host, port or 80, timeout=60)
                self._local.connection = connection
            try:
                connection.request(method, self._url.path.rstrip("/") + path, payload, headers)
                answer = connection.getresponse()
                raw = answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                self._local.connection = None
                # A kept-alive connection may have been closed by the server before the request.
                if attempt == 3 or (fresh and method not in ("GET", "DELETE")):
                    raise
                time.sleep(0.2 * (attempt + 1))
                continue
            if answer.status == 429:
                time.sleep(float(answer.headers.get("Retry-After", "1")))
                continue
            try:
                parsed = json.loads(raw) if raw else {}
            except ValueError:
                parsed = {"message": raw.decode(errors="replace")}
            warnings = tuple(_unquote_warning(value) for value in answer.headers.get_all("Warning", []))
            return Reply(answer.status, parsed, warnings)
        raise ClusterError(f"{method} {path}: the API server is overloaded")

    def resource(self, api_version: str, kind: str) -> Resource:
        with self._lock:
            known = self._resources.get(api_version)
        if known is None:
            root = "/api/" if "/" not in api_version else "/apis/"
            reply = self.request("GET", root + api_version)
            known = {}
            for entry in reply.body.get("resources", []) if reply.ok else []:
                if "/" not in entry["name"]:
                    known[entry["kind"]] = Resource(api_version, entry["kind"], entry["name"], entry["namespaced"])
            with self._lock:
                self._resources[api_version] = known
        if kind not in known:
            raise ClusterError(f"the API server does not serve {api_version} {kind}")
        return known[kind]

    def path(self, api_version: str, kind: str, namespace: str, name: str = "", subresource: str = "") -> str:
        resource = self.resource(api_version, kind)
        parts = ["/api" if "/" not in api_version else "/apis", api_version]
        if resource.namespaced:
            parts += ["namespaces", namespace]
        parts += [part for part in (resource.plural, name, subresource) if part]
        return "/".join(parts)


def _unquote_warning(header: str) -> str:
    match = re.match(r'\d{3} \S+ "(.*)"\s*$', header, re.S)
    return match.group(1).replace('\\"', '"').replace("\\\\", "\\") if match else header


# --------------------------------------------------------------------------------------
# Normalisation
# --------------------------------------------------------------------------------------

DROPPED_METADATA = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink")


def normalise_times(value: Any, literal: frozenset[str]) -> Any:
    """Replace every timestamp that does not occur in the inputs of the case."""
    if isinstance(value, dict):
        return {key: normalise_times(item, literal) for key, item in value.items()}
    if isinstance(value, list):
        return [normalise_times(item, literal) for item in value]
    if isinstance(value, str) and TIME_RE.fullmatch(value) and value not in literal:
        return "<time>"
    return value


def strip_metadata(obj: Json) -> Json:
    obj = copy.deepcopy(obj)
    metadata = obj.get("metadata", {})
    for key in DROPPED_METADATA:
        metadata.pop(key, None)
    for reference in metadata.get("ownerReferences", []):
        reference.pop("uid", None)
    return obj


def prune_noise(value: Any) -> Any:
    """Drop nulls and those empty maps that typed serialisers add at will."""
    if isinstance(value, dict):
        return {
            key: prune_noise(item)
            for key, item in value.items()
            if item is not None and not (key in _OPTIONAL_EMPTY and item == {})
        }
    if isinstance(value, list):
        return [prune_noise(item) for item in value]
    return value


# -- secrets ---------------------------------------------------------------------------

_CURVES = {
    bytes.fromhex("2b81040023"): "P-521",
    bytes.fromhex("2b81040022"): "P-384",
    bytes.fromhex("2a8648ce3d030107"): "P-256",
}
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def _z85_decode(text: str) -> bytes:
    out = bytearray()
    for start in range(0, len(text), 5):
        number = 0
        for char in text[start : start + 5]:
            number = number * 85 + _Z85.index(char)
        out += number.to_bytes(4, "big")
    return bytes(out)


def _x25519_public(secret: bytes) -> bytes:
    """Curve25519 scalar multiplication of the base point (RFC 7748)."""
    prime = 2**255 - 19
    scalar = bytearray(secret)
    scalar[0] &= 248
    scalar[31] = (scalar[31] & 127) | 64
    k = int.from_bytes(scalar, "little")
    x1, x2, z2, x3, z3, swap = 9, 1, 0, 9, 1, 0
    for bit in range(254, -1, -1):
        current = (k >> bit) & 1
        if swap ^ current:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = current
        a, b = (x2 + z2) % prime, (x2 - z2) % prime
        aa, bb = a * a % prime, b * b % prime
        e = (aa - bb) % prime
        da, cb = (x3 - z3) * a % prime, (x3 + z3) * b % prime
        x3, z3 = (da + cb) ** 2 % prime, x1 * (da - cb) ** 2 % prime
        x2, z2 = aa * bb % prime, e * (aa + 121665 * e) % prime
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, prime - 2, prime) % prime).to_bytes(32, "little")


def _ssh_strings(blob: bytes) -> list[bytes]:
    parts: list[bytes] = []
    while len(blob) >= 4:
        size = int.from_bytes(blob[:4], "big")
        parts.append(blob[4 : 4 + size])
        blob = blob[4 + size :]
    return parts


def describe_secret_value(raw: bytes, siblings: Iterable[bytes]) -> str:
    """Describe generated key material by its format instead of its content."""
    text = raw.decode("utf-8", errors="replace")
    pem = re.search(r"-----BEGIN ([A-Z0-9 ]+)-----\n(.*?)-----END", text, re.S)
    if pem:
        der = base64.b64decode(pem.group(2))
        curve = next((name for oid, name in _CURVES.items() if oid in der), f"{len(der)} bytes")
        return f"<generated:PEM {pem.group(1)}, {curve}>"
    ssh = re.match(r"((?:ecdsa|ssh|sk)-[\w@.-]+) ([A-Za-z0-9+/=]+)", text)
    if ssh:
        point = _ssh_strings(base64.b64decode(ssh.group(2)))[-1]
        pairs = any(point in _der_of_pem(sibling) for sibling in siblings)
        return f"<generated:OpenSSH public key, {ssh.group(1)}, {'matches' if pairs else 'no'} private key>"
    public = re.search(r'public-key = "(.{40})"', text)
    secret = re.search(r'secret-key = "(.{40})"', text)
    if public and secret:
        name = re.search(r'name = "([^"]*)"', text)
        try:
            pairs = _x25519_public(_z85_decode(secret.group(1))) == _z85_decode(public.group(1))
        except (ValueError, OverflowError):
            pairs = False
        return (
            f"<generated:ZeroMQ CURVE certificate, metadata name {name.group(1) if name else None!r}, "
            f"Z85 public and secret key of 40 characters, {'matching' if pairs else 'not matching'}>"
        )
    return f"<generated:{len(raw)} bytes>"


def _der_of_pem(raw: bytes) -> bytes:
    match = re.search(rb"-----BEGIN [A-Z0-9 ]+-----\n(.*?)-----END", raw, re.S)
    try:
        return base64.b64decode(match.group(1)) if match else b""
    except binascii.Error:
        return b""


def normalise_secret(obj: Json) -> None:
    data: dict[str, bytes] = {key: base64.b64decode(value) for key, value in (obj.get("data") or {}).items()}
    for key, raw in data.items():
        others = [value for name, value in data.items() if name != key]
        obj["data"][key] = describe_secret_value(raw, others)


# -- config maps -----------------------------------------------------------------------


def script_facts(text: str) -> Json:
    """Pick the facts out of a generated shell script that depend on the TrainJob."""
    facts: Json = {}
    for variable in ("hosts", "mainHost", "flags"):
        found = re.findall(rf"^\s*{variable}=\"?([^\"\n$]+?)\"?\s*$", text, re.M)
        if found:
            facts[variable] = found[0].strip()
    encode = re.search(r"flux R encode +(.*?) *>", text)
    if encode:
        facts["resources"] = sorted(part for part in encode.group(1).split() if "$" not in part)
    broker = re.search(r"broker\.toml\n(.*?\n)EOT", text, re.S)
    if broker:
        facts["broker.toml"] = tomllib.loads(broker.group(1))
    return facts


def normalise_config_map(obj: Json, snapshot_name: Callable[[Json], Any]) -> None:
    for key, value in (obj.get("data") or {}).items():
        if obj["metadata"]["name"].endswith("-runtime-snapshot") and key == "runtime":
            try:
                parsed = load_yaml(value)
            except yaml.YAMLError:
                continue
            obj["data"][key] = snapshot_name(parsed) if isinstance(parsed, dict) else value
        elif key.endswith(".sh"):
            obj["data"][key] = {"<script>": script_facts(value)}
        elif "-----BEGIN CERTIFICATE-----" in value:
            obj["data"][key] = "<PEM CERTIFICATE>"


# -- rejections and warnings -----------------------------------------------------------

_FIELD_ERRORS = {
    "Invalid value": "FieldValueInvalid",
    "Forbidden": "FieldValueForbidden",
    "Required value": "FieldValueRequired",
    "Duplicate value": "FieldValueDuplicate",
    "Unsupported value": "FieldValueNotSupported",
    "Not found": "FieldValueNotFound",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
    "Internal error": "InternalError",
}
_FIELD_ERROR_RE = re.compile(
    r"((?:spec|metadata|status)(?:\.[\w-]+|\[[^\]\s]*\])*): "
    r"(" + "|".join(map(re.escape, _FIELD_ERRORS)) + r")(?=: |$|,|\])"
)


def describe_rejection(reply: Reply) -> Json:
    """Reduce an error answer to its code, reason and the fields it complains about."""
    status = reply.body
    causes: dict[tuple[str, str], Json] = {}

    def add(kind: str, field: str) -> None:
        causes.setdefault((field, kind), {"type": kind, "field": field, "meaning": ""})

    for cause in (status.get("details") or {}).get("causes") or []:
        add(cause.get("reason", ""), cause.get("field", ""))
    if not causes:
        message = status.get("message", "")
        _, separator, denial = message.partition("denied the request: ")
        if separator:
            for field, kind in _FIELD_ERROR_RE.findall(denial):
                add(_FIELD_ERRORS[kind], field)
            if not causes:
                add("Denied", "")
    return {
        "code": reply.code,
        "reason": status.get("reason", ""),
        "causes": [causes[key] for key in sorted(causes)],
    }


def describe_warning(text: str) -> Json:
    """Reduce a warning to the words that carry facts: quoted names and deprecation."""
    mentions = set(re.findall(r'"([^"]+)"', text))
    if "deprecated" in text.lower():
        mentions.add("deprecated")
    return {"mentions": sorted(mentions), "meaning": ""}


# -- comparison ------------------------------------------------------------------------

_QUANTITY_MAPS = {"limits", "requests", "minResources", "overhead", "capacity"}
_QUANTITIES = {"divisor", "sizeLimit", "storage"}
_OPTIONAL_EMPTY = {"resources", "metadata", "status", "minResources"}
_SUFFIXES = {
    "n": fractions.Fraction(1, 10**9), "u": fractions.Fraction(1, 10**6), "m": fractions.Fraction(1, 1000),
    "": fractions.Fraction(1), "k": fractions.Fraction(10**3), "M": fractions.Fraction(10**6),
    "G": fractions.Fraction(10**9), "T": fractions.Fraction(10**12), "P": fractions.Fraction(10**15),
    "E": fractions.Fraction(10**18), "Ki": fractions.Fraction(2**10), "Mi": fractions.Fraction(2**20),
    "Gi": fractions.Fraction(2**30), "Ti": fractions.Fraction(2**40), "Pi": fractions.Fraction(2**50),
    "Ei": fractions.Fraction(2**60),
}  # fmt: skip


def _canonical_quantity(value: Any) -> Any:
    match = re.fullmatch(r"([+-]?[0-9.]+)(?:[eE]([+-]?\d+)|([numkMGTPE]i?|[KMGTPE]i)?)", str(value))
    if not match:
        return value
    number = fractions.Fraction(match.group(1))
    if match.group(2):
        number *= fractions.Fraction(10) ** int(match.group(2))
    else:
        number *= _SUFFIXES.get(match.group(3) or "", 1)
    return f"quantity {number}"


@dataclasses.dataclass(frozen=True)
class Rules:
    """What a case allows to differ from its recording."""

    unordered: frozenset[str] = frozenset()
    any_rejection: bool = False


STRICT = Rules()


def canonical(value: Any, rules: Rules = STRICT, key: str = "") -> Any:
    """The form in which two recordings are compared (see the equivalences in README.md)."""
    if isinstance(value, dict):
        if key == "rejected" and rules.any_rejection:
            return {"at": value.get("at")}
        if key in _QUANTITY_MAPS:
            return {name: _canonical_quantity(item) for name, item in value.items()}
        out: Json = {}
        for name, item in value.items():
            if item is None or name == "meaning" or (name in _OPTIONAL_EMPTY and item == {}):
                continue
            out[name] = (
                _canonical_quantity(item)
                if name in _QUANTITIES and not isinstance(item, (dict, list))
                else canonical(item, rules, name)
            )
        return out
    if isinstance(value, list):
        items = [canonical(item, rules) for item in value]
        if key in rules.unordered:
            items.sort(key=lambda item: json.dumps(item, sort_keys=True))
        return items
    return value


# --------------------------------------------------------------------------------------
# Cases
# --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Options:
    record: bool
    jobs: int
    timeout: float
    quiet: float
    interval: float
    keep: bool
    gates: frozenset[str]
    status_server: str | None
    run: str = dataclasses.field(default_factory=lambda: secrets.token_hex(3))


@dataclasses.dataclass
class Outcome:
    case: str
    passed: bool
    detail: str = ""
    declared: bool = False
    suspect: bool = False
    seconds: float = 0.0


@dataclasses.dataclass
class Created:
    """An object that the case itself made, with the state it is known to have."""

    api_version: str
    kind: str
    name: str
    baseline: Json
    deleted: bool = False


class Rejected(Exception):
    """The API server refused an object of the case."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.body.get("message", ""))
        self.reply = reply


class Case:
    """One folder, replayed once."""

    def __init__(self, folder: Path, cluster: Cluster, options: Options, number: int) -> None:
        self.folder = folder
        self.cluster = cluster
        self.options = options
        self.about: Json = (load_documents(folder / "case.yaml") or [{}])[0]
        self.rules = Rules(frozenset(self.about.get("unordered") or []), bool(self.about.get("anyRejection")))
        self.namespace = f"cf-{options.run}-{number:03d}"
        #: Put in front of the name of every cluster-scoped object of the case.
        self.prefix = f"cf{options.run}n{number:03d}"
        inputs = [path for path in sorted(folder.glob("*.yaml")) if path.name != "expected.yaml"]
        texts = [path.read_text(encoding="utf-8") for path in inputs]
        self.literal_times = frozenset(match.group(0) for text in texts for match in TIME_RE.finditer(text))
        self.created: list[Created] = []
        self.runtime_versions: dict[tuple[str, str], list[Json]] = {}
        self.cluster_names: dict[str, set[str]] = {}
        self.trainjob_name = ""
        self.warnings: list[Json] = []
        self.last_action = time.monotonic()

    # -- inputs --------------------------------------------------------------------

    def _resource_of(self, obj: Json) -> Resource:
        return self.cluster.resource(obj["apiVersion"], obj["kind"])

    def _learn_cluster_names(self, docs: Iterable[Json]) -> None:
        for doc in docs:
            if not self._resource_of(doc).namespaced:
                self.cluster_names.setdefault(doc["kind"], set()).add(doc["metadata"]["name"])

    def localise(self, value: Any, key: str = "") -> Any:
        """Give cluster-scoped names their prefix wherever the objects mention them."""
        if isinstance(value, list):
            return [self.localise(item) for item in value]
        if not isinstance(value, dict):
            kind = {"runtimeClassName": "RuntimeClass", "priorityClassName": "PriorityClass"}.get(key)
            return self.prefix + value if kind and value in self.cluster_names.get(kind, ()) else value
        out = {name: self.localise(item, name) for name, item in value.items()}
        if key == "runtimeRef":
            kind = out.get("kind", "ClusterTrainingRuntime")
            if out.get("name") in self.cluster_names.get(kind, ()):
                out["name"] = self.prefix + out["name"]
        return out

    def prepare(self, doc: Json) -> Json:
        doc = self.localise(doc)
        resource = self._resource_of(doc)
        metadata = doc.setdefault("metadata", {})
        if resource.namespaced:
            metadata["namespace"] = self.namespace
        elif metadata.get("name") in self.cluster_names.get(doc["kind"], ()):
            metadata["name"] = self.prefix + metadata["name"]
        for reference in metadata.get("ownerReferences") or []:
            if reference.get("uid") == "<trainjob>":
                reference["uid"] = self.get_trainjob().body["metadata"]["uid"]
        return doc

    def target(self, spec: Json) -> tuple[str, str, str]:
        kind = spec["kind"]
        api_version = spec.get("apiVersion") or DEFAULT_API_VERSION[kind]
        name = spec.get("name", self.trainjob_name)
        if name in self.cluster_names.get(kind, ()) and not self.cluster.resource(api_version, kind).namespaced:
            name = self.prefix + name
        return api_version, kind, name

    # -- outputs -------------------------------------------------------------------

    def anonymise(self, value: Any) -> Any:
        """Take the names of this run out of every string."""
        if isinstance(value, dict):
            return {self.anonymise(key): self.anonymise(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.anonymise(item) for item in value]
        if isinstance(value, str):
            return value.replace(self.prefix, "").replace(self.namespace, "<namespace>")
        return value

    def clean(self, obj: Json) -> Json:
        cleaned: Json = self.anonymise(normalise_times(strip_metadata(obj), self.literal_times))
        return cleaned

    def normalise(self, obj: Json, own: bool = False) -> Json:
        obj = self.clean(obj)
        if obj.get("kind") == "Secret" and not own:
            normalise_secret(obj)
        elif obj.get("kind") == "ConfigMap" and not own:
            normalise_config_map(obj, self._name_snapshot)
        return obj

    def _plain_runtime(self, runtime: Json) -> Json:
        """A runtime without noise and without finalizers, which come and go on their own."""
        plain: Json = prune_noise(self.clean(runtime))
        plain.get("metadata", {}).pop("finalizers", None)
        return plain

    def _name_snapshot(self, parsed: Json) -> Any:
        plain = self._plain_runtime(parsed)
        kind, name = plain.get("kind", ""), plain.get("metadata", {}).get("name", "")
        if not self.about.get("fullSnapshot"):
            for number, version in enumerate(self.runtime_versions.get((kind, name), []), 1):
                if canonical(plain) == canonical(version):
                    return f"<YAML of {kind}/{name}, version {number}>"
        return {"<yaml>": plain}

    def note_warnings(self, where: str, reply: Reply) -> None:
        for warning in reply.warnings:
            entry = self.anonymise(describe_warning(warning))
            self.warnings.append({"at": where, **entry})

    # -- actions -------------------------------------------------------------------

    def create(self, doc: Json, where: str) -> None:
        doc = self.prepare(doc)
        path = self.cluster.path(doc["apiVersion"], doc["kind"], self.namespace)
        reply = self._patiently(lambda: self.cluster.request("POST", f"{path}?fieldManager={FIELD_MANAGER}", doc))
        self.last_action = time.monotonic()
        self.note_warnings(where, reply)
        if not reply.ok:
            raise Rejected(reply)
        self.remember(reply.body)

    def _patiently(self, send: Callable[[], Reply]) -> Reply:
        """Repeat a request while the webhooks are out of reach or have not seen our objects yet."""
        reply = send()
        for _ in range(6):
            message = str(reply.body.get("message"))
            unreachable = reply.code == 500 and "failed to call webhook" in message
            behind = (
                reply.code == 403
                and "not found" in message
                and any(f'"{item.name}"' in message for item in self.created if not item.deleted)
            )
            if not unreachable and not behind:
                break
            time.sleep(1)
            reply = send()
        return reply

    def remember(self, stored: Json) -> None:
        key = (stored["kind"], stored["metadata"]["name"])
        entry = next((item for item in self.created if (item.kind, item.name) == key), None)
        if entry is None:
            entry = Created(stored["apiVersion"], *key, baseline={})
            self.created.append(entry)
        entry.baseline, entry.deleted = self.clean(stored), False
        if stored["kind"].endswith("TrainingRuntime"):
            versions = self.runtime_versions.setdefault((key[0], self.anonymise(key[1])), [])
            plain = self._plain_runtime(stored)
            if plain not in versions:
                versions.append(plain)

    def get_trainjob(self) -> Reply:
        return self.cluster.request("GET", self.cluster.path(TRAINER, "TrainJob", self.namespace, self.trainjob_name))

    # -- states --------------------------------------------------------------------

    def _list(self, api_version: str, kind: str) -> list[Json]:
        try:
            path = self.cluster.path(api_version, kind, self.namespace)
        except ClusterError:
            return []
        reply = self.cluster.request("GET", path)
        items = reply.body.get("items", []) if reply.ok else []
        return [{"apiVersion": api_version, "kind": kind, **item} for item in items]

    def _events(self) -> list[Json]:
        found = {
            (
                event.get("type", ""),
                event.get("reason", ""),
                event.get("action", ""),
                event["regarding"].get("kind", ""),
            )
            for event in self._list("events.k8s.io/v1", "Event")
        }
        return [dict(zip(("type", "reason", "action", "regarding"), entry, strict=True)) for entry in sorted(found)]

    def state(self, thorough: bool) -> Json:
        """The normalised state of the namespace."""
        out: Json = {}
        if self.trainjob_name:
            reply = self.get_trainjob()
            out["trainJob"] = self._trainjob(reply.body) if reply.ok else None
        mine = {(item.kind, item.name) for item in self.created if not item.deleted}
        objects = [
            self.normalise(obj)
            for api_version, kind in (LOOKED_AT if thorough else POLLED)
            for obj in self._list(api_version, kind)
            if (kind, obj["metadata"]["name"]) not in mine | AMBIENT
        ]
        out["objects"] = sorted(objects, key=lambda obj: (obj["kind"], obj["apiVersion"], obj["metadata"]["name"]))
        events = self._events()
        if events:
            out["events"] = events
        if thorough:
            changed = list(self._changed())
            if changed:
                out["changed"] = changed
        return out

    def _trainjob(self, obj: Json) -> Json:
        obj = self.clean(obj)
        metadata = {
            key: value
            for key, value in obj["metadata"].items()
            if key not in ("namespace",) and value not in (None, {}, [])
        }
        state = {"metadata": metadata, "spec": obj.get("spec"), "status": obj.get("status")}
        return {key: value for key, value in state.items() if value is not None}

    def _changed(self) -> Iterator[Json]:
        """Objects of the case that somebody else has changed since."""
        for item in self.created:
            if item.deleted or (item.kind == "TrainJob" and item.name == self.trainjob_name):
                continue
            reply = self.cluster.request(
                "GET", self.cluster.path(item.api_version, item.kind, self.namespace, item.name)
            )
            if reply.code == 404:
                yield {"kind": item.kind, "name": self.anonymise(item.name), "gone": True}
            elif reply.ok and self.clean(reply.body) != item.baseline:
                yield self.normalise(reply.body, own=True)

    def settle(self, expected: Json | None = None, final: bool = False) -> Json:
        """Wait until the manager has nothing left to do and return the state.

        With an expectation, a state that differs is given the whole timeout to become right.
        """
        options = self.options
        quiet = float(self.about.get("quiet") or options.quiet)
        if options.record and final:
            quiet *= 2
        deadline = time.monotonic() + options.timeout
        previous: Json | None = None
        since = time.monotonic()
        while True:
            current = self.state(thorough=False)
            now = time.monotonic()
            if current != previous:
                previous, since = current, now
            calm = min(now - since, now - self.last_action)
            # Nothing to see yet may just mean that the manager is slow.
            needed = quiet if current["objects"] else quiet * 2
            if calm >= needed:
                if not final:
                    return current
                whole = self.state(thorough=True)
                if expected is None or self.same(whole, expected) or now > deadline:
                    return whole
            if now > deadline:
                return self.state(thorough=True) if final else current
            time.sleep(options.interval)

    def same(self, left: Any, right: Any) -> bool:
        return bool(canonical(left, self.rules) == canonical(right, self.rules))

    # -- steps ---------------------------------------------------------------------

    def run_step(self, step: Json, number: int, expected: Json) -> Json:
        """Perform one entry of steps.yaml and return what there is to record about it."""
        action = step["do"]
        where = f"step {number}"
        if action == "observe":
            return {"observed": self.settle(expected.get("observed"), final=True)}
        if action == "wait":
            time.sleep(float(step["seconds"]))
            return {}
        if action == "waitFor":
            return {} if self._wait_for(step) else {"timedOut": True}
        self.settle()
        if action == "create":
            try:
                self._learn_cluster_names([step["object"]])
                self.create(step["object"], where)
            except Rejected as refusal:
                return {"rejected": describe_rejection(refusal.reply)}
            return {}
        if action == "report":
            return {"answer": self._report(step)}
        api_version, kind, name = self.target(step["target"])
        path = self.cluster.path(api_version, kind, self.namespace, name, step.get("subresource", ""))
        if action == "delete":
            reply = self.cluster.request("DELETE", path)
            for item in self.created:
                if (item.kind, item.name) == (kind, name):
                    item.deleted = True
        elif action == "patch":
            content_type = {
                "merge": "application/merge-patch+json",
                "json": "application/json-patch+json",
            }[step.get("type", "merge")]
            body = self.localise(step["body"])
            reply = self._patiently(
                lambda: self.cluster.request("PATCH", f"{path}?fieldManager={FIELD_MANAGER}", body, content_type)
            )
            mine = {(item.kind, item.name) for item in self.created}
            if reply.ok and (kind, name) in mine:
                self.remember(reply.body)
        else:
            raise ClusterError(f"unknown step {action!r}")
        self.last_action = time.monotonic()
        self.note_warnings(where, reply)
        return {} if reply.ok else {"rejected": describe_rejection(reply)}

    def _wait_for(self, step: Json) -> bool:
        api_version, kind, name = self.target(step["target"])
        path = self.cluster.path(api_version, kind, self.namespace, name)
        deadline = time.monotonic() + float(step.get("timeout", self.options.timeout))
        while time.monotonic() < deadline:
            reply = self.cluster.request("GET", path)
            if step.get("absent"):
                if reply.code == 404:
                    return True
            elif reply.ok and ("path" not in step or _lookup(reply.body, step["path"]) == step.get("equals")):
                return True
            time.sleep(0.25)
        return False

    def _report(self, step: Json) -> Json:
        """Send a progress report to the status server, as a training pod would."""
        server = urllib.parse.urlsplit(self.options.status_server or "")
        name = step.get("trainJob", self.trainjob_name)
        path = step.get("path", f"/apis/{TRAINER}/namespaces/{self.namespace}/trainjobs/{name}/status")
        path = path.replace("<namespace>", self.namespace)
        headers = {"Content-Type": "application/json"}
        token = step.get("token", {})
        if isinstance(token, dict):
            namespace = token.get("namespace", self.namespace)
            audience = token.get("audience", f"{TRAINER}/namespaces/{self.namespace}/trainjobs/{name}/status")
            account = self.cluster.path(
                "v1", "ServiceAccount", namespace, token.get("serviceAccount", "default"), "token"
            )
            request = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"audiences": [audience.replace("<namespace>", self.namespace)], "expirationSeconds": 900},
            }
            issued = self.cluster.request("POST", account, request)
            if not issued.ok:
                raise ClusterError(f"no token: {issued.body.get('message')}")
            headers["Authorization"] = f"{token.get('scheme', 'Bearer')} {issued.body['status']['token']}"
        elif token != "none":
            headers["Authorization"] = str(token)
        body = step.get("body", "")
        payload = body if isinstance(body, str) else json.dumps(body)
        payload = payload * int(step.get("repeat", 1))
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(server.hostname or "", server.port or 443, timeout=30, context=tls)
        try:
            connection.request(step.get("method", "POST"), path, payload.encode(), headers)
            answer = connection.getresponse()
            raw = answer.read()
        finally:
            connection.close()
        self.last_action = time.monotonic()
        try:
            parsed = json.loads(raw)
        except ValueError:
            parsed = {}
        if answer.status >= 400:
            return {"code": answer.status, "reason": parsed.get("reason", "")}
        return {"code": answer.status, "body": self.anonymise(normalise_times(parsed, self.literal_times))}

    # -- the whole case ------------------------------------------------------------

    def replay(self, expected: Json) -> Json:
        cluster = self.cluster
        actual: Json = {}
        namespace = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": self.namespace, "labels": {RUN_LABEL: self.options.run}},
        }
        reply = cluster.request("POST", "/api/v1/namespaces", namespace)
        if not reply.ok:
            raise ClusterError(f"cannot create namespace: {reply.body.get('message')}")
        runtimes = load_documents(self.folder / "runtime.yaml")
        self._learn_cluster_names(runtimes)
        for position, doc in enumerate(runtimes, 1):
            where = f"runtime.yaml#{position}"
            try:
                self.create(doc, where)
            except Rejected as refusal:
                actual["rejected"] = {"at": where, **describe_rejection(refusal.reply)}
                return self._with_warnings(actual)
        trainjob = load_documents(self.folder / "trainjob.yaml")[0]
        # A moment for the manager to see the runtimes, which its webhook looks up in a cache.
        time.sleep(0.3)
        try:
            self.create(trainjob, "trainjob.yaml")
        except Rejected as refusal:
            actual["rejected"] = {"at": "trainjob.yaml", **describe_rejection(refusal.reply)}
            return self._with_warnings(actual)
        self.trainjob_name = trainjob["metadata"]["name"]
        steps = (load_documents(self.folder / "steps.yaml") or [[]])[0]
        wanted_steps = {entry["step"]: entry for entry in expected.get("steps") or []}
        results: list[Json] = []
        for number, step in enumerate(steps, 1):
            result = self.run_step(step, number, wanted_steps.get(number, {}))
            if result:
                results.append({"step": number, **result})
        if results:
            actual["steps"] = results
        wanted: Json = {key: expected[key] for key in ("trainJob", "objects", "events", "changed") if key in expected}
        actual.update(self.settle(wanted or None, final=True))
        return self._with_warnings(actual)

    def _with_warnings(self, actual: Json) -> Json:
        if self.warnings:
            actual["warnings"] = self.warnings
        return actual

    def clean_up(self) -> None:
        """Delete the objects of the case; namespaces go at the end of the run."""
        cluster = self.cluster
        jobs = cluster.path(TRAINER, "TrainJob", self.namespace)
        cluster.request("DELETE", f"{jobs}?propagationPolicy=Background")
        cluster.request("DELETE", f"/api/v1/namespaces/{self.namespace}")
        empty_namespace(cluster, self.namespace)
        for item in self.created:
            if not cluster.resource(item.api_version, item.kind).namespaced:
                cluster.request("DELETE", cluster.path(item.api_version, item.kind, "", item.name))


def _lookup(value: Any, path: str) -> Any:
    """Follow a path such as ``status.conditions[type=Failed].status``."""
    for name, key, wanted in re.findall(r"([^.\[]+)(?:\[(\w+)=([^\]]+)\])?", path):
        value = value.get(name) if isinstance(value, dict) else None
        if key:
            value = next((item for item in value or [] if str(item.get(key)) == wanted), None)
    return value


def empty_namespace(cluster: Cluster, namespace: str) -> None:
    for api_version, kind in CLEANED:
        try:
            path = cluster.path(api_version, kind, namespace)
        except ClusterError:
            continue
        items = cluster.request("GET", path).body.get("items") or []
        for item in items:
            name = item["metadata"]["name"]
            if item["metadata"].get("finalizers"):
                cluster.request(
                    "PATCH", f"{path}/{name}", {"metadata": {"finalizers": None}}, "application/merge-patch+json"
                )
            cluster.request("DELETE", f"{path}/{name}?propagationPolicy=Background")


def remove_namespaces(cluster: Cluster, names: Iterable[str], patience: float = 10.0) -> None:
    """Wait for namespaces to go; finish them by hand where no namespace controller runs."""
    left = set(names)
    deadline = time.monotonic() + patience
    while left:
        for name in sorted(left):
            reply = cluster.request("GET", f"/api/v1/namespaces/{name}")
            if reply.code == 404:
                left.discard(name)
            elif time.monotonic() > deadline:
                empty_namespace(cluster, name)
                body = reply.body
                body["spec"] = {"finalizers": []}
                cluster.request("PUT", f"/api/v1/namespaces/{name}/finalize", body)
                left.discard(name)
        if left:
            time.sleep(min(1.0, patience))


def preflight(cluster: Cluster) -> None:
    """Complain early when the cluster is not what the cases need."""
    for api_version, kind in (*POLLED, (TRAINER, "TrainJob"), (TRAINER, "TrainingRuntime")):
        cluster.resource(api_version, kind)
    probe = {
        "apiVersion": TRAINER,
        "kind": "TrainJob",
        "metadata": {"name": "preflight"},
        "spec": {"runtimeRef": {"name": "no-such-runtime"}},
    }
    reply = cluster.request("POST", f"/apis/{TRAINER}/namespaces/default/trainjobs?dryRun=All", probe)
    if reply.ok:
        raise ClusterError("the validating webhook for TrainJobs is missing")
    if reply.code != 403:
        raise ClusterError(f"the webhooks do not work: {reply.body.get('message')}")


def purge(cluster: Cluster) -> int:
    """Remove namespaces and cluster-scoped objects of runs that did not end properly."""
    reply = cluster.request("GET", f"/api/v1/namespaces?labelSelector={RUN_LABEL}")
    names = [item["metadata"]["name"] for item in reply.body.get("items", [])]
    for name in names:
        cluster.request("DELETE", cluster.path(TRAINER, "TrainJob", name) + "?propagationPolicy=Background")
        cluster.request("DELETE", f"/api/v1/namespaces/{name}")
        empty_namespace(cluster, name)
    count = len(names)
    for kind in ("ClusterTrainingRuntime", "RuntimeClass", "PriorityClass"):
        path = cluster.path(DEFAULT_API_VERSION[kind], kind, "")
        for item in cluster.request("GET", path).body.get("items", []):
            if PREFIX_RE.match(item["metadata"]["name"]):
                cluster.request("DELETE", f"{path}/{item['metadata']['name']}")
                count += 1
    remove_namespaces(cluster, names, patience=2.0)
    return count


# --------------------------------------------------------------------------------------
# Running
# --------------------------------------------------------------------------------------


def keep_meanings(new: Any, old: Any) -> None:
    """Carry hand-written meanings over from an earlier recording."""

    def index(value: Any, into: dict[str, str]) -> None:
        if isinstance(value, dict):
            if value.get("meaning"):
                into[_meaning_key(value)] = value["meaning"]
            for item in value.values():
                index(item, into)
        elif isinstance(value, list):
            for item in value:
                index(item, into)

    def fill(value: Any) -> None:
        if isinstance(value, dict):
            if "meaning" in value and not value["meaning"]:
                value["meaning"] = known.get(_meaning_key(value), "")
            for item in value.values():
                fill(item)
        elif isinstance(value, list):
            for item in value:
                fill(item)

    known: dict[str, str] = {}
    index(old, known)
    fill(new)


def _meaning_key(entry: Json) -> str:
    return json.dumps({key: value for key, value in entry.items() if key != "meaning"}, sort_keys=True)


def without_additions(actual: Json, stored: Json) -> Json:
    """What a manager may add without breaking a client is no difference: see "Additions" in README.md."""

    def strip(value: Any, wanted: Any) -> Any:
        if isinstance(value, list):
            others = wanted if isinstance(wanted, list) else []
            return [strip(item, others[i] if i < len(others) else None) for i, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        wanted = wanted if isinstance(wanted, dict) else {}
        out = {name: strip(item, wanted.get(name)) for name, item in value.items()}
        if isinstance(value.get("conditions"), list):
            kept = [c for c in value["conditions"] if not (isinstance(c, dict) and c.get("type") == "Blocked")]
            others = {c.get("type"): c for c in wanted.get("conditions") or [] if isinstance(c, dict)}  # type: ignore[assignment]
            for condition in kept:
                if "observedGeneration" not in others.get(condition.get("type"), {}):  # type: ignore[attr-defined]
                    condition.pop("observedGeneration", None)
            if kept or "conditions" in wanted:
                out["conditions"] = kept
            else:
                del out["conditions"]
        return out

    out: Json = strip(copy.deepcopy(actual), stored)
    expected_warnings = stored.get("warnings") or []
    if "warnings" in out:
        # `meaning` is for people; a warning that was just given has none.
        known = [(warning.get("at"), warning.get("mentions")) for warning in expected_warnings]
        out["warnings"] = [
            warning for warning in out["warnings"] if (warning.get("at"), warning.get("mentions")) in known
        ]
        if not out["warnings"]:
            del out["warnings"]
    return out


def run_case(folder: Path, number: int, cluster: Cluster, options: Options) -> Outcome:
    started = time.monotonic()
    case = Case(folder, cluster, options, number)
    path = folder / ("expected.ours.yaml" if case.about.get("differs") else "expected.yaml")
    stored: Json = (load_documents(path) or [{}])[0]
    try:
        actual = case.replay({} if options.record else stored)
    except Exception:  # a broken case must not end the run
        return Outcome(folder.name, False, traceback.format_exc(), seconds=time.monotonic() - started)
    finally:
        if not options.keep:
            try:
                case.clean_up()
            except Exception:
                traceback.print_exc()
    seconds = time.monotonic() - started
    if options.record:
        keep_meanings(actual, stored)
        path.write_text(dump_yaml(actual), encoding="utf-8")
        return Outcome(folder.name, True, seconds=seconds)
    if not stored:
        return Outcome(folder.name, False, f"there is no {path.name}\n", seconds=seconds)
    left, right = canonical(stored, case.rules), canonical(without_additions(actual, stored), case.rules)
    declared, suspect = bool(case.about.get("differs")), bool(case.about.get("suspect"))
    if left == right:
        return Outcome(folder.name, True, declared=declared, seconds=seconds)
    diff = difflib.unified_diff(
        dump_yaml(left).splitlines(keepends=True),
        dump_yaml(right).splitlines(keepends=True),
        f"{folder.name}/{path.name}",
        f"{folder.name}/actual",
        n=4,
    )
    return Outcome(folder.name, False, "".join(diff), declared=declared, suspect=suspect, seconds=seconds)


def find_cases(roots: Iterable[Path], patterns: Iterable[str], gates: frozenset[str]) -> tuple[list[Path], int]:
    wanted = [re.compile(pattern) for pattern in patterns]
    found: list[Path] = []
    skipped = 0
    for root in roots:
        for folder in sorted(root.iterdir()):
            if not (folder / "case.yaml").exists():
                continue
            if wanted and not any(pattern.search(folder.name) for pattern in wanted):
                continue
            needs = (load_documents(folder / "case.yaml") or [{}])[0].get("featureGates") or {}
            if frozenset(name for name, enabled in needs.items() if enabled) != gates:
                skipped += 1
                continue
            found.append(folder)
    return found, skipped


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="compare with expected.yaml (the default)")
    mode.add_argument("--record", action="store_true", help="write expected.yaml")
    mode.add_argument("--purge", action="store_true", help="only remove what killed runs left behind")
    parser.add_argument("--cases", action="append", type=Path, help="folder with cases (repeatable; default: ./cases)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="REGEX", help="select cases by name (repeatable)"
    )
    parser.add_argument(
        "--kubeconfig", type=Path, default=Path(os.environ.get("KUBECONFIG", "~/.kube/config")).expanduser()
    )
    parser.add_argument("--context", help="context of the kubeconfig")
    parser.add_argument("--jobs", type=int, default=8, help="cases replayed at once (default 8)")
    parser.add_argument(
        "--timeout", type=float, default=30.0, help="seconds a state may take to become right (default 30)"
    )
    parser.add_argument(
        "--quiet", type=float, default=1.5, help="seconds without change that count as settled (default 1.5)"
    )
    parser.add_argument("--interval", type=float, default=0.5, help="seconds between two looks (default 0.5)")
    parser.add_argument(
        "--gate", action="append", default=[], help="feature gate that the manager runs with (repeatable)"
    )
    parser.add_argument("--status-server", metavar="URL", help="where the manager takes progress reports")
    parser.add_argument("--keep", action="store_true", help="leave the objects in place")
    parser.add_argument("--verbose", action="store_true", help="print passed cases too")
    arguments = parser.parse_args(argv)
    arguments.cases = arguments.cases or [here / "cases"]
    return arguments


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    cluster = Cluster(arguments.kubeconfig, arguments.context)
    if arguments.purge:
        print(f"removed {purge(cluster)} namespaces and cluster-scoped objects")
        return 0
    options = Options(
        record=arguments.record,
        jobs=arguments.jobs,
        timeout=arguments.timeout,
        quiet=arguments.quiet,
        interval=arguments.interval,
        keep=arguments.keep,
        gates=frozenset(arguments.gate),
        status_server=arguments.status_server,
    )
    folders, skipped = find_cases(arguments.cases, arguments.only, options.gates)
    if not folders:
        print("no case matches", file=sys.stderr)
        return 2
    try:
        preflight(cluster)
    except (ClusterError, OSError) as problem:
        print(f"cannot run any case: {problem}", file=sys.stderr)
        return 2
    started = time.monotonic()
    outcomes: list[Outcome] = []
    try:
        with concurrent.futures.ThreadPoolExecutor(max_workers=options.jobs) as pool:
            running = [
                pool.submit(run_case, folder, number, cluster, options) for number, folder in enumerate(folders, 1)
            ]
            for future in concurrent.futures.as_completed(running):
                outcome = future.result()
                outcomes.append(outcome)
                if not outcome.passed:
                    word = "FAILED (suspect)" if outcome.suspect else "FAILED"
                    print(f"{word} {outcome.case} ({outcome.seconds:.1f}s)\n{outcome.detail}", flush=True)
                elif arguments.verbose:
                    print(
                        f"{'recorded' if options.record else 'passed'} {outcome.case} ({outcome.seconds:.1f}s)",
                        flush=True,
                    )
    finally:
        if not options.keep:
            names = [f"cf-{options.run}-{number:03d}" for number in range(1, len(folders) + 1)]
            remove_namespaces(cluster, names, patience=5.0)
    failed = sum(1 for outcome in outcomes if not outcome.passed)
    suspect = sum(1 for outcome in outcomes if not outcome.passed and outcome.suspect)
    declared = sum(1 for outcome in outcomes if outcome.passed and outcome.declared)
    passed = sum(1 for outcome in outcomes if outcome.passed)
    verb = "recorded" if options.record else "passed"
    extra = f" ({suspect} of them suspect)" if suspect else ""
    extra += f", {declared} of the passed differ from the recording as declared" if declared else ""
    extra += f", {skipped} skipped for their feature gates" if skipped else ""
    print(f"{passed} {verb}, {failed} failed{extra} in {time.monotonic() - started:.0f}s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
