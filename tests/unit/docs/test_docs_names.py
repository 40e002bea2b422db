# SPDX-License-Identifier: Apache-2.0
"""Names on the pages are names of things that there are."""

import argparse
import re
from collections.abc import Collection

from tests.pages import pages
from tests.repository import ROOT
from trainwright.controller.cli.local.status import LIMITS
from trainwright.controller.cli.main import build_parser
from trainwright.controller.trainer.assembly.features import GATES

TEXTS = {str(page.relative_to(ROOT)): page.read_text() for page in pages()}


def missing(pattern: str, known: Collection[str]) -> list[str]:
    """What the pages name by the pattern and is not known, with the page."""
    found = [(name, page) for page, text in TEXTS.items() for name in re.findall(pattern, text)]
    assert found
    return [f"{page}: {name}" for name, page in found if name not in known]


def test_targets_of_make() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert missing(r"(?m)(?:`|^)make ([a-z-]+)", set(re.findall(r"(?m)^([a-z-]+):", makefile))) == []


def test_files_and_folders() -> None:
    pattern = r"`((?:api|codegen|config|controller|docs|hack|plugins|tests)/[\w./-]+)`"
    known = {name for text in TEXTS.values() for name in re.findall(pattern, text) if (ROOT / name).exists()}
    known |= set(re.findall(pattern, TEXTS["docs/decisions.md"]))  # of the day on which something was decided
    assert missing(pattern, known) == []


def test_commands() -> None:
    assert missing(r"(?m)(?:`|^)trainwright ([a-z]+)", commands_of(build_parser()).keys()) == []


def test_commands_of_the_local_cluster() -> None:
    known = commands_of(commands_of(build_parser())["local"])
    assert missing(r"(?m)(?:`|^)trainwright local ([a-z]+)", known.keys()) == []
    page = TEXTS["docs/users/local.md"]
    options = {option for parser in known.values() for action in parser._actions for option in action.option_strings}
    elsewhere = {"--follow", "--for", "--timeout", "--lr", "--clusterrole", "--user", "--as", "--token"}
    """Options of kubectl and of a script."""
    assert set(re.findall(r"(?<=[`\s])--[a-z][a-z-]+", page)) <= options | elsewhere


def test_every_option_of_run_is_on_the_page() -> None:
    page = TEXTS["docs/users/local.md"]
    parser = commands_of(commands_of(build_parser())["local"])["run"]
    options = [action.option_strings for action in parser._actions if action.option_strings and action.dest != "help"]
    assert [names for names in options if not any(re.search(rf"{name}(?![\w-])", page) for name in names)] == []


def test_limits_of_the_local_cluster() -> None:
    """`status --limits` prints the table of the page."""
    section = TEXTS["docs/users/local.md"].partition("## What it is not\n")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| (.+) \| (.+) \|$", re.sub(r"\[([^]]+)\]\(\S+?\)", r"\1", section).replace("`", ""))
    assert rows[2:] == list(LIMITS.items())


def test_exit_codes_of_run() -> None:
    """The help and the page name the same."""
    text = " ".join((commands_of(commands_of(build_parser())["local"])["run"].description or "").split())
    table = re.findall(r"(?m)^\| (\d+(?:, \d+)*) \|", TEXTS["docs/users/local.md"])
    shown = {code for row in table for code in row.split(", ")}
    assert shown == set(re.findall(r"\b\d+\b", text))


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The sub-commands of a command."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError(f"{parser.prog} has no sub-commands")


def test_feature_gates() -> None:
    page = TEXTS["docs/admins/configuration.md"]
    rows = re.findall(r"^\| `(\w+)` \| (\w+), (on|off) \|", page, re.MULTILINE)
    assert rows == [(gate.name, gate.stage.lower(), "on" if gate.default else "off") for gate in GATES.values()]


def test_classes_on_the_pages_of_the_runtime() -> None:
    """Those that stand alone as code on the pages about our names; other pages compare them with those of others."""
    folders = [ROOT / "api", ROOT / "controller" / "runtime", ROOT / "controller" / "local" / "testing"]
    sources = [path.read_text() for folder in folders for path in folder.rglob("*.py")]
    known = {name for text in sources for name in re.findall(r"(?m)^ *(?:class +|)([A-Z]\w+)(?=[(:]| [=:])", text)}
    for page in ("README", "guarantees", "production"):
        named = set(re.findall(r"`([A-Z][a-z]\w+)`", TEXTS[f"docs/runtime/{page}.md"]))
        assert named - known == set(), page
        assert named, page
