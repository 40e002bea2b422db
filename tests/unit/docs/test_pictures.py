# SPDX-License-Identifier: Apache-2.0
"""The pictures of the pages: each is there, is made by the script, is told in words, and is small."""

import re
from pathlib import Path

import pytest

from hack.pictures import digest_of
from tests.pages import pages
from tests.repository import ROOT

IMAGES = ROOT / "docs" / "images"
SCRIPT = ROOT / "hack" / "pictures.py"
DRAWINGS = sorted((ROOT / "docs" / "drawings").glob("*.dot"))
MOST_BYTES = 150_000
USED = [
    (page, text, target)
    for page in pages()
    for text, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text())
    if "://" not in target
]


def test_each_picture_of_a_page_is_there_and_told_in_words() -> None:
    assert USED
    for page, text, target in USED:
        assert (page.parent / target).is_file(), f"{page}: {target}"
        assert len(" ".join(text.split())) >= 40, f"{page}: {target}: say what one sees, for who does not see it"


def test_each_picture_is_used_and_made_by_the_script() -> None:
    there = {file.name for file in IMAGES.iterdir()}
    assert there == {(page.parent / target).resolve().name for page, _, target in USED}
    taken = {f"{name}.png" for name in re.findall(r'take\(page, "([\w-]+)"\)', SCRIPT.read_text())}
    assert there == taken | {f"{source.stem}.svg" for source in DRAWINGS}


def test_pictures_are_small_and_whole() -> None:
    pictures = list(IMAGES.glob("*.png"))
    assert pictures
    for file in pictures:
        content = file.read_bytes()
        assert content.startswith(b"\x89PNG\r\n")
        assert content.endswith(b"IEND\xaeB`\x82")
        assert len(content) <= MOST_BYTES, file


@pytest.mark.parametrize("source", DRAWINGS, ids=lambda source: source.stem)
def test_each_drawing_is_of_its_text(source: Path) -> None:
    drawing = (IMAGES / f"{source.stem}.svg").read_text()
    assert digest_of(source.read_bytes()) in drawing.splitlines()[0], "run `make pictures`"
    assert drawing.endswith("</svg>\n")
