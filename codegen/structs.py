# SPDX-License-Identifier: Apache-2.0
"""Lets datamodel-code-generator choose the Python type of each schema, and reads its output.

The generator makes a struct of each schema in an OpenAPI document. Everything that would change how a value is decoded,
apart from its type, is left out of the document: defaults (an omitted default would vanish from the wire), limits (the
API server has checked them), keywords of Kubernetes. Optional fields are nullable, so that `null` from a server is
accepted. The output is parsed into classes and fields. From these `codegen.python` writes the modules, with methods and
metadata that the generator does not know.
"""

import ast
import json
import keyword
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainwright.codegen.catalog import Catalog
from trainwright.codegen.definition import Definition, Schema

MODULE = "models"
"""The name of the generated module in each package."""

_NUMBER = {"type": "number"}
_RESERVED = frozenset(
    {"deepcopy", "set_defaults", "self", "mro"}
    | {"bool", "bytes", "dict", "field", "float", "int", "list", "set", "str", "tuple"}
    | {"property"}
)
"""Methods of every struct, and names that its annotations and properties use."""
MEMBERS_OF_KINDS = ("name", "namespace", "typed")
"""What the base class of kinds has beside the fields."""
USED_NAMES = frozenset({"Any", "ClassVar", "Literal", "Mapping", "Merge", "Object", "Resource", "Self", "Struct"})
"""What modules of structs import."""

_BOUNDARY = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])"  # host|IP, num|Nodes
    r"|(?<=[A-Z])(?=[A-Z][a-rt-z0-9])"  # XML|Http: the last capital of a run begins the next word ...
    r"|(?<=[A-Z])(?=[A-Z]s[a-z])"  # ... also when that word begins with an s
)


def _schema_name(definition: Definition) -> str:
    """The name that makes the generator put the struct into the right module."""
    return f"{definition.package.module}.{MODULE}.{definition.name}"


def _document(catalog: Catalog) -> Schema:
    schemas = {_schema_name(definition): _struct(catalog, definition) for definition in catalog.definitions.values()}
    return {
        "openapi": "3.0.3",
        "info": {"title": "types", "version": "0"},
        "paths": {},
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def _struct(catalog: Catalog, definition: Definition) -> Schema:
    schema = definition.schema
    # The API server sets defaults before it checks required fields, so a field with a default may be absent.
    properties = schema.get("properties", {})
    required = {name for name in schema.get("required", ()) if "default" not in catalog.resolve(properties[name])}
    literal = not definition.package.foreign
    made: Schema = {}
    for name, child in properties.items():
        converted = _value(catalog, child, literal=literal)
        if name not in required:
            converted = (
                {"allOf": [converted], "nullable": True} if "$ref" in converted else {**converted, "nullable": True}
            )
        if child.get("description"):
            converted["description"] = child["description"]
        made[name] = converted
    out: Schema = {"type": "object", "properties": made}
    if required:
        out["required"] = sorted(required)
    if schema.get("description"):
        out["description"] = schema["description"]
    return out


def _value(catalog: Catalog, schema: Schema, *, literal: bool) -> Schema:
    if "$ref" in schema:
        target = catalog.definitions[schema["$ref"]]
        if is_struct(target.schema):
            return {"$ref": f"#/components/schemas/{_schema_name(target)}"}
        return _value(catalog, target.schema, literal=literal)
    if schema.get("x-kubernetes-int-or-string"):
        quantity = [_NUMBER] if "pattern" in schema else []
        return {"anyOf": [{"type": "integer"}, *quantity, {"type": "string"}]}
    kind: Any = schema.get("type")
    if kind is None:
        return {}  # any JSON
    out: Schema = {"type": kind}
    if kind == "array":
        out["items"] = _value(catalog, schema["items"], literal=literal)
    elif kind == "object":
        values = schema.get("additionalProperties")
        out["additionalProperties"] = _value(catalog, values, literal=literal) if isinstance(values, dict) else True
    elif literal and kind == "string" and "enum" in schema:
        out["enum"] = schema["enum"]
    return out


def is_struct(schema: Schema) -> bool:
    """Whether a definition becomes a struct; others become the type of the value that they describe."""
    return (
        schema.get("type") == "object"
        and "additionalProperties" not in schema
        and not schema.get("x-kubernetes-preserve-unknown-fields")
    )


@dataclass
class StructField:
    wire: str
    attribute: str
    annotation: ast.expr
    required: bool
    forward: bool = False
    """Whether the annotation names a struct that is defined later in the module, or this one."""

    def text(self) -> str:
        text = ast.unparse(self.annotation)
        return f'"{text}"' if self.forward else text


@dataclass
class Class:
    """One struct: its name, and its fields in the order of the schema."""

    name: str
    fields: list[StructField] = field(default_factory=list)


@dataclass
class StructModule:
    """The structs of one package; each comes after those that it uses."""

    package: str
    """The dotted name below trainwright.api."""
    classes: list[Class] = field(default_factory=list)
    imports: dict[str, str] = field(default_factory=dict)
    """Alias to dotted package, for structs of other packages."""


def generate(catalog: Catalog) -> dict[str, StructModule]:
    """The structs of every package, by dotted package name."""
    # Imported here: the generator takes half a second to import.
    from datamodel_code_generator import generate as make  # noqa: PLC0415
    from datamodel_code_generator.enums import DataModelType, InputFileType  # noqa: PLC0415
    from datamodel_code_generator.format import Formatter, PythonVersion  # noqa: PLC0415
    from datamodel_code_generator.parser import LiteralType  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="codegen-") as folder:
        output = Path(folder) / "out"
        make(
            json.dumps(_document(catalog)),
            input_filename="schemas.json",
            input_file_type=InputFileType.OpenAPI,
            output=output,
            output_model_type=DataModelType.MsgspecStruct,
            target_python_version=PythonVersion.PY_311,
            base_class="trainwright.api.base.Struct",
            strict_nullable=True,
            keyword_only=True,
            use_annotated=False,
            disable_future_imports=True,
            enum_field_as_literal=LiteralType.All,
            disable_timestamp=True,
            formatters=[Formatter.BUILTIN],
            aliases=_aliases(catalog),
        )
        return {package.module: _read(output, package.module) for package in catalog.packages()}


def _aliases(catalog: Catalog) -> dict[str, str]:
    wires = {wire for definition in catalog.definitions.values() for wire in definition.schema.get("properties", {})}
    return {wire: attribute(wire) for wire in sorted(wires) if attribute(wire) != wire}


def _read(output: Path, package: str) -> StructModule:
    path = output / package.replace(".", "/") / f"{MODULE}.py"
    module = StructModule(package)
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            _take_import(module, node)
        elif isinstance(node, ast.ClassDef):
            module.classes.append(_class(node))
        elif not isinstance(node, ast.ImportFrom):
            raise TypeError(f"the generator wrote something unexpected for {package}: {ast.unparse(node)}")
    return module


def _take_import(module: StructModule, node: ast.ImportFrom) -> None:
    base = module.package.split(".")
    base = base[: len(base) - (node.level - 1)]
    target = ".".join([*base, *(node.module or "").split(".")]).strip(".")
    for alias in node.names:
        if alias.name != MODULE:
            raise TypeError(f"the generator imported {alias.name} of {target} for {module.package}")
        module.imports[alias.asname or alias.name] = target


def _class(node: ast.ClassDef) -> Class:
    made = Class(node.name)
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            made.fields.append(_field(statement.target.id, statement))
        elif not isinstance(statement, ast.Expr | ast.Pass):
            raise TypeError(f"the generator wrote something unexpected in {node.name}: {ast.unparse(statement)}")
    return made


def _field(name: str, statement: ast.AnnAssign) -> StructField:
    wire, required = name, statement.value is None
    if isinstance(statement.value, ast.Call):
        words = {word.arg: word.value for word in statement.value.keywords}
        required = "default" not in words
        if isinstance(label := words.get("name"), ast.Constant):
            wire = str(label.value)
    plain = _Plain()
    annotation = plain.visit(statement.annotation)
    return StructField(wire, name, annotation, required, plain.forward)


class _Plain(ast.NodeTransformer):
    """Writes annotations one way: `X | None` for Optional[X], and names without quotes, which it remembers."""

    def __init__(self) -> None:
        self.forward = False

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Write Optional[X] as X | None; leave values of a Literal as they are."""
        outer = ast.unparse(node.value)
        if outer == "Literal":
            return node
        node.slice = self.visit(node.slice)
        if outer == "Optional":
            return ast.BinOp(node.slice, ast.BitOr(), ast.Constant(None))
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, str):
            return node
        self.forward = True
        return ast.parse(node.value, mode="eval").body


def attribute(wire: str) -> str:
    """The attribute for a field, in snake_case with acronyms kept whole.

    `hostIP` is `host_ip`, `podCIDRs` is `pod_cidrs`, `from` is `from_`.
    """
    words = _BOUNDARY.sub("_", wire)
    name = re.sub(r"\W+", "_", words).strip("_").lower()
    if not name or name[0].isdigit():
        name = f"field_{name}"
    return f"{name}_" if keyword.iskeyword(name) or name in _RESERVED else name
