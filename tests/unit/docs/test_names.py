# SPDX-License-Identifier: Apache-2.0
"""Names on the pages are names of things that there are."""

import re

from tests.pages import pages
from tests.repository import ROOT
from trainwright.controller.cli.main import COMMANDS
from trainwright.controller.trainer.assembly.features import GATES

TEXTS = {str(page.relative_to(ROOT)): page.read_text() for page in pages()}


def missing(pattern: str, known: set[str]) -> list[str]:
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
    assert missing(pattern, known) == []


def test_commands() -> None:
    known = {command.__name__.removesuffix(".commands").rpartition(".")[2] for command in COMMANDS}
    assert missing(r"(?m)(?:`|^)trainwright ([a-z]+)", known) == []


def test_feature_gates() -> None:
    page = TEXTS["docs/admins/configuration.md"]
    rows = re.findall(r"^\| `(\w+)` \| (\w+), (on|off) \|", page, re.MULTILINE)
    assert rows == [(gate.name, gate.stage.lower(), "on" if gate.default else "off") for gate in GATES.values()]
