# SPDX-License-Identifier: Apache-2.0
"""Packages whose `__init__` lists their public names once: as imports of the form `from module import Name as Name`.

Type checkers know that form. Here the same lines are read as text, so that no second list can differ from them.
"""

import functools
import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path


@functools.cache
def homes(file: str) -> dict[str, str]:
    """The module of each public name of a package. `file` is its `__init__`."""
    text = Path(file).read_text(encoding="utf-8")  # not every loader has the source, such as that of pytest
    imports = re.findall(r"^ *from (\S+) import (\([^)]+\)|.+)$", text, re.MULTILINE)
    return {name: module for module, names in imports for name in re.findall(r"as (\w+)", names)}


def lazy(package: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names are loaded when they are first used."""

    def load(name: str) -> object:
        if name == "__all__":
            return sorted(homes(file))
        # Python itself asks for names such as __path__; they need no list.
        home = None if name.startswith("_") else homes(file).get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(importlib.import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(homes(file))
