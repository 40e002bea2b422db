#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates the tables of Go types by which the local API server writes documents of built-in kinds.

The published schemas do not say which fields are pointers, and so not which zero values the real server drops. The
second table has the structs that the real server works with internally and shows in its messages. Reads `types.go` of
k8s.io/api, k8s.io/apimachinery and k8s.io/kubernetes from the Go module cache, which `make control-plane` fills. Run it
when the version of Kubernetes changes.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent.parent / "controller/local/gowriting"
TARGET = _FOLDER / "go_types.schema.json"
INTERNAL_TARGET = _FOLDER / "go_internal.schema.json"
_PACKAGES = {
    "core/v1": "api",
    "apps/v1": "api",
    "batch/v1": "api",
    "coordination/v1": "api",
    "events/v1": "api",
    "scheduling/v1": "api",
    "node/v1": "api",
    "policy/v1": "api",
    "resource/v1": "api",
    "storage/v1": "api",
    "admissionregistration/v1": "api",
    "rbac/v1": "api",
    "meta/v1": "apimachinery",
}
_KINDS = (
    "core/v1.ConfigMap",
    "core/v1.Event",
    "core/v1.LimitRange",
    "core/v1.Namespace",
    "core/v1.Node",
    "core/v1.PersistentVolume",
    "core/v1.PersistentVolumeClaim",
    "core/v1.Pod",
    "core/v1.ReplicationController",
    "core/v1.Secret",
    "core/v1.Service",
    "core/v1.ServiceAccount",
    "apps/v1.ReplicaSet",
    "apps/v1.StatefulSet",
    "batch/v1.Job",
    "batch/v1.JobTemplateSpec",
    "coordination/v1.Lease",
    "events/v1.Event",
    "scheduling/v1.PriorityClass",
    "node/v1.RuntimeClass",
    "policy/v1.PodDisruptionBudget",
    *(f"resource/v1.{kind}" for kind in ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")),
    *(f"storage/v1.{kind}" for kind in ("CSIDriver", "CSINode", "CSIStorageCapacity", "VolumeAttachment")),
    "storage/v1.StorageClass",
    "admissionregistration/v1.MutatingWebhookConfiguration",
    "admissionregistration/v1.ValidatingAdmissionPolicy",
    "admissionregistration/v1.ValidatingAdmissionPolicyBinding",
    "admissionregistration/v1.ValidatingWebhookConfiguration",
    *(f"rbac/v1.{kind}" for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")),
)
_FOREIGN = {
    "resource.Quantity": "quantity",
    "intstr.IntOrString": "intorstring",
    "types.UID": "string",
    "runtime.RawExtension": "any",
}
_OPAQUE = {"meta/v1.Time": "time", "meta/v1.MicroTime": "microtime", "meta/v1.FieldsV1": "any"}
_SCALARS = dict.fromkeys(("int32", "int64", "byte", "float64"), "number") | {"string": "string", "bool": "bool"}
_PREFIXES = {"v1": "core/v1", "corev1": "core/v1", "metav1": "meta/v1", "apiv1": "core/v1"}
_INTERNAL_PACKAGES = ("core", "batch", "rbac")
_INTERNAL_ROOTS = (
    "core.NodeAddress",
    "core.NodeSelectorTerm",
    "core.PersistentVolumeClaimSpec",
    "core.PersistentVolumeSource",
    "core.PodIP",
    "core.HostIP",
    "core.PodResourceClaim",
    "core.PodTemplateSpec",
    "core.Taint",
    "batch.PodFailurePolicy",
    "batch.SuccessPolicy",
    "rbac.RoleRef",
)
_MOVED = {
    "HostNetwork": "hostNetwork",
    "HostPID": "hostPID",
    "HostIPC": "hostIPC",
    "ShareProcessNamespace": "shareProcessNamespace",
    "HostUsers": "hostUsers",
}
"""Fields of the internal security context of pods that the published API has in the specification."""
_INTERNAL_FIELD = re.compile(r"^\s*(?:(?P<name>\w+)\s+)?(?P<type>[\w.*\[\]]+)\s*(?:`.*`)?\s*$")
_FIELD = re.compile(r'^\s*(?:(?P<name>\w+)\s+)?(?P<type>[\w.*\[\]]+)\s+`[^`]*json:"(?P<tag>[^"]*)"')


class Sources:
    """Type declarations by package and name."""

    def __init__(self, cache: Path, version: str) -> None:
        self.structs: dict[str, list[str]] = {}
        self.named: dict[str, str] = {}
        for package, module in _PACKAGES.items():
            folder = "pkg/apis/meta/v1" if module == "apimachinery" else package
            path = cache / "k8s.io" / f"{module}@{version}" / folder / "types.go"
            self._read(package, path.read_text())

    def _read(self, package: str, text: str) -> None:
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        for found in re.finditer(r"^type (\w+) struct \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
            self.structs[f"{package}.{found[1]}"] = found[2].splitlines()
        for found in re.finditer(r"^type (\w+) ([\w.\[\]*]+)(?: +//.*)?$", text, re.MULTILINE):
            self.named[f"{package}.{found[1]}"] = found[2]


class Table:
    """The types that are reached from the kinds."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.types: dict[str, dict[str, str]] = {}

    def add(self, name: str) -> None:
        """Add a struct and what it holds."""
        if name in self.types:
            return
        self.types[name] = {}
        self.types[name] = self._fields(name)

    def _fields(self, name: str) -> dict[str, str]:
        package = name.rpartition(".")[0]
        made: dict[str, str] = {}
        for line in self._sources.structs[name]:
            found = _FIELD.match(line.partition("//")[0]) if "`" in line else None
            if found is None:
                continue
            field, *options = found["tag"].split(",")
            if field == "-":
                continue
            if not field:
                embedded = self._resolve(found["type"], package)
                made |= self._fields(embedded)
                continue
            flags = ("?" if "omitempty" in options else "") + ("!" if "omitzero" in options else "")
            made[field] = flags + self.expression(found["type"], package)
        return made

    def names(self, name: str) -> dict[str, str]:
        """The names on the wire by the Go names of the fields of a struct."""
        made: dict[str, str] = {}
        for line in self._sources.structs[name]:
            found = _FIELD.match(line.partition("//")[0]) if "`" in line else None
            if found is None:
                continue
            field = found["tag"].partition(",")[0]
            if field:
                made[found["name"]] = field
            else:
                made |= self.names(self._resolve(found["type"], name.rpartition(".")[0]))
        return made

    def _resolve(self, text: str, package: str) -> str:
        prefix, dot, short = text.rpartition(".")
        return f"{_PREFIXES[prefix]}.{short}" if dot else f"{package}.{text}"

    def expression(self, text: str, package: str) -> str:
        """The type of a field: `*`, `[]` and `{}` before a scalar, a struct or a type that writes itself."""
        if text == "[]byte":
            return "bytes"
        for prefix in ("*", "[]"):
            if text.startswith(prefix):
                return prefix + self.expression(text.removeprefix(prefix), package)
        if text.startswith("map["):
            return "{}" + self.expression(text.partition("]")[2], package)
        if text in _SCALARS or text in _FOREIGN:
            return _SCALARS.get(text) or _FOREIGN[text]
        return self._named(self._resolve(text, package))

    def _named(self, name: str) -> str:
        if name in _OPAQUE:
            return _OPAQUE[name]
        if name in self._sources.structs:
            self.add(name)
            return name
        return self.expression(self._sources.named[name], name.rpartition(".")[0])


class InternalTable:
    """The internal types that are reached from the roots: Go names to the names on the wire and the types."""

    def __init__(self, cache: Path, version: str, published: Table) -> None:
        self._structs: dict[str, list[str]] = {}
        self._named: dict[str, str] = {}
        self._published = published
        self.types: dict[str, dict[str, str]] = {}
        module = f"kubernetes@v1{version.removeprefix('v0')}"
        for package in _INTERNAL_PACKAGES:
            text = (cache / "k8s.io" / module / "pkg/apis" / package / "types.go").read_text()
            text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
            for found in re.finditer(r"^type (\w+) struct \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
                self._structs[f"{package}.{found[1]}"] = found[2].splitlines()
            for found in re.finditer(r"^type (\w+) ([\w.\[\]*]+)(?: +//.*)?$", text, re.MULTILINE):
                self._named[f"{package}.{found[1]}"] = found[2]

    def add(self, name: str) -> None:
        """Add a struct and what it holds."""
        if name in self.types:
            return
        self.types[name] = {}
        package, _, short = name.partition(".")
        self.types[name] = self._fields(name, self._published.names(f"{package}/v1.{short}"))

    def _fields(self, name: str, wire: dict[str, str]) -> dict[str, str]:
        package = name.partition(".")[0]
        made: dict[str, str] = {}
        for line in self._structs[name]:
            found = _INTERNAL_FIELD.match(line.partition("//")[0])
            if found is None:
                continue
            field, text = found["name"], found["type"]
            if field is None and text == "metav1.ObjectMeta":
                made["metadata"] = "metadata meta/v1.ObjectMeta"
            elif field is None:
                made |= self._fields(f"{package}.{text}", wire)
            else:
                known = wire.get(field) or _MOVED[field]
                made[field] = f"{known} {self._expression(text, package)}"
        return made

    def _expression(self, text: str, package: str) -> str:
        known = ({"[]byte": "bytes"} | _SCALARS | _FOREIGN).get(text)
        if known:
            return known
        for prefix in ("*", "[]"):
            if text.startswith(prefix):
                return prefix + self._expression(text.removeprefix(prefix), package)
        if text.startswith("map["):
            return "{}" + self._expression(text.partition("]")[2], package)
        prefix, _, short = text.rpartition(".")
        if prefix == "metav1":
            return self._published.expression(text, "meta/v1")
        name = f"{'core' if prefix == 'api' else prefix or package}.{short}"
        if name in self._structs:
            self.add(name)
            return name
        return self._expression(self._named[name], name.partition(".")[0])


def _rendered(types: dict[str, dict[str, str]]) -> str:
    lines = [f" {json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(types.items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _tables(cache: Path, version: str) -> dict[Path, str]:
    sources = Sources(cache, version)
    table = Table(sources)
    for kind in _KINDS:
        table.add(kind)
    published = _rendered(table.types)
    internal = InternalTable(cache, version, table)
    for root in _INTERNAL_ROOTS:
        internal.add(root)
    return {TARGET: published, INTERNAL_TARGET: _rendered(internal.types)}


def main() -> int:
    """Exit code 1 with `--check` if the table is not up to date."""
    parser = argparse.ArgumentParser(prog="hack/go_types.py", description="Generate the tables of Go types.")
    parser.add_argument("--version", default="v0.36.3", help="of k8s.io/api and k8s.io/apimachinery")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    where = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=False).stdout.strip()
    cache = Path(where) if where else Path.home() / "go/pkg/mod"
    tables = _tables(cache, arguments.version)
    if arguments.check:
        return int(any(not path.exists() or path.read_text() != text for path, text in tables.items()))
    for path, text in tables.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
