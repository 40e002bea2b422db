# SPDX-License-Identifier: Apache-2.0
"""Changes of the schemas are judged by what they do to stored objects and clients."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from trainwright.codegen import catalog, released
from trainwright.codegen.__main__ import report_check
from trainwright.codegen.compiler import Compiled
from trainwright.codegen.definition import Problems
from trainwright.codegen.released import Impact, SchemaChange, compare

JOB = "api/trainer/v1alpha1/trainjob.yaml"
Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
CASES = cases(__file__)


@pytest.mark.parametrize(
    ("old", "new", "path", "what", "impact"),
    CASES["field_changes"],
)
def test_field_changes(old: Schema, new: Schema, path: str, what: str, impact: str) -> None:
    before: Schema = {"type": "object", "properties": {"a": old}}
    after: Schema = {"type": "object", "properties": {"a": new}}
    assert (path, what, Impact[impact]) in [
        (change.path, change.what, change.impact) for change in compare("K", before, after)
    ]
    assert compare("K", after, after) == []


@pytest.mark.parametrize(
    ("old", "new", "what", "impact"),
    CASES["changes_of_fields"],
)
def test_changes_of_fields(old: Schema, new: Schema, what: str, impact: str) -> None:
    inner = [{"type": "object", "properties": {"a": {"type": "object", **schema}}} for schema in (old, new)]
    (change,) = compare("K", *inner)
    assert (change.path, change.what, change.impact) == ("a.b", what, Impact[impact])


def judged(checkout: Path) -> tuple[list[SchemaChange], list[str]]:
    """The breaking changes that are not acknowledged, and what is wrong with the acknowledgements."""
    problems = Problems()
    known = catalog.read(checkout / "api", problems)
    found = released.unacknowledged(released.changes(known, checkout), checkout, problems)
    return found, [str(problem) for problem in problems.found]


ENTRY = (
    "- kind: TrainJob\n"
    "  path: status.trainerStatus.progressPercentage\n"
    "  change: maximum 100 became 99\n"
    "  reason: nobody is ever done\n"
)


def test_a_break_needs_an_acknowledgement(checkout: Path, edit: Callable[..., None]) -> None:
    edit(JOB, "        maximum: 100\n", "        maximum: 99\n")
    acknowledged = checkout / released.ACKNOWLEDGED
    (change,), problems = judged(checkout)
    assert str(change).startswith(
        "TrainJob: status.trainerStatus.progressPercentage: maximum 100 became 99: breaks stored objects, objects that"
    )
    assert problems == []

    earlier = acknowledged.read_text(encoding="utf-8")
    acknowledged.write_text(earlier + ENTRY, encoding="utf-8")
    assert judged(checkout) == ([], [])

    acknowledged.write_text(
        f"{earlier}{ENTRY}- kind: TrainJob\n  path: a\n  change: b\n  reason: c\n", encoding="utf-8"
    )
    line = len(f"{earlier}{ENTRY}".splitlines()) + 1
    assert judged(checkout) == ([], [f"{released.ACKNOWLEDGED}:{line}: the schemas have no such change: TrainJob a: b"])

    acknowledged.write_text("- kind: TrainJob\n  path: a\n", encoding="utf-8")
    assert judged(checkout)[1] == [
        f"{released.ACKNOWLEDGED}:1: an entry must have the text fields change, kind, path, reason"
    ]


def test_a_removed_kind(checkout: Path) -> None:
    (checkout / "api/trainer/v1alpha1/clustertrainingruntime.yaml").unlink()
    (change,), _ = judged(checkout)
    assert str(change) == ("ClusterTrainingRuntime: <root>: kind removed: breaks clients, its objects are not served")


def test_a_release_makes_the_break_the_rule(checkout: Path, edit: Callable[..., None]) -> None:
    edit(JOB, "        maximum: 100\n", "        maximum: 99\n")
    (checkout / released.ACKNOWLEDGED).write_text(ENTRY, encoding="utf-8")
    files = released.snapshot(catalog.read(checkout / "api", Problems()))
    for path, text in files.items():
        (checkout / path).write_text(text, encoding="utf-8")
    assert judged(checkout) == ([], [])


def test_the_check_fails_on_a_break(capsys: pytest.CaptureFixture[str]) -> None:
    (change,) = compare("K", {"type": "object", "properties": {"a": TEXT}}, {"type": "object"})
    assert report_check(Compiled(files={}, changes=[change], unacknowledged=[change], release={}), []) == 1
    told = capsys.readouterr().err
    assert "K: a: field removed: breaks stored objects, what is stored there is lost" in told
    assert f"1 change(s) must be undone, or acknowledged in {released.ACKNOWLEDGED}" in told
    assert report_check(Compiled(files={}, changes=[change], unacknowledged=[], release={}), []) == 0
    assert "1 change(s) since the last release" in capsys.readouterr().out
