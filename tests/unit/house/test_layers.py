# SPDX-License-Identifier: Apache-2.0
"""The contracts of import-linter cover every plugin that there is."""

import tomllib
from typing import Any

from tests.repository import ROOT

# What plugins are made with and loaded by, which is none itself.
FRAME = {"contract", "pipeline", "registry", "testing"}
PACKAGE = "trainwright.plugins"


def names_of(contract: dict[str, Any]) -> set[str]:
    """The modules below `plugins` that a contract names."""
    whole = [*contract.get("source_modules", ()), *contract.get("forbidden_modules", ())]
    found = {name.removeprefix(f"{PACKAGE}.") for name in whole if name.startswith(f"{PACKAGE}.")}
    if PACKAGE in contract.get("containers", ()):
        found |= {name.strip() for layer in contract["layers"] for name in layer.split("|")}
    return {name for name in found if "*" not in name}


def test_a_contract_that_names_one_plugin_names_them_all() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    files = (ROOT / "plugins").iterdir()
    plugins = {path.stem for path in files if path.suffix == ".py" or (path / "__init__.py").is_file()}
    plugins -= {*FRAME, "__init__"}
    naming = {contract["name"]: names_of(contract) & plugins for contract in contracts}
    assert len([names for names in naming.values() if names]) == 3
    assert {name: plugins - names for name, names in naming.items() if names and names != plugins} == {}
    assert {name for names in map(names_of, contracts) for name in names} <= plugins | FRAME
