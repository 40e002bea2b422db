# SPDX-License-Identifier: Apache-2.0
"""A copy of the authored schemas, to spoil."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
Edit = Callable[..., None]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The authored files in a folder of the test's own, with nothing generated."""

    def not_authored(folder: str, names: list[str]) -> set[str]:
        return {
            name
            for name in names
            if (Path(folder) / name).is_file()
            and not (name.endswith(".yaml") or name in ("authored.schema.json", "defaulting.py"))
            and Path(folder).name != "released"
        }

    shutil.copytree(ROOT / "api", tmp_path / "api", ignore=not_authored)
    return tmp_path


@pytest.fixture
def edit(checkout: Path) -> Edit:
    """Replaces text that must be there once in an authored file."""

    def replace(file: str, old: str, new: str) -> None:
        path = checkout / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} is in {file} {text.count(old)} times"
        path.write_text(text.replace(old, new), encoding="utf-8")

    return replace
