#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates the table of Go types by which the local API server writes documents of built-in kinds.

The published schemas do not say which fields are pointers, and so not which zero values the real server drops. Reads
`types.go` of k8s.io/api and k8s.io/apimachinery from the Go module cache, which `make control-plane` fills. Run it when
the version of Kubernetes changes.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "controller/local/apiserver/strategies/gowriting/go_types.schema.json"
_PACKAGES = {
    "core/v1": "api",
    "batch/v1": "api",
    "coordination/v1": "api",
    "events/v1": "api",
    "scheduling/v1": "api",
    "node/v1": "api",
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
    "core/v1.Secret",
    "core/v1.Service",
    "core/v1.ServiceAccount",
    "batch/v1.Job",
    "coordination/v1.Lease",
    "events/v1.Event",
    "scheduling/v1.PriorityClass",
    "node/v1.RuntimeClass",
    "storage/v1.StorageClass",
    "admissionregistration/v1.MutatingWebhookConfiguration",
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
            made[field] = flags + self._expression(found["type"], package)
        return made

    def _resolve(self, text: str, package: str) -> str:
        prefix, dot, short = text.rpartition(".")
        return f"{_PREFIXES[prefix]}.{short}" if dot else f"{package}.{text}"

    def _expression(self, text: str, package: str) -> str:
        """The type of a field: `*`, `[]` and `{}` before a scalar, a struct or a type that writes itself."""
        if text == "[]byte":
            return "bytes"
        for prefix in ("*", "[]"):
            if text.startswith(prefix):
                return prefix + self._expression(text.removeprefix(prefix), package)
        if text.startswith("map["):
            return "{}" + self._expression(text.partition("]")[2], package)
        if text in _SCALARS or text in _FOREIGN:
            return _SCALARS.get(text) or _FOREIGN[text]
        return self._named(self._resolve(text, package))

    def _named(self, name: str) -> str:
        if name in _OPAQUE:
            return _OPAQUE[name]
        if name in self._sources.structs:
            self.add(name)
            return name
        return self._expression(self._sources.named[name], name.rpartition(".")[0])


def _rendered(cache: Path, version: str) -> str:
    table = Table(Sources(cache, version))
    for kind in _KINDS:
        table.add(kind)
    lines = [f" {json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(table.types.items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    """Exit code 1 with `--check` if the table is not up to date."""
    parser = argparse.ArgumentParser(prog="hack/go_types.py", description="Generate the table of Go types.")
    parser.add_argument("--version", default="v0.36.3", help="of k8s.io/api and k8s.io/apimachinery")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    where = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=False).stdout.strip()
    cache = Path(where) if where else Path.home() / "go/pkg/mod"
    text = _rendered(cache, arguments.version)
    if arguments.check:
        return int(not TARGET.exists() or TARGET.read_text() != text)
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
