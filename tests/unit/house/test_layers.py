# SPDX-License-Identifier: Apache-2.0
"""The contracts of import-linter cover every plugin that there is."""

import tomllib

from tests.repository import ROOT

# What plugins are made with and loaded by, which is none itself.
FRAME = {"contract", "pipeline", "registry", "testing"}


def test_every_plugin_is_kept_independent_of_the_others() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [independence] = [contract for contract in contracts if contract["type"] == "independence"]
    found = {
        path.stem for path in (ROOT / "plugins").iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert {name.removeprefix("trainwright.plugins.") for name in independence["modules"]} == (
        found - FRAME - {"__init__"}
    )
