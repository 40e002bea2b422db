# SPDX-License-Identifier: Apache-2.0
"""Packages whose public names are loaded when they are first used."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence


def lazy(package: str, names: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package; `names`: its public names by the module that has them."""
    homes = {name: module for module, found in names.items() for name in found}

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(homes)
