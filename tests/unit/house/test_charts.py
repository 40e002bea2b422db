# SPDX-License-Identifier: Apache-2.0
"""That the charts' tests, which need helm, leave no value, gate and refusal out. This needs nothing but the files."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.charts import MANAGER, RUNTIMES, paths_of, schema_of
from tests.integration.install.test_chart_refusals import WRONG
from tests.integration.install.test_chart_values import RUNTIME_VALUES, VALUES
from tests.repository import ROOT
from trainwright.controller.trainer.assembly.features import GATES

ELSEWHERE = {"jobset.install"}
"""Tested in tests/e2e/test_chart_jobset.py, since it needs the packaged chart."""
REFUSALS = re.compile(r'append \$problems (?:\(printf )?"((?:[^"\\]|\\.)+)"')
VALUE = re.compile(r"\.Values\.([A-Za-z.]+)")


def templates(chart: Path) -> str:
    """The text of all templates."""
    return "\n".join(path.read_text() for path in sorted((chart / "templates").glob("*.*")))


def test_each_value_is_tested() -> None:
    assert {*paths_of(MANAGER)} == {*VALUES, *ELSEWHERE}
    # Each runtime is chosen by a test of its own.
    assert {path for path in paths_of(RUNTIMES) if not path.startswith("runtimes.")} == {*RUNTIME_VALUES}
    gates = schema_of(MANAGER)["$defs"]["Configuration"]["properties"]["featureGates"]["properties"]
    assert {*gates} == {*GATES, "AllAlpha", "AllBeta"}


@pytest.mark.parametrize(
    ("chart", "heading"), [(MANAGER, "### Values"), (RUNTIMES, "Values of `trainwright-runtimes`")]
)
def test_values_schema_and_page_list_the_same(chart: Path, heading: str) -> None:
    page = (ROOT / "docs" / "admins" / "install.md").read_text()
    table = page.partition(heading)[2].partition("\n\n|")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\S+)` \| (.+?) \| .+ \|$", table, re.MULTILINE)
    assert [path.replace("\\.", ".") for path, _ in rows] == paths_of(chart)
    values = yaml.safe_load((chart / "values.yaml").read_text())
    listed = dict.fromkeys(values)
    for path, default in rows:
        section, *names = re.split(r"(?<!\\)\.", path)
        listed.pop(section, None)
        found = values[section]
        for name in names:
            found = found[name.replace("\\.", ".")]
        assert default == ("as shipped" if isinstance(found, dict) and found else f"`{json.dumps(found)}`"), path
    assert not listed


def test_the_runtimes_to_choose_are_those_of_the_folder() -> None:
    runtimes = {path.stem for path in (ROOT / "config" / "runtimes").rglob("*-*.yaml")}
    schema = schema_of(RUNTIMES)["properties"]["runtimes"]
    assert {*schema["properties"]} == {*schema["propertyNames"]["enum"]} == runtimes
    assert {*yaml.safe_load((RUNTIMES / "values.yaml").read_text())["runtimes"]} == runtimes


def test_templates_use_values_that_the_schema_has() -> None:
    for chart in (MANAGER, RUNTIMES):
        known = paths_of(chart)
        for used in VALUE.findall(templates(chart)):
            assert any(f"{path}.".startswith(f"{used}.") for path in known), f"{chart.name} uses .Values.{used}"


def test_each_refusal_is_tested() -> None:
    messages = [message for _, _, message in WRONG.values()]
    found = REFUSALS.findall((MANAGER / "templates" / "checks.yaml").read_text())
    assert len(found) > 10
    for text in found:
        longest = max(re.split(r"%[qsv]", text.replace('\\"', '"')), key=len)
        assert any(longest[:20] in message for message in messages), f"no test is refused with {text!r}"


def test_each_overlay_has_a_value() -> None:
    page = (ROOT / "docs" / "admins" / "install.md").read_text()
    rows = re.search(r"\| with kustomize \| with Helm \|\n\| --- \| --- \|\n((?:\|.*\n)+)", page)
    assert rows
    overlays = {f"config/overlays/{path.name}" for path in (ROOT / "config" / "overlays").iterdir()}
    assert overlays <= {*re.findall(r"`(config/[\w/-]+)`", rows[1])}
    known = {*paths_of(MANAGER), *paths_of(RUNTIMES)} | {f"config.featureGates.{gate}" for gate in GATES}
    for line in rows[1].splitlines():
        values = {*re.findall(r"`([\w.-]+)`", line.split("|")[2])} - {"trainwright-runtimes"}
        assert values, line
        assert values <= known, line


def test_pages_pass_tags_as_text() -> None:
    for page in ("docs/admins/install.md", "docs/admins/upgrade.md", "charts/trainwright/README.md"):
        assert "--set image.tag=1" not in (ROOT / page).read_text()
