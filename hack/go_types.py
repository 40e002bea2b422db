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

from hack.generated import ROOT, generated

TARGET = ROOT / "controller/local/gowriting/go_types.schema.json"
VERSION = "0.36.3"
"""Of the modules; Kubernetes 1.36.3."""
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_META = "meta/v1"
_VERSION = re.compile(r"v\d+")
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

    def __init__(self) -> None:
        self.structs: dict[str, list[str]] = {}
        self.named: dict[str, str] = {}
        meta = modules() / f"apimachinery@v{VERSION}/pkg/apis/meta/v1/types.go"
        self._read(_META, meta.read_text())
        for folder in (modules() / f"api@v{VERSION}", modules() / f"kube-aggregator@v{VERSION}/pkg/apis"):
            for path in sorted(folder.glob("*/v*/types.go")):
                if _VERSION.fullmatch(path.parent.name):
                    self._read("/".join(path.parts[-3:-1]), path.read_text())

    @property
    def kinds(self) -> list[str]:
        """Structs of objects: they have metadata."""
        own = "metav1.ObjectMeta"
        return [name for name, lines in self.structs.items() if any(line.split()[:1] == [own] for line in lines)]

    def _read(self, package: str, text: str) -> None:
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        for found in STRUCT.finditer(text):
            self.structs[f"{package}.{found[1]}"] = found[2].splitlines()
        for found in re.finditer(r"^type (\w+) ([\w.\[\]*]+)(?: +//.*)?$", text, re.MULTILINE):
            self.named[f"{package}.{found[1]}"] = found[2]


class Table:
    """The types that are reached from the kinds."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.types: dict[str, dict[str, str]] = {}

    def add(self, name: str) -> None:
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


def _rendered(types: dict[str, dict[str, str]]) -> str:
    lines = [f" {json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(types.items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def files() -> dict[Path, str]:
    sources = Sources()
    table = Table(sources)
    for kind in sources.kinds:
        table.add(kind)
    return {TARGET: _rendered(table.types)}


@functools.cache
def modules() -> Path:
    """The modules `k8s.io/…` in Go's module cache."""
    where = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=False).stdout.strip()
    return (Path(where) if where else Path.home() / "go/pkg/mod") / "k8s.io"


if __name__ == "__main__":
    raise SystemExit(generated("go_types", "Generate the table of Go types.", files))
