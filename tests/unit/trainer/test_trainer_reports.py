# SPDX-License-Identifier: Apache-2.0
"""How reports are read and what is refused; the rules are held to the definition of TrainJobs."""

import json
from typing import Any

import msgspec
import pytest

from tests.cases import cases
from tests.repository import ROOT, documents
from trainwright.api.objects import Key
from trainwright.api.trainer.v1alpha1 import TrainerStatus
from trainwright.controller.trainer.progress.report import InvalidReport, MalformedReport, ProgressReport, checked
from trainwright.controller.trainer.progress.server import decode

CASES = cases(__file__)

TIME = "2026-05-06T07:08:09Z"
KEY = Key("space", "a")


def read(body: str | bytes) -> dict[str, Any] | None:
    """What a body is decoded to; None: nothing."""
    found = decode(body if isinstance(body, bytes) else body.encode())
    return None if found is None else msgspec.to_builtins(found)


def report(**fields: Any) -> ProgressReport:
    return checked(KEY, msgspec.convert({"lastUpdatedTime": TIME, **fields}, TrainerStatus))


def inside(text: str) -> str:
    return f'{{"trainerStatus": {text}}}'


NOTHING = ["{}", "null", ' \n{"unknown": [1, {}]}', '{"trainerStatus": null}', "{} trailing", "null]"]

DECODED: list[tuple[str, str | bytes, dict[str, Any]]] = [
    # what, body, decoded
    ("the case of keys", '{"TRAINERSTATUS": {"progresspercentage": 1}}', {"progressPercentage": 1}),
    ("the last of two keys", inside('{"progressPercentage": 1, "PROGRESSPERCENTAGE": 2}'), {"progressPercentage": 2}),
    ("what follows the value", inside('{"progressPercentage": 1}') + "}{", {"progressPercentage": 1}),
    ("unknown keys", inside('{"other": [NULL]}').replace("NULL", "null"), {}),
    ("null for anything", inside('{"progressPercentage": null, "metrics": null, "lastUpdatedTime": null}'), {}),
    ("no metrics", inside('{"metrics": []}'), {}),
    ("null as a metric", inside('{"metrics": [null]}'), {"metrics": [{"name": "", "value": ""}]}),
    ("half a metric", inside('{"metrics": [{"name": "a"}]}'), {"metrics": [{"name": "a", "value": ""}]}),
    ("text that is not UTF-8", inside('{"metrics": [{"name": "\u00ff", "value": "1"}]}').encode("latin-1"),
     {"metrics": [{"name": "\ufffd", "value": "1"}]}),
    ("half a surrogate pair", inside(r'{"metrics": [{"name": "\ud800x", "value": "1"}]}'),
     {"metrics": [{"name": "\ufffdx", "value": "1"}]}),
    ("the largest number", inside('{"estimatedRemainingSeconds": 2147483647}'),
     {"estimatedRemainingSeconds": 2147483647}),
]  # fmt: skip

MALFORMED = [
    "",
    " ",
    "{",
    "[]",
    "1",
    '"text"',
    "\ufeff{}",
    inside("[1]"),
    inside('"text"'),
    inside('{"progressPercentage": "1"}'),
    inside('{"progressPercentage": 1.0}'),
    inside('{"progressPercentage": 1e1}'),
    inside('{"progressPercentage": true}'),
    inside('{"progressPercentage": 2147483648}'),
    inside('{"progressPercentage": NaN}'),
    inside('{"progressPercentage": Infinity}'),
    inside('{"metrics": {}}'),
    inside('{"metrics": [1]}'),
    inside('{"metrics": [{"name": 1}]}'),
    inside('{"metrics": [{"name": "a", "value": 1.5}]}'),
    inside('{"lastUpdatedTime": 1}'),
    inside('{"a": "\n"}'),
    "[" * 60_000,
    '{"a":' * 12_000,
]


@pytest.mark.parametrize("body", NOTHING)
def test_a_body_without_a_value(body: str) -> None:
    assert read(body) is None


@pytest.mark.parametrize(("what", "body", "decoded"), DECODED, ids=[row[0] for row in DECODED])
def test_a_body_is_read_as_go_reads_it(what: str, body: str | bytes, decoded: dict[str, Any]) -> None:
    assert read(body) == decoded


@pytest.mark.parametrize("body", MALFORMED, ids=lambda body: body[:40])
def test_a_malformed_body(body: str) -> None:
    with pytest.raises(MalformedReport, match="Invalid payload"):
        read(body)


TIMES = [
    ("2026-05-06T07:08:09.999999+00:00", TIME),
    ("2026-05-06T09:08:09+02:00", TIME),
    ("2026-05-06T07:08:09.123456789Z", TIME),
    ("0999-05-06T07:08:09Z", "0999-05-06T07:08:09Z"),
]


@pytest.mark.parametrize(("reported", "stored"), TIMES)
def test_a_time_is_stored_in_utc_and_seconds(reported: str, stored: str) -> None:
    assert report(lastUpdatedTime=reported).status.last_updated_time == stored


@pytest.mark.parametrize("time", ["", "yesterday", "2026-05-06", "2026-05-06T07:08:09", "2026-13-06T07:08:09Z"])
def test_a_time_that_cannot_be_read(time: str) -> None:
    with pytest.raises(MalformedReport):
        report(lastUpdatedTime=time)


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_utc_cannot_express(time: str) -> None:
    with pytest.raises(MalformedReport):
        report(lastUpdatedTime=time)


INVALID: list[tuple[dict[str, Any], str]] = [
    ({"lastUpdatedTime": None}, "lastUpdatedTime is needed"),
    ({"lastUpdatedTime": "0001-01-01T00:00:00Z"}, "lastUpdatedTime is needed"),
    ({"progressPercentage": -1}, "progressPercentage: -1 must be from 0 to 100"),
    ({"progressPercentage": 101}, "progressPercentage: 101 must be from 0 to 100"),
    ({"estimatedRemainingSeconds": -1}, "estimatedRemainingSeconds: -1 must be from 0 to 2147483647"),
    ({"metrics": [{"name": "a", "value": "1"}] * 257}, "metrics: 257 are too many; at most 256 can be stored"),
    ({"metrics": [{"name": "", "value": "1"}]}, "metrics[0].name: '' has 0 characters; it must have from 1 to 64"),
    ({"metrics": [{"name": "a", "value": ""}]}, "metrics[0].value: '' has 0 characters"),
    ({"metrics": [{"name": "a", "value": "v" * 65}]}, "has 65 characters"),
    ({"metrics": [{"name": "é" * 65, "value": "v"}]}, "has 65 characters"),
]


@pytest.mark.parametrize(("fields", "message"), INVALID, ids=[row[1] for row in INVALID])
def test_an_invalid_value_is_refused_with_its_trainjob_and_its_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidReport) as refusal:
        report(**fields)
    assert str(refusal.value).startswith("TrainJob a in namespace space: status.trainerStatus.")
    assert message in str(refusal.value)
    assert len(str(refusal.value)) < 300


def test_the_limits_are_those_of_the_definition() -> None:
    """One more than the definition allows is refused, and what it allows is taken."""
    (definition,) = documents(ROOT / "config" / "crd" / "trainer.kubeflow.org_trainjobs.yaml")
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    fields = schema["trainerStatus"]["properties"]
    metric = fields["metrics"]["items"]["properties"]
    most = fields["metrics"]["maxItems"]
    longest = {name: "é" * metric[name]["maxLength"] for name in ("name", "value")}
    report(progressPercentage=fields["progressPercentage"]["maximum"], metrics=[longest] * most)
    for broken in (
        {"progressPercentage": fields["progressPercentage"]["maximum"] + 1},
        {"progressPercentage": fields["progressPercentage"]["minimum"] - 1},
        {"metrics": [longest] * (most + 1)},
        {"metrics": [{**longest, "name": longest["name"] + "x"}]},
    ):
        with pytest.raises(InvalidReport):
            report(**broken)


@pytest.mark.parametrize(("metrics", "diverged"), CASES["a_loss_that_is_not_finite_is_seen"])
def test_a_loss_that_is_not_finite_is_seen(metrics: dict[str, str], diverged: bool) -> None:
    pairs = [{"name": name, "value": value} for name, value in metrics.items()]
    assert report(metrics=pairs).diverged is diverged


def test_what_python_cannot_encode_is_not_taken() -> None:
    decoded = decode(inside(r'{"metrics": [{"name": "\udcff", "value": "\ud83d\ude00"}]}').encode())
    assert decoded is not None
    assert json.loads(msgspec.json.encode(decoded))["metrics"] == [{"name": "\ufffd", "value": "😀"}]
