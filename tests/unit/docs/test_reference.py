# SPDX-License-Identifier: Apache-2.0
"""The reference: its generated pages name everything."""

import re

import pytest

from hack.reference import LIBRARIES, commands, files, library
from tests.repository import ROOT
from trainwright.controller.cli.arguments.general import COMMANDS
from trainwright.controller.cli.arguments.local import LOCAL

SITE = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_each_command_has_a_section_with_its_options() -> None:
    page = commands()
    for name in [*COMMANDS, *(f"local {one}" for one in LOCAL)]:
        assert f"\n## trainwright {name}\n" in page
    section = page.partition("## trainwright local run\n")[2].partition("\n## ")[0]
    assert "| `--nodes N` | number of nodes of the script" in section
    assert "--help" not in section


def test_every_argument_says_what_it_is_for() -> None:
    assert re.findall(r"(?m)^\| `.*` \| +\|$", commands()) == []


@pytest.mark.parametrize("name", LIBRARIES)
def test_each_public_name_of_a_package_is_on_its_page(name: str) -> None:
    page = library(LIBRARIES[name])
    public = __import__(LIBRARIES[name].package, fromlist=["__all__"]).__all__
    assert public
    assert [one for one in public if f"\n### {one}\n" not in page and f"\n| `{one}` |" not in page] == []


def test_parameters_are_shown_as_they_are_given() -> None:
    page = library(LIBRARIES["progress-writer"])
    assert "`Reporter(total: float | None = None, every: float = 5.0, " in page
    assert "| `checkpoint(path: Any, step: Any = None)` | Note that a checkpoint is whole" in page


def test_the_generated_pages_are_on_the_site() -> None:
    assert [str(path) for path in files() if f"- reference/{path.name}\n" not in SITE] == []
