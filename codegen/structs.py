# SPDX-License-Identifier: Apache-2.0
"""Runs datamodel-code-generator and reads its output.

The generator chooses the Python type of each schema. Its output is parsed into classes and fields. From these
`codegen.python` writes the modules, with methods and metadata that the generator does not know.
"""

import ast
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from trainwright.codegen import openapi
from trainwright.codegen.catalog import Catalog
from trainwright.codegen.text import attribute


@dataclass
class StructField:
    """One attribute of a struct."""

    wire: str
    attribute: str
    annotation: ast.expr
    required: bool
    forward: bool = False
    """Whether the annotation names a struct that is defined later in the module, or this one."""

    def text(self) -> str:
        """The annotation as Python text."""
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
            json.dumps(openapi.document(catalog)),
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
    path = output / package.replace(".", "/") / f"{openapi.MODULE}.py"
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
        if alias.name != openapi.MODULE:
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
        """Remove the quotes of a name."""
        if not isinstance(node.value, str):
            return node
        self.forward = True
        return ast.parse(node.value, mode="eval").body
