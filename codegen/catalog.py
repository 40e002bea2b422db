# SPDX-License-Identifier: Apache-2.0
"""All definitions that are compiled: the authored ones, and the types of Kubernetes that they refer to.

It reads api/, completes references, and reports those without a target. `structural` checks the schemas themselves.

The types of Kubernetes come from its published schemas in kubernetes-validate, a dependency at build time, with list
types and merge keys. There every optional field is nullable, scalars with a format are unions, and most defaults are
missing. This module reverts that, adds what api/kubernetes/kinds.yaml supplies, and drops the descriptions.
"""

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path as File
from typing import Any

import jsonschema

from trainwright.api.manifest import Document, ManifestError, Path, documents
from trainwright.codegen.definition import Definition, Kind, Package, Problems, Schema, subschemas
from trainwright.codegen.output import is_generated

_ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
NOWHERE = "x-leads-nowhere"
"""Marks what stands in place of a reference without a target; nothing more is said of it."""

AUTHORED_SCHEMA = "authored.schema.json"
KUBERNETES_TYPES = "kubernetes/kinds.yaml"
_PREFIXES = ("io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apiextensions-apiserver.pkg.apis.")
_QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_EITHER = [{"type": "integer"}, {"type": "string"}]

_SCALARS: dict[str, Schema] = {
    "meta/v1/Quantity": {"anyOf": _EITHER, "pattern": _QUANTITY_PATTERN, "x-kubernetes-int-or-string": True},
    "meta/v1/IntOrString": {"anyOf": _EITHER, "x-kubernetes-int-or-string": True},
    "meta/v1/Time": {"type": "string", "format": "date-time"},
    "meta/v1/MicroTime": {"type": "string", "format": "date-time"},
    "meta/v1/RawExtension": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "meta/v1/FieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
"""Types that are plain values on the wire; references to them are replaced by these schemas."""

_SCALAR_NAMES = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "meta/v1/Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "meta/v1/IntOrString",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "meta/v1/RawExtension",
}

_KEPT = (
    "type",
    "format",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-group-version-kind",
)


class KubernetesTypes:
    """The published types of one version of Kubernetes, by their names in references."""

    def __init__(self, version: str, overlay: dict[str, Schema], additional: dict[str, Schema]) -> None:
        self._raw = _published(version)
        self._names = {_reference(name): name for name in self._raw}
        self._overlay = overlay
        self._additional = additional

    def known(self, key: str) -> bool:
        """Whether a reference names one of Kubernetes' types."""
        return key in self._names or key in self._additional or key in _SCALARS

    def definition(self, key: str) -> Definition:
        """One type, as in a CustomResourceDefinition, with full references."""
        package_key, _, name = key.rpartition("/")
        added = self._additional.get(key)
        schema = _clean(self._raw[self._names[key]]) if added is None else copy.deepcopy(added)
        extra = self._overlay.get(key, {})
        schema.update({word: value for word, value in extra.items() if word != "properties"})
        for member, words in extra.get("properties", {}).items():
            schema["properties"][member].update(words)
        return Definition(self.package(package_key), name, schema)

    def unknown_overlays(self) -> list[tuple[str, str]]:
        """Types and fields of the overlay that Kubernetes does not have."""
        wrong: list[tuple[str, str]] = []
        for key, extra in self._overlay.items():
            published = self._raw.get(self._names.get(key, ""), {}).get("properties", {})
            wrong.extend((key, field) for field in extra.get("properties", {}) if field not in published)
        return wrong

    def package(self, key: str) -> Package:
        """The package behind the first two parts of a reference."""
        short, version = key.split("/")
        group = "" if short in ("core", "meta") else self._group(short, version)
        return Package(key, f"kubernetes/{key}", group, version, foreign=True)

    @cache  # noqa: B019  one instance lives as long as the run
    def _group(self, short: str, version: str) -> str:
        for name, schema in self._raw.items():
            if _reference(name).startswith(f"{short}/{version}/"):
                for kind in schema.get("x-kubernetes-group-version-kind", []):
                    if kind["version"] == version and kind["kind"] == name.rpartition(".")[2]:
                        return str(kind["group"])
        return short


def _published_versions() -> list[str]:
    """The versions of Kubernetes whose schemas are installed, oldest first."""
    found = [re.fullmatch(r"v(\d+\.\d+)\.0-local", folder.name) for folder in _folder().iterdir()]
    return sorted(
        (match[1] for match in found if match), key=lambda version: [int(part) for part in version.split(".")]
    )


def _folder() -> Traversable:
    return resources.files("kubernetes_validate") / "kubernetes-json-schema"


@cache
def _published(version: str) -> dict[str, Schema]:
    text = (_folder() / f"v{version}.0-local" / "_definitions.json").read_text(encoding="utf-8")
    definitions: dict[str, Schema] = json.loads(text)["$defs"]
    return definitions


def _reference(name: str) -> str:
    if name in _SCALAR_NAMES:
        return _SCALAR_NAMES[name]
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    return name.removeprefix(prefix).replace(".", "/")


def _clean(raw: Schema) -> Schema:
    if "$ref" in raw:
        return _cleaned_reference(raw)
    clean: Schema = {word: raw[word] for word in _KEPT if word in raw}
    kind: Any = clean.get("type")
    if isinstance(kind, list):
        clean["type"] = next(word for word in kind if word != "null")
    if "properties" in raw:
        clean["properties"] = {name: _clean(child) for name, child in raw["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(raw.get(word), dict):
            clean[word] = _clean(raw[word])
    if clean.get("type") == "object" and not clean.keys() & {"properties", "additionalProperties"}:
        clean["x-kubernetes-preserve-unknown-fields"] = True
    return clean


def _cleaned_reference(raw: Schema) -> Schema:
    key = _reference(raw["$ref"].rpartition("/")[2])
    if key in _SCALARS:
        return copy.deepcopy(_SCALARS[key])
    strategy = {word: raw[word] for word in raw if word.startswith("x-kubernetes-patch-")}
    return {"$ref": key, **strategy}


@dataclass
class Catalog:
    """The definitions and kinds, by full reference."""

    kubernetes: KubernetesTypes
    root: str = "trainwright.api"
    """The Python package of the authored types."""
    definitions: dict[str, Definition] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)

    def resolve(self, schema: Schema) -> Schema:
        """The schema with its reference resolved; keywords beside `$ref` take precedence over those of the target."""
        if "$ref" not in schema:
            return schema
        target = self.definitions[schema["$ref"]].schema
        beside = {word: value for word, value in schema.items() if word != "$ref"}
        merged = {**self.resolve(target), **beside}
        rules = "x-kubernetes-validations"
        if rules in target and rules in beside:
            merged[rules] = [*target[rules], *beside[rules]]
        return merged

    def authored_kinds(self) -> list[Kind]:
        """The authored kinds, which are all but those of Kubernetes."""
        return [kind for kind in self.kinds.values() if not kind.definition.package.folder.startswith("kubernetes/")]

    def packages(self) -> list[Package]:
        """Packages in the order of their folders."""
        found = {definition.package.key: definition.package for definition in self.definitions.values()}
        return sorted(found.values(), key=lambda package: package.folder)

    def of(self, package: Package) -> list[Definition]:
        mine = [definition for definition in self.definitions.values() if definition.package == package]
        return sorted(mine, key=lambda definition: definition.name)


@dataclass(frozen=True)
class _File:
    name: str
    folder: str
    document: Document


def read(api: File, problems: Problems) -> Catalog:
    """Read all authored files below `api`.

    Raises `CompileError` if the files cannot be read. A reference without a target is added to `problems`: check those
    before the result is used.
    """
    files = list(_files(api, problems, api))
    problems.stop_if_any()
    listing = _listing(files, problems)
    return _read(files, listing, Catalog(_kubernetes(listing, problems)), problems)


def read_project(folder: File, ours: File, root: str, problems: Problems) -> Catalog:
    """Read the authored files of another project; its types of Kubernetes are ours. Raises as `read`.

    `ours` is the folder api/ of this distribution, `root` the name of the Python package that `folder` is; `problems`
    gets those of references.
    """
    files = list(_files(folder, problems, ours))
    if not files and not problems.found:
        problems.add(str(folder), 0, "", "has no schemas in folders below it, such as boats/v1/boat.yaml")
    for file in files:
        if file.document.data["kind"] == "KubernetesTypes":
            problems.add(file.name, 0, "", "the types of Kubernetes are those of trainwright: remove the document")
    problems.stop_if_any()
    kinds = ours / KUBERNETES_TYPES
    (document,) = documents(kinds.read_text(encoding="utf-8"))
    listing = _File(KUBERNETES_TYPES, "kubernetes", document)
    catalog = Catalog(_kubernetes(listing, problems), root)
    document.data.update(kinds=[], types=[])  # only what the project refers to
    return _read(files, listing, catalog, problems)


def _read(files: list[_File], listing: _File, catalog: Catalog, problems: Problems) -> Catalog:
    packages: dict[str, Package] = {}
    for file in files:
        if file.document.data["kind"] != "KubernetesTypes":
            _take(file, catalog, packages, problems)
    problems.stop_if_any()
    wanted = _take_kubernetes_kinds(listing, catalog, problems)
    _complete(catalog, packages, wanted, problems)
    return catalog


def _files(api: File, problems: Problems, ours: File) -> Iterator[_File]:
    if not (ours / AUTHORED_SCHEMA).is_file():
        problems.add(str(ours), 0, "", f"is not a folder of schemas: it has no {AUTHORED_SCHEMA}")
        return
    schema = json.loads((ours / AUTHORED_SCHEMA).read_text(encoding="utf-8"))
    rules = jsonschema.Draft202012Validator(schema)
    for path in sorted(api.glob("*/**/*.yaml")):
        if "released" in path.relative_to(api).parts or is_generated(path):
            continue
        name = f"{api.name}/{path.relative_to(api).as_posix()}"
        try:
            found = list(documents(path.read_text(encoding="utf-8")))
        except ManifestError as error:
            problems.add(name, error.line, "", error.reason)
            continue
        for document in found:
            if _allowed(document, name, rules, problems):
                yield _File(name, path.parent.relative_to(api).as_posix(), document)


def _allowed(document: Document, name: str, rules: jsonschema.Draft202012Validator, problems: Problems) -> bool:
    errors = list(rules.iter_errors(document.data))
    for error in errors:
        path = tuple(error.absolute_path)
        problems.add(name, document.line(path), ".".join(str(step) for step in path), error.message)
    return not errors


def _listing(files: list[_File], problems: Problems) -> _File:
    found = [file for file in files if file.document.data["kind"] == "KubernetesTypes"]
    if len(found) != 1:
        problems.add("api", 0, "", f"there must be one document of kind KubernetesTypes, not {len(found)}")
        problems.stop_if_any()
    return found[0]


def _kubernetes(listing: _File, problems: Problems) -> KubernetesTypes:
    data = listing.document.data
    version = data["kubernetesVersion"]
    if version not in _published_versions():
        known = ", ".join(_published_versions())
        line = listing.document.line(("kubernetesVersion",))
        problems.add(
            listing.name, line, "", f"no schemas of Kubernetes {version} are installed; installed are those of {known}"
        )
        problems.stop_if_any()
    types = KubernetesTypes(version, data.get("overlay", {}), data.get("definitions", {}))
    for key, name in types.unknown_overlays():
        line = listing.document.line(("overlay", key, "properties", name))
        problems.add(listing.name, line, f"overlay.{key}.{name}", "Kubernetes has no such field")
    problems.stop_if_any()
    return types


def _take(file: _File, catalog: Catalog, packages: dict[str, Package], problems: Problems) -> None:
    data = file.document.data
    is_crd = data["kind"] == "CustomResourceDefinition"
    spec = data["spec"] if is_crd else data
    version: Schema = spec["versions"][0] if is_crd else {"name": data["version"]}
    key = f"{spec['group']}/{version['name']}"
    foreign = bool(data.get("foreign")) or file.folder.startswith("kubernetes/")
    made = Package(key, file.folder, spec["group"], version["name"], foreign, catalog.root)
    package = packages.setdefault(key, made)
    if package.folder != file.folder:
        problems.add(file.name, 1, "", f"{key} is already authored in api/{package.folder}")
    _check_folder(file, package, packages, problems)
    if is_crd:
        root: Path = ("spec", "versions", 0, "schema", "openAPIV3Schema")
        kind = Definition(
            package, spec["names"]["kind"], version["schema"]["openAPIV3Schema"], file.document, file.name, root
        )
        if _add(catalog, kind, problems):
            names = spec["names"]
            namespaced = spec["scope"] == "Namespaced"
            crd = {word: value for word, value in data.items() if word not in ("definitions", "foreign")}
            installed = not data.get("foreign", False)
            catalog.kinds[kind.key] = Kind(kind, names["plural"], namespaced, crd, installed=installed)
    for name, schema in (data.get("definitions") or {}).items():
        definition = Definition(package, name, schema, file.document, file.name, ("definitions", name))
        _add(catalog, definition, problems)
        if "x-kubernetes-group-version-kind" in schema:
            catalog.kinds[definition.key] = Kind(definition, "", namespaced=False)


def _check_folder(file: _File, package: Package, packages: dict[str, Package], problems: Problems) -> None:
    """A folder holds the files of one group and version, because it becomes one Python package."""
    is_crd = file.document.data["kind"] == "CustomResourceDefinition"
    line = file.document.line(("spec", "versions", 0, "name") if is_crd else ("version",))
    above, _, last = file.folder.rpartition("/")
    if last != package.version:
        move = f"move the file to {above}/{package.version} to add a version"
        problems.add(file.name, line, "", f"version {package.version} is in the folder {file.folder}: {move}")
        return
    here = [one for one in packages.values() if one.folder == file.folder and one.version == last]
    others = [one.key for one in here if one != package]
    if others:
        problems.add(file.name, line, "", f"{package.key} is in the folder of {others[0]}: give it one of its own")


def _add(catalog: Catalog, definition: Definition, problems: Problems) -> bool:
    if definition.key in catalog.definitions:
        other = catalog.definitions[definition.key]
        definition.complain(problems, (), f"is already defined in {other.file}")
        return False
    catalog.definitions[definition.key] = definition
    return True


def _take_kubernetes_kinds(listing: _File, catalog: Catalog, problems: Problems) -> list[str]:
    data, document = listing.document.data, listing.document
    wanted = {"kinds": [entry["type"] for entry in data["kinds"]], "types": data.get("types", [])}
    for word, keys in wanted.items():
        for index, key in enumerate(keys):
            if not catalog.kubernetes.known(key):
                problems.add(listing.name, document.line((word, index)), "", f"Kubernetes has no type {key}")
    problems.stop_if_any()
    for entry in data["kinds"]:
        definition = catalog.kubernetes.definition(entry["type"])
        catalog.kinds[definition.key] = Kind(definition, entry["plural"], entry["scope"] == "Namespaced")
    return [*wanted["kinds"], *wanted["types"]]


def _complete(catalog: Catalog, packages: dict[str, Package], wanted: list[str], problems: Problems) -> None:
    queue = [*catalog.definitions.values(), *(catalog.kubernetes.definition(key) for key in wanted)]
    seen: set[str] = set()
    while queue:
        definition = queue.pop()
        if definition.key in seen:
            continue
        seen.add(definition.key)
        schema = copy.deepcopy(definition.schema)
        for path, part in subschemas(schema):
            target = _link(catalog, packages, definition, path, part, problems)
            if target is not None:
                queue.append(target)
        catalog.definitions[definition.key] = complete = replace(definition, schema=schema)
        if (kind := catalog.kinds.get(definition.key)) is not None:
            catalog.kinds[definition.key] = replace(kind, definition=complete)


def _link(
    catalog: Catalog,
    packages: dict[str, Package],
    definition: Definition,
    path: Path,
    part: Schema,
    problems: Problems,
) -> Definition | None:
    """Complete the reference of one schema, in place; scalars replace it. Returns the definition that it refers to."""
    reference = part.get("$ref")
    if reference is None:
        return None
    key = reference if "/" in reference else f"{definition.package.key}/{reference}"
    if key in _SCALARS:
        beside = {word: value for word, value in part.items() if word != "$ref"}
        part.clear()
        part.update(copy.deepcopy(_SCALARS[key]), **beside)
        return None
    part["$ref"] = key
    if key in catalog.definitions:
        return catalog.definitions[key]
    if catalog.kubernetes.known(key):
        return catalog.kubernetes.definition(key)
    package_key = key.rpartition("/")[0]
    if package_key in packages:
        here = ", ".join(
            sorted(name.rpartition("/")[2] for name in catalog.definitions if name.startswith(package_key))
        )
        message = f"$ref {reference} leads nowhere; {package_key} defines {here}"
    else:
        message = f"$ref {reference} leads nowhere; write Name, group/version/Name or core/v1/PodSpec"
    definition.complain(problems, (*path, "$ref"), message)
    part.clear()
    part.update(copy.deepcopy(_ANYTHING), **{NOWHERE: reference})  # so that the other checks can continue
    return None
