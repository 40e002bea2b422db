# SPDX-License-Identifier: Apache-2.0
"""Generates the table of Go types by which the local API server writes documents of built-in kinds.

The published schemas do not say which fields are pointers, and so not which zero values the real server drops. Reads
`types.go` of k8s.io/api, k8s.io/apimachinery and k8s.io/kube-aggregator from the Go module cache, which
`make control-plane` fills. Run it when the version of Kubernetes changes.
"""

import functools
import json
import re
import subprocess
from pathlib import Path

from hack.generated import generated
from trainwright.controller.local.types.model import GO_TYPES

VERSION = "0.36.3"
"""Of the modules; Kubernetes 1.36.3."""
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_META = "meta/v1"
_VERSION = re.compile(r"v\d+")
_WRITTEN = {
    **dict.fromkeys(("int32", "int64", "byte", "float64"), "number"),
    "string": "string",
    "bool": "bool",
    "[]byte": "bytes",
    "resource.Quantity": "quantity",
    "intstr.IntOrString": "intorstring",
    "types.UID": "string",
    "runtime.RawExtension": "any",
}
_OPAQUE = {"meta/v1.Time": "time", "meta/v1.MicroTime": "microtime", "meta/v1.FieldsV1": "any"}
_PREFIXES = {"v1": "core/v1", "corev1": "core/v1", "metav1": "meta/v1", "apiv1": "core/v1"}
_FIELD = re.compile(r'^\s*(?:(?P<name>\w+)\s+)?(?P<type>[\w.*\[\]]+)\s+`[^`]*json:"(?P<tag>[^"]*)"')


class GoTypes:
    """Type declarations by package and name, and the table of those that are reached from the kinds."""

    def __init__(self) -> None:
        self._structs: dict[str, list[str]] = {}
        self._named: dict[str, str] = {}
        self.table: dict[str, dict[str, str]] = {}
        self._read(_META, modules() / f"apimachinery@v{VERSION}/pkg/apis/meta/v1/types.go")
        for folder in (modules() / f"api@v{VERSION}", modules() / f"kube-aggregator@v{VERSION}/pkg/apis"):
            for path in sorted(folder.glob("*/v*/types.go")):
                if _VERSION.fullmatch(path.parent.name):
                    self._read("/".join(path.parts[-3:-1]), path)
        for name, lines in self._structs.items():
            if any(line.split()[:1] == ["metav1.ObjectMeta"] for line in lines):
                self._add(name)

    def _read(self, package: str, path: Path) -> None:
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        for found in STRUCT.finditer(text):
            self._structs[f"{package}.{found[1]}"] = found[2].splitlines()
        for found in re.finditer(r"^type (\w+) ([\w.\[\]*]+)(?: +//.*)?$", text, re.MULTILINE):
            self._named[f"{package}.{found[1]}"] = found[2]

    def _add(self, name: str) -> None:
        if name not in self.table:
            self.table[name] = {}  # before its fields, which may be of the same type
            self.table[name] = self._fields(name)

    def _fields(self, name: str) -> dict[str, str]:
        package = name.rpartition(".")[0]
        made: dict[str, str] = {}
        for line in self._structs[name]:
            found = _FIELD.match(line.partition("//")[0])
            if found is None or found["tag"] == "-":
                continue
            field, *options = found["tag"].split(",")
            if not field:
                made |= self._fields(self._resolve(found["type"], package))
                continue
            flags = ("?" if "omitempty" in options else "") + ("!" if "omitzero" in options else "")
            made[field] = flags + self._expression(found["type"], package)
        return made

    def _resolve(self, text: str, package: str) -> str:
        prefix, dot, short = text.rpartition(".")
        return f"{_PREFIXES[prefix]}.{short}" if dot else f"{package}.{text}"

    def _expression(self, text: str, package: str) -> str:
        """The type of a field: `*`, `[]` and `{}` before a scalar, a struct or a type that writes itself."""
        if text in _WRITTEN:
            return _WRITTEN[text]
        for prefix in ("*", "[]"):
            if text.startswith(prefix):
                return prefix + self._expression(text.removeprefix(prefix), package)
        if text.startswith("map["):
            return "{}" + self._expression(text.partition("]")[2], package)
        name = self._resolve(text, package)
        if name in _OPAQUE:
            return _OPAQUE[name]
        if name in self._structs:
            self._add(name)
            return name
        return self._expression(self._named[name], name.rpartition(".")[0])


def files() -> dict[Path, str]:
    lines = [f" {json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(GoTypes().table.items())]
    return {GO_TYPES: "{\n" + ",\n".join(lines) + "\n}\n"}


@functools.cache
def modules() -> Path:
    """The modules `k8s.io/…` in Go's module cache."""
    return Path(subprocess.check_output(["go", "env", "GOMODCACHE"], text=True).strip()) / "k8s.io"


if __name__ == "__main__":
    raise SystemExit(generated("go_types", "Generate the table of Go types.", files))
