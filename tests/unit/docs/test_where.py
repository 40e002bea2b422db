# SPDX-License-Identifier: Apache-2.0
"""The pages that send contributors to a file and a name in it: both are there."""

import re
from pathlib import Path

import pytest

from tests.places import defines
from tests.repository import ROOT
from trainwright.controller.cli.configuration import load_settings

WHERE = ROOT / "docs" / "contributing" / "where.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
ROWS = [row.strip("| \n").split(" | ") for row in re.findall(r"^\| [^-].* \|$", WHERE.read_text(), re.MULTILINE)[1:]]
ADDED = "certManagement.webhookSecretName"
"""The key that is not in its file yet; see the test below."""
UNTESTED = "none of its own"


def test_each_change_has_one_file() -> None:
    assert len(ROWS) >= 10
    assert all(len(re.findall(r"`([\w/]+\.\w+)`", place)) == 1 for _, place, *_ in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_file_has_the_name(row: list[str]) -> None:
    (file,) = re.findall(r"`([\w/]+\.\w+)`", row[1])
    names = re.findall(r"`([\w.]+)`", row[2])
    assert names
    for name in names:
        assert name == ADDED or defines(ROOT / file, name), f"{file}: {name}"


def test_the_key_to_add_names_the_secret(tmp_path: Path) -> None:
    (file,) = [re.findall(r"`([\w/]+\.\w+)`", place)[0] for _, place, name, _ in ROWS if ADDED in name]
    section, _, key = ADDED.partition(".")
    changed = tmp_path / "configuration.yaml"
    changed.write_text(f"{(ROOT / file).read_text()}\n{section}:\n  {key}: other\n")
    assert load_settings(changed, {}).secret == "other"


@pytest.mark.parametrize("row", [row for row in ROWS if row[3] != UNTESTED], ids=lambda row: row[0])
def test_its_test_is_there(row: list[str]) -> None:
    found = re.fullmatch(r"`(tests/[\w/]+/test_\w+\.py)`(?: \(`(test_\w+)`\))?", row[3])
    assert found, row[3]
    assert (ROOT / found[1]).is_file()
    assert not found[2] or defines(ROOT / found[1], found[2])


def test_few_rows_have_no_test() -> None:
    assert sum(row[3] == UNTESTED for row in ROWS) <= 2


@pytest.mark.parametrize("page", [WHERE, ARCHITECTURE], ids=lambda page: page.stem)
def test_a_name_beside_a_file_is_in_it(page: Path) -> None:
    """Pages write `file` (`Name`)."""
    pairs = re.findall(r"`([\w/]+\.\w+)` \(`([\w.]+)`\)", page.read_text())
    assert pairs
    assert [pair for pair in pairs if not defines(ROOT / pair[0], pair[1])] == []


def test_a_name_that_is_not_there_is_noticed(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "A = 1\nB: int = 2\n\n\nclass C:\n    x: int = 0\n\n    def y(self): ...\n\n\nasync def d(): ...\n"
    )
    assert all(defines(module, name) for name in ("A", "B", "C", "C.x", "C.y", "d"))
    assert not any(defines(module, name) for name in ("x", "y", "C.z", "D", "A.b"))
    document = tmp_path / "document.yaml"
    document.write_text("a:\n  - b: {c: 1}\n")
    assert defines(document, "b.c")
    assert not defines(document, "b.d")
