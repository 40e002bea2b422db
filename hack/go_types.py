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
from collections.abc import Iterator, Mapping
from pathlib import Path

from hack.generated import update

_FOLDER = Path(__file__).resolve().parent.parent / "controller/local/gowriting"
TARGET = _FOLDER / "go_types.schema.json"
INTERNAL_TARGET = _FOLDER / "go_internal.schema.json"
_GROUPS = ("core", "apps", "batch", "coordination", "events", "scheduling", "node", "policy", "resource", "storage")
_PACKAGES = (*(f"{group}/v1" for group in (*_GROUPS, "admissionregistration", "rbac")), "meta/v1")
_KINDS = (
    *(f"core/v1.{kind}" for kind in ("ConfigMap", "Event", "LimitRange", "Namespace", "Node", "PersistentVolume")),
    *(f"core/v1.{kind}" for kind in ("PersistentVolumeClaim", "Pod", "ReplicationController", "Secret", "Service")),
    "core/v1.ServiceAccount",
    *("apps/v1.ReplicaSet", "apps/v1.StatefulSet", "batch/v1.Job", "batch/v1.JobTemplateSpec", "coordination/v1.Lease"),
    *("events/v1.Event", "scheduling/v1.PriorityClass", "node/v1.RuntimeClass", "policy/v1.PodDisruptionBudget"),
    *(f"resource/v1.{kind}" for kind in ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")),
    *(f"storage/v1.{kind}" for kind in ("CSIDriver", "CSINode", "CSIStorageCapacity", "VolumeAttachment")),
    "storage/v1.StorageClass",
    *(f"admissionregistration/v1.{kind}WebhookConfiguration" for kind in ("Mutating", "Validating")),
    *(f"admissionregistration/v1.ValidatingAdmissionPolicy{end}" for end in ("", "Binding")),
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
_MOVED = {name: name[0].lower() + name[1:] for name in ("HostNetwork", "HostPID", "HostIPC", "HostUsers")} | {
    "ShareProcessNamespace": "shareProcessNamespace"
}
"""Fields of the internal security context of pods that the published API has in the specification."""
_INTERNAL_FIELD = re.compile(r"^\s*(?:(?P<name>\w+)\s+)?(?P<type>[\w.*\[\]]+)\s*(?:`.*`)?\s*$")
_FIELD = re.compile(r'^\s*(?:(?P<name>\w+)\s+)?(?P<type>[\w.*\[\]]+)\s+`[^`]*json:"(?P<tag>[^"]*)"')


class Table:
    """The types that are reached from those that were added, by package and name."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.types: dict[str, dict[str, str]] = {}
        self._structs: dict[str, list[str]] = {}
        self._named: dict[str, str] = {}
        for package, path in files.items():
            text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
            for found in re.finditer(r"^type (\w+) struct \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
                self._structs[f"{package}.{found[1]}"] = found[2].splitlines()
            for found in re.finditer(r"^type (\w+) ([\w.\[\]*]+)(?: +//.*)?$", text, re.MULTILINE):
                self._named[f"{package}.{found[1]}"] = found[2]

    def add(self, name: str) -> None:
        if name not in self.types:
            self.types[name] = {}
            self.types[name] = self._fields(name)

    def expression(self, text: str, package: str) -> str:
        """The type of a field: `*`, `[]` and `{}` before a scalar, a struct or a type that writes itself."""
        if known := ({"[]byte": "bytes"} | _SCALARS | _FOREIGN).get(text):
            return known
        for prefix in ("*", "[]"):
            if text.startswith(prefix):
                return prefix + self.expression(text.removeprefix(prefix), package)
        if text.startswith("map["):
            return "{}" + self.expression(text.partition("]")[2], package)
        name = self._resolved(text, package)
        if name in _OPAQUE:
            return _OPAQUE[name]
        if name in self._structs:
            self.add(name)
            return name
        return self.expression(self._named[name], name.rpartition(".")[0])

    def rendered(self) -> str:
        lines = [f" {json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(self.types.items())]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def names(self, name: str) -> dict[str, str]:
        """The names on the wire by the Go names of the fields of a struct."""
        return {found["name"]: found["tag"].partition(",")[0] for found, _ in self._tagged(name)}

    def _tagged(self, name: str) -> Iterator[tuple[re.Match[str], str]]:
        """The fields of a struct and of those that are embedded in it, each with its package."""
        package = name.rpartition(".")[0]
        for line in self._structs[name]:
            found = _FIELD.match(line.partition("//")[0]) if "`" in line else None
            if found is not None and found["tag"].partition(",")[0]:
                yield found, package
            elif found is not None:
                yield from self._tagged(self._resolved(found["type"], package))

    def _fields(self, name: str) -> dict[str, str]:
        made: dict[str, str] = {}
        for found, package in self._tagged(name):
            field, *options = found["tag"].split(",")
            if field != "-":
                flags = ("?" if "omitempty" in options else "") + ("!" if "omitzero" in options else "")
                made[field] = flags + self.expression(found["type"], package)
        return made

    def _resolved(self, text: str, package: str) -> str:
        prefix, dot, short = text.rpartition(".")
        return f"{_PREFIXES[prefix]}.{short}" if dot else f"{package}.{text}"


class InternalTable(Table):
    """The same of internal types: Go names to the names on the wire and the types."""

    def __init__(self, files: Mapping[str, Path], published: Table) -> None:
        super().__init__(files)
        self._published = published

    def expression(self, text: str, package: str) -> str:
        """As of published types, which some fields hold."""
        if text.startswith("metav1."):
            return self._published.expression(text, "meta/v1")
        return super().expression(text, package)

    def _fields(self, name: str) -> dict[str, str]:
        package, _, short = name.partition(".")
        return self._with_names(name, self._published.names(f"{package}/v1.{short}"))

    def _with_names(self, name: str, wire: dict[str, str]) -> dict[str, str]:
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
                made |= self._with_names(f"{package}.{text}", wire)
            else:
                made[field] = f"{wire.get(field) or _MOVED[field]} {self.expression(text, package)}"
        return made

    def _resolved(self, text: str, package: str) -> str:
        prefix, _, short = text.rpartition(".")
        return f"{'core' if prefix == 'api' else prefix or package}.{short}"


def tables(cache: Path, version: str) -> dict[Path, str]:
    """The texts of both files, from Go's module cache."""
    published = Table(
        {
            package: cache / f"k8s.io/apimachinery@{version}/pkg/apis/meta/v1/types.go"
            if package == "meta/v1"
            else cache / f"k8s.io/api@{version}" / package / "types.go"
            for package in _PACKAGES
        }
    )
    internal = cache / f"k8s.io/kubernetes@v1{version.removeprefix('v0')}" / "pkg/apis"
    inner = InternalTable({package: internal / package / "types.go" for package in _INTERNAL_PACKAGES}, published)
    for kind in _KINDS:
        published.add(kind)
    text = published.rendered()
    for root in _INTERNAL_ROOTS:
        inner.add(root)
    return {TARGET: text, INTERNAL_TARGET: inner.rendered()}


def main() -> int:
    """Exit code 1 with `--check` if a table is not up to date."""
    parser = argparse.ArgumentParser(prog="python -m hack.go_types", description="Generate the tables of Go types.")
    parser.add_argument("--version", default="v0.36.3", help="of k8s.io/api and k8s.io/apimachinery")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    where = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=False).stdout.strip()
    cache = Path(where) if where else Path.home() / "go/pkg/mod"
    stale = update(tables(cache, arguments.version), check=arguments.check)
    return int(arguments.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
