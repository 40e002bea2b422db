# SPDX-License-Identifier: Apache-2.0
"""Writes the method `deepcopy` of a struct: a shallow copy in C, followed by copies of the mutable parts."""

from trainwright.codegen.shape import Form, TypeShape, shape_of
from trainwright.codegen.structs import Class


def method(made: Class) -> str:
    """Text of the method; empty for a struct without mutable parts, which inherits it."""
    rows: list[str] = []
    for item in made.fields:
        shape = shape_of(item.annotation)
        if shape.form is Form.PLAIN:
            continue
        name = f"n.{item.attribute}"
        if item.required:
            rows.append(f"        {name} = {_copied(shape, name)}\n")
        else:
            rows.append(f"        if {name} is not None:\n            {name} = {_copied(shape, name)}\n")
    if not rows:
        return ""
    return f"    def deepcopy(self) -> Self:\n        n = self.__copy__()\n{''.join(rows)}        return n\n"


def _copied(shape: TypeShape, value: str, depth: int = 0) -> str:
    if shape.form is Form.STRUCT:
        return f"{value}.deepcopy()"
    if shape.form is Form.OPEN:
        return f"copy_open({value})"
    if shape.inner is None or shape.inner.form is Form.PLAIN:
        return f"{value}.copy()"
    item = f"x{depth or ''}"
    inner = _copied(shape.inner, item, depth + 1)
    if shape.form is Form.LIST:
        return f"[{inner} for {item} in {value}]"
    return f"{{k{depth or ''}: {inner} for k{depth or ''}, {item} in {value}.items()}}"
