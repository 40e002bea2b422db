# SPDX-License-Identifier: Apache-2.0
"""The site of docs/: strict about links, and sufficient unto itself."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.repository import ROOT


def build(source: Path) -> tuple[int, str]:
    """Exit code and output of the command that `make docs` runs."""
    command = re.search(r"mkdocs build .*", (ROOT / "hack" / "check").read_text())
    assert command is not None
    done = subprocess.run(
        [ROOT / ".venv" / "bin" / "mkdocs", *command[0].split()[1:], "--site-dir", source / "site"],
        cwd=source,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of what the site is made of."""
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    return tmp_path


def test_readers_ask_nobody_else(source: Path) -> None:
    code, output = build(source)
    assert code == 0, output
    pages = list((source / "site").rglob("*.html"))
    assert pages
    for page in pages:
        tags = re.findall(r"<(?:script|img|iframe|link)\b[^>]*>", page.read_text())
        assert any("assets/" in tag for tag in tags)
        assert [tag for tag in tags if re.search(r"\b(src|href)=[\"']?(https?:)?//", tag)] == [], page


def test_what_leads_nowhere_fails_the_build(source: Path) -> None:
    with (source / "docs" / "index.md").open("a") as page:
        page.write("\n[a](nowhere.md) [b](plugins.md#no-anchor) [c](../outside)\n")
    (source / "docs" / "stray.md").write_text("# Stray\n")
    code, output = build(source)
    assert code == 1
    assert [word for word in ("nowhere.md", "#no-anchor", "../outside", "stray.md") if word not in output] == [], output
