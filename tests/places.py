# SPDX-License-Identifier: Apache-2.0
"""Whether a file of the repository defines a name, for pages that send their readers there."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml


def defines(path: Path, name: str) -> bool:
    """Whether a file has the name.

    Args:
        path: a module or a YAML file.
        name: in a module, a function, class or constant, or `Class.member`; in YAML, a path of keys from anywhere.
    """
    if path.suffix == ".py":
        return name in _names(ast.parse(path.read_text()).body)
    return any(_has(document, name.split(".")) for document in yaml.safe_load_all(path.read_text()))


def _names(body: list[ast.stmt]) -> set[str]:
    found: set[str] = set()
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(statement.name)
            case ast.ClassDef():
                found |= {statement.name, *(f"{statement.name}.{member}" for member in _names(statement.body))}
            case ast.Assign():
                found |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=identifier)):
                found.add(identifier)
            case _:
                pass
    return found


def _has(document: Any, keys: list[str]) -> bool:
    return any(_reached(mapping, keys) for mapping in _mappings(document))


def _reached(mapping: dict[str, Any], keys: list[str]) -> bool:
    found: Any = mapping
    for key in keys:
        if not isinstance(found, dict) or key not in found:
            return False
        found = found[key]
    return True


def _mappings(document: Any) -> Iterator[dict[str, Any]]:
    if isinstance(document, dict):
        yield document
    for item in document.values() if isinstance(document, dict) else document if isinstance(document, list) else ():
        yield from _mappings(item)
