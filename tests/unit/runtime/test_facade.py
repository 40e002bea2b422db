# SPDX-License-Identifier: Apache-2.0
"""The facade: every public name loads, is listed once, and has the home that type checkers see."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainwright.api.facade import homes
from trainwright.controller import runtime


def test_all_names_load() -> None:
    for name in dir(runtime):
        assert getattr(runtime, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = runtime.Nothing  # type: ignore[attr-defined]


def test_a_star_gives_the_same_names() -> None:
    found: dict[str, object] = {}
    exec("from trainwright.controller.runtime import *", found)
    assert {*found} - {"__builtins__"} == {*dir(runtime)}


def test_type_checkers_see_the_same_homes() -> None:
    tree = ast.parse(Path(inspect.getfile(runtime)).read_text())
    told = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    assert told == homes(inspect.getfile(runtime))
    assert len(told) > 100


def test_the_list_is_read_whatever_has_loaded_the_module() -> None:
    # pytest rewrites the assertions of every distribution with a plugin, and its loader has no source.
    file = inspect.getfile(runtime)
    module: dict[str, Any] = {"__name__": runtime.__name__, "__file__": file, "__loader__": None, "__spec__": None}
    exec(compile(Path(file).read_text(), file, "exec"), module)
    assert module["__dir__"]() == dir(runtime)


def test_a_small_part_does_not_import_the_http_library() -> None:
    code = (
        "import sys; from trainwright.controller.runtime import Terminal, Key, set_condition;"
        "sys.exit('aiohttp' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_here_knows_a_trainjob() -> None:
    root = Path(inspect.getfile(runtime)).parent
    for path in root.rglob("*.py"):
        if "testing" not in path.relative_to(root).parts:
            text = path.read_text()
            assert "api.trainer" not in text, path
            assert "api.jobset" not in text, path
