# SPDX-License-Identifier: Apache-2.0
"""A checkout finds every file beside a module; an installed package only those that pyproject.toml lists."""

import re
import subprocess
import tomllib
from pathlib import Path

from tests.repository import ROOT

FOLDERS = ("api", "codegen", "controller", "plugins")


def test_files_that_modules_load_are_in_the_wheel() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    listed = subprocess.run(["git", "ls-files", *FOLDERS], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files = [Path(line) for line in listed.splitlines()]
    loaded = [
        file
        for file in files
        if file.suffix in (".json", ".yaml")
        and any(
            re.search(rf'[/"]{re.escape(file.name)}"', (ROOT / module).read_text())
            for module in files
            if module.parent == file.parent and module.suffix == ".py"
        )
    ]
    assert Path("controller/local/apiserver/schema/published/kinds.json") in loaded
    missing = [
        str(file)
        for file in loaded
        if not any(
            file.match(pattern)
            for package in ("*", ".".join(("trainwright", *file.parent.parts)))
            for pattern in data.get(package, [])
        )
    ]
    assert not missing, f"list these in package-data of pyproject.toml: {missing}"
