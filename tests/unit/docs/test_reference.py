# SPDX-License-Identifier: Apache-2.0
"""The reference: its generated pages name everything, and its tables of conditions and events are those of the code."""

import re

import pytest

from hack.reference import LIBRARIES, PAGES, commands, files, library
from tests.repository import ROOT
from trainwright.api.trainer.v1alpha1 import constants
from trainwright.controller.cli.commands import COMMANDS, LOCAL
from trainwright.controller.trainer.job import events, state, status

INDEX = (PAGES / "README.md").read_text(encoding="utf-8")
SITE = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def names_in(section: str) -> set[str]:
    """The names in the first column of a table."""
    text = INDEX.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return {name for cell in re.findall(r"(?m)^\| (`[^|]+) \|", text) for name in re.findall(r"`([\w-]+)`", cell)}


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


def test_conditions_are_those_of_the_code() -> None:
    declared = {
        value
        for module in (constants, status, state)
        for name, value in vars(module).items()
        if name.startswith("CONDITION_") and isinstance(value, str)
    } | {*state.EXPLAINING}
    assert len(declared) >= 9
    assert names_in("Conditions of a TrainJob") == declared


def test_events_are_those_of_the_code() -> None:
    declared = {
        value
        for module in (constants, events)
        for name, value in vars(module).items()
        if name.startswith("EVENT_") and isinstance(value, str)
    }
    assert names_in("Events on a TrainJob") == declared


def test_annotations_are_those_of_the_code() -> None:
    """Those that users set; the others are written by the manager and by local nodes."""
    folders = ("api/trainer", "controller/trainer", "plugins")
    sources = "".join(path.read_text(encoding="utf-8") for one in folders for path in (ROOT / one).rglob("*.py"))
    used = set(re.findall(r"trainwright\.dev/([a-z][a-z-]+)", sources))
    not_set_by_users = {"attempt-base", "avoided-nodes", "failures", "progress-history", "registered-by-url"}
    assert names_in("Annotations") == used - not_set_by_users
