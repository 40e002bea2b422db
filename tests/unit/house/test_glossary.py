# SPDX-License-Identifier: Apache-2.0
"""The glossary of docs/contributing against the class names of the code; the page has the rules."""

import importlib
import re
from collections.abc import Iterator

import pytest

from hack.size import File, known, room_of, twice
from tests.repository import ROOT

PAGE = (ROOT / "docs/contributing/glossary.md").read_text(encoding="utf-8")
WORDS, SEVERAL = PAGE.partition("## Class names in several files")[::2]


@pytest.fixture(scope="module")
def files() -> list[File]:
    return list(known(without={"tests"}))


@pytest.fixture(scope="module")
def classes(files: list[File]) -> set[str]:
    """The public ones, with those of generated files."""
    generated = "\n".join((ROOT / file.path).read_text(encoding="utf-8") for file in files if file.generated)
    found = {name for file in files for name in file.classes} | set(
        re.findall(r"^class (\w+)", generated, re.MULTILINE)
    )
    return {name for name in found if not name.startswith("_")}


def rows(part: str) -> Iterator[list[str]]:
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0] not in {"word", "name", "---"}:
            yield cells


def test_each_word_names_something_of_the_code(classes: set[str]) -> None:
    listed = list(rows(WORDS))
    assert listed
    for word, _, code, _ in listed:
        for name in re.findall(r"`([\w.]+)`", code) or [""]:
            is_module = "." in name and importlib.import_module(f"trainwright.{name}") is not None
            assert name in classes or is_module, f"{word}: there is no class or module {name!r}"


def test_words_are_in_order_and_listed_once() -> None:
    words = [row[0] for row in rows(WORDS)]
    assert len(words) == len(set(words))


def test_no_class_name_has_a_word_of_the_column_not(classes: set[str]) -> None:
    refused = {word: row[0] for row in rows(WORDS) for word in re.findall(r"\w+", row[3])}
    for name in classes:
        for word, better in refused.items():
            assert not re.search(rf"{word}(?![a-z])", name), f"{name}: the glossary says {better!r} for {word}"


def test_a_name_of_several_files_is_in_one_room_and_has_one_meaning(files: list[File]) -> None:
    shared = twice(files)
    across = {name: paths for name, paths in shared.items() if len({room_of(path) for path in paths}) > 1}
    assert not across, "one name in two rooms: rename one of them"
    assert {re.sub("`", "", name) for name, _ in rows(SEVERAL)} == set(shared)
