# SPDX-License-Identifier: Apache-2.0
"""The page about a TrainJob's way has seven hops, and leads to files that are there."""

import re

from tests.repository import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_every_hop_names_its_place() -> None:
    rows = re.findall(r"^\| (\d)\. \w+ \|.*\| (.*) \|$", PAGE, re.MULTILINE)
    assert [number for number, _ in rows] == list("1234567")
    assert all("/" in place for _, place in rows)


def test_every_place_named_is_there() -> None:
    places = re.findall(r"`((?:api|controller|config|plugins)/[^`]+)`", PAGE)
    assert len(places) > 20
    assert [place for place in places if not (ROOT / place).exists()] == []
