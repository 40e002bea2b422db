# SPDX-License-Identifier: Apache-2.0
"""Writes a reference page for each authored API group: its kinds, their fields, defaults, limits and rules."""

import json
import re

from trainwright.codegen.catalog import Catalog
from trainwright.codegen.definition import Definition, Kind, Package, Schema
from trainwright.codegen.output import MARK

_BANNER = f"<!-- {MARK} Edit those, not this file. -->\n"
_EDITORS = """
## In your editor

Beside the schemas lies a JSON Schema of each kind, such as `api/trainer/v1alpha1/trainjob.schema.json`. An editor with
the YAML language server completes and checks a manifest that names it in its first line:

```yaml
# yaml-language-server: $schema=path/to/api/trainer/v1alpha1/trainjob.schema.json
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: example
spec:
  runtimeRef:
    name: torch-distributed
```
"""
_LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} fields",
    "pattern": "matches `{}`",
}


def files(catalog: Catalog) -> dict[str, str]:
    """Text of each page, by path below docs/api/."""
    made: dict[str, str] = {}
    packages = [package for package in catalog.packages() if _kinds(catalog, package)]
    for package in packages:
        made[f"{_slug(package)}.md"] = _page(catalog, package)
    rows = "".join(f"- [{package.key}]({_slug(package)}.md)\n" for package in packages)
    note = (
        "\nOptimizationJob, which other releases of this API group ship without a controller, is not part of this one "
        "yet.\n"
    )
    made["README.md"] = f"{_BANNER}\n# API reference\n\n{rows}{note}{_EDITORS}"
    return made


def _kinds(catalog: Catalog, package: Package) -> list[Kind]:
    kinds = [kind for kind in catalog.authored_kinds() if kind.definition.package == package]
    return sorted(kinds, key=lambda kind: kind.name)


def _slug(package: Package) -> str:
    return package.key.replace("/", "-")


def _page(catalog: Catalog, package: Package) -> str:
    kinds = _kinds(catalog, package)
    names = {kind.name for kind in kinds}
    parts = [f"{_BANNER}\n# {package.key}\n"]
    for kind in kinds:
        scope = "" if not kind.plural else f" {'Namespaced' if kind.namespaced else 'Cluster-wide'}, `{kind.plural}`."
        parts.append(_section(catalog, kind.definition, scope))
    parts += [_section(catalog, definition, "") for definition in catalog.of(package) if definition.name not in names]
    return "\n".join(parts)


def _section(catalog: Catalog, definition: Definition, scope: str) -> str:
    schema = definition.schema
    head = f"## {definition.name}\n\n{schema.get('description', '')}{scope}\n"
    rules = "".join(f"- {rule['message']}\n" for rule in schema.get("x-kubernetes-validations", ()))
    if rules:
        head += f"\nRules:\n\n{rules}"
    properties = schema.get("properties", {})
    if not properties:
        return head
    required = set(schema.get("required", ()))
    rows = [_row(catalog, definition, name, child, required=name in required) for name, child in properties.items()]
    return f"{head}\n| Field | Type | Default | Meaning |\n| --- | --- | --- | --- |\n{''.join(rows)}"


def _row(catalog: Catalog, definition: Definition, name: str, child: Schema, *, required: bool) -> str:
    resolved = catalog.resolve(child)
    default = f"`{json.dumps(resolved['default'])}`" if "default" in resolved else ""
    about = [child.get("description", "")]
    if required:
        about.append("Required.")
    limits = [text.format(resolved[word]) for word, text in _LIMITS.items() if word in child]
    if "enum" in child:
        limits.append("one of " + ", ".join(f"`{value!r}`".replace("'", '"') for value in child["enum"]))
    if resolved.get("x-kubernetes-list-type") == "map":
        limits.append(
            "items are told apart by " + ", ".join(f"`{key}`" for key in resolved["x-kubernetes-list-map-keys"])
        )
    if limits:
        text = "; ".join(limits)
        about.append(f"{text[0].upper()}{text[1:]}.")
    about += [f"{rule['message']}." for rule in child.get("x-kubernetes-validations", ())]
    text = " ".join(part for part in about if part).replace("|", "\\|")
    return f"| `{name}` | {_type(catalog, definition, child)} | {default} | {text} |\n"


def _type(catalog: Catalog, definition: Definition, schema: Schema) -> str:
    if "$ref" in schema:
        return _link(definition, catalog.definitions[schema["$ref"]])
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity" if "pattern" in schema else "integer or string"
    if schema.get("type") == "array":
        return f"list of {_type(catalog, definition, schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(catalog, definition, schema['additionalProperties'])}"
    words = {"date-time": "time", "int32": "integer", "int64": "integer"}
    return words.get(str(schema.get("format")), re.sub("^object$", "any object", str(schema.get("type"))))


def _link(definition: Definition, target: Definition) -> str:
    if target.package == definition.package:
        return f"[{target.name}](#{target.name.lower()})"
    if target.document is not None:
        return f"[{target.name}]({_slug(target.package)}.md#{target.name.lower()})"
    return f"{target.package.key} {target.name}"
