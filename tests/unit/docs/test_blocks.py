# SPDX-License-Identifier: Apache-2.0
"""What the pages show is right, as far as that can be told without a cluster.

The commands are run by tests/e2e/test_e2e_pages.py.
"""

import ast
import contextlib
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.assertions import does_not_raise
from tests.pages import Block, blocks_of, pages
from tests.repository import ROOT
from trainwright.api.manifest import documents
from trainwright.api.quantity import Quantity
from trainwright.controller.cli.configuration import load_settings
from trainwright.controller.cli.rendering.schemas import NoSchemaError, ValidationResult, validate

BLOCKS = [block for page in pages() for block in blocks_of(page)]
LANGUAGES = {"sh", "console", "csv", "text", "yaml", "json", "toml", "python", "diff", "dockerfile"}


def of(*languages: str) -> list[Any]:
    return [pytest.param(block, id=block.where) for block in BLOCKS if block.language in languages]


def test_every_fence_is_understood() -> None:
    """A block whose language or mark is misspelt would be passed over."""
    fences = sum(len(re.findall(r"^[ ]*```", page.read_text(), re.MULTILINE)) for page in pages())
    assert fences == 2 * len(BLOCKS)
    for block in BLOCKS:
        # What has no language is a drawing.
        assert block.language in LANGUAGES | {""}, block.where
        assert "$ " not in block.text[:2] or block.language == "console", block.where


def test_every_shell_block_is_run_or_says_why_not() -> None:
    shell = [block for block in BLOCKS if block.is_shell]
    assert any(not block.reason for block in shell)
    for block in shell:
        assert block.mark in {"", "fails"} or (block.mark.startswith("not run:") and block.reason), block.where


def test_reasons_name_files_that_are_there() -> None:
    for block in BLOCKS:
        for name in re.findall(r"\b(?:tests|docs|hack)/[\w/.-]*\w", block.reason):
            assert (ROOT / name).exists(), block.where


def test_links_of_pages_beside_the_site_lead_to_files() -> None:
    """Those of the site are checked when it is built."""
    beside = [page for page in pages() if not page.is_relative_to(ROOT / "docs")]
    assert ROOT / "README.md" in beside
    for page in beside:
        links = re.findall(r"\]\(([^)#]+)", page.read_text())
        assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == [], page


def results_of(block: Block) -> list[ValidationResult]:
    """Of the manifests whose schemas we have. Those of other groups are judged by the API server."""
    found = []
    for document in documents(block.text):
        if "apiVersion" in document.data and "kind" in document.data:
            with contextlib.suppress(NoSchemaError):
                found.append(validate(document.data))
    return found


@pytest.mark.parametrize("block", [found for found in of("yaml") if results_of(found.values[0])])
def test_manifests_are_valid(block: Block) -> None:
    for result in results_of(block):
        assert bool(result.errors or result.dropped) == block.mark.startswith("wrong:"), result


@pytest.mark.parametrize("block", [found for found in of("yaml") if "kind: Configuration" in found.values[0].text])
def test_configurations_take_effect(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "configuration.yaml"
    file.write_text(block.text)
    assert load_settings(file, {}) != load_settings(None, {}, in_cluster=False)


@pytest.mark.parametrize("block", of("python", "json", "toml"))
def test_other_languages_are_well_formed(block: Block) -> None:
    parsers: dict[str, Callable[[str], object]] = {"python": ast.parse, "json": json.loads, "toml": tomllib.loads}
    with does_not_raise():
        parsers[block.language](block.text)


def test_what_a_block_is_marked_with_is_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run: needs a moon -->\n```sh\nfly\n```\n\n1. so\n\n   <!-- fails -->\n   ```sh\n   a\n     b\n"
        '   ```\n\n```yaml title="a.yaml"\nb: 1\n```\n'
    )
    first, second, third = blocks_of(page)
    assert (first.reason, first.text, first.line) == ("needs a moon", "fly\n", 3)
    assert (second.mark, second.text, second.is_shell) == ("fails", "a\n  b\n", True)
    assert (third.title, third.language, third.mark) == ("a.yaml", "yaml", "")


def test_the_first_job_fits_a_machine_with_two_cores() -> None:
    """A local cluster keeps a tenth of the machine back."""
    page = ROOT / "docs" / "users" / "jobs.md"
    first = next(block for block in blocks_of(page) if block.title)
    (job,) = (document.data for document in documents(first.text))
    trainer = job["spec"]["trainer"]
    cpu = Quantity.parse(str(trainer["resourcesPerNode"]["requests"]["cpu"]))
    assert cpu.nanos * trainer["numNodes"] <= Quantity.parse("1800m").nanos
