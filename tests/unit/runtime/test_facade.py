# SPDX-License-Identifier: Apache-2.0
"""The facade: every public name loads, has one home, and costs what it needs."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from trainwright.controller import runtime

MOST = 45


def test_all_names_load() -> None:
    assert len(runtime.__all__) <= MOST
    assert len({*runtime.__all__}) == len(runtime.__all__)
    for name in runtime.__all__:
        assert getattr(runtime, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = runtime.Nothing  # type: ignore[attr-defined]


def test_type_checkers_see_the_same_homes() -> None:
    tree = ast.parse(Path(inspect.getfile(runtime)).read_text())
    told = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module not in ("typing", "trainwright.api.facade")
        for alias in node.names
    }
    found = {
        constant.value: key.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(value, ast.Tuple)
        for constant in value.elts
        if isinstance(constant, ast.Constant)
    }
    assert told == found
    assert sorted(told) == sorted(runtime.__all__) == dir(runtime)


def test_the_tour_names_everything() -> None:
    tour = runtime.__doc__ or ""
    assert [name for name in runtime.__all__ if f"`{name}`" not in tour] == []


@pytest.mark.parametrize(
    ("names", "library"),
    [
        ("Terminal, Key, set_condition", "aiohttp"),
        ("App, Context, Manager", "cryptography"),
        ("App, Context", "aiohttp"),
    ],
)
def test_what_is_not_used_costs_nothing(names: str, library: str) -> None:
    code = f"import sys; from trainwright.controller.runtime import {names}; sys.exit({library!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_here_knows_a_trainjob() -> None:
    root = Path(inspect.getfile(runtime)).parent
    for path in root.rglob("*.py"):
        if "testing" not in path.relative_to(root).parts:
            text = path.read_text()
            assert "api.trainer" not in text, path
            assert "api.jobset" not in text, path
