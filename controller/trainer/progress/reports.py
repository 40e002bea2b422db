# SPDX-License-Identifier: Apache-2.0
"""Reads reports of progress, from any source, and checks them as the API server would.

Decoding is as lenient as that of Kubeflow Trainer, which is Go's: unknown keys, the case of keys, and everything after
the first JSON value are ignored; invalid text becomes U+FFFD. What the schema of a TrainJob forbids is refused here,
since a report is answered before it is written.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from trainwright.api import trainer
from trainwright.api.objects import Key
from trainwright.api.times import format_time, parse
from trainwright.api.trainer.v1alpha1 import Metric, TrainerStatus
from trainwright.controller.trainer.progress.refusals import InvalidReport, MalformedReport

COMPLETE: Final = 100
"""The percentage of a training that is done."""
_SPACES = " \t\n\r"
_INT32 = range(-(2**31), 2**31)
_ZERO_YEAR = 1
"""The year of Go's zero time, which stands for a missing one."""
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Report:
    """One checked report."""

    status: TrainerStatus
    """As it is stored: the time in UTC and whole seconds. Must not be changed."""
    observed: datetime
    """`lastUpdatedTime` as it was reported, by the clock of the reporter."""

    @property
    def percentage(self) -> int | None:
        """None: not reported."""
        return self.status.progress_percentage

    @property
    def is_complete(self) -> bool:
        """Whether it reports 100 %."""
        return self.percentage == COMPLETE

    @property
    def diverged(self) -> bool:
        """Whether a loss is not finite: the metric `loss`, or one that ends with `_loss`."""
        return any(_is_loss(one.name) and not _is_finite(one.value) for one in self.status.metrics or ())


def decode(body: bytes) -> TrainerStatus | None:
    """The value of a request's body, unchecked. None: it has none, which changes nothing.

    Raises MalformedReport: it is not JSON, or a value has another type.
    """
    document = _first_value(body)
    if document is None:
        return None
    if not isinstance(document, dict):
        raise MalformedReport
    value = _field(document, "trainerStatus")
    return None if value is None else read_status(value)


def read_status(value: object) -> TrainerStatus:
    """The decoded `trainerStatus`, unchecked, with the time as it was sent. Raises MalformedReport for other types."""
    if not isinstance(value, dict):
        raise MalformedReport
    metrics = _field(value, "metrics")
    if metrics is not None and not isinstance(metrics, list):
        raise MalformedReport
    updated = _field(value, "lastUpdatedTime")
    if updated is not None and not isinstance(updated, str):
        raise MalformedReport
    return TrainerStatus(
        progress_percentage=_integer(_field(value, "progressPercentage")),
        estimated_remaining_seconds=_integer(_field(value, "estimatedRemainingSeconds")),
        metrics=[_metric(one) for one in metrics] if metrics else None,
        last_updated_time=updated,
    )


def checked(key: Key, status: TrainerStatus) -> Report:
    """The report of a decoded value.

    Args:
        key: of the TrainJob, for the message.
        status: as it was decoded.

    Raises:
        MalformedReport: the time cannot be read.
        InvalidReport: the schema of a TrainJob does not allow it; the message names the field and the rule.
    """
    observed: datetime | None = None
    if status.last_updated_time is not None:
        try:
            observed = parse(status.last_updated_time)
        except ValueError:
            raise MalformedReport from None
    problem = _problem(status)
    if not problem and (observed is None or observed.year == _ZERO_YEAR):
        problem = "lastUpdatedTime is needed"
    if problem:
        raise InvalidReport(f"TrainJob {key.name} in namespace {key.namespace}: status.trainerStatus.{problem}")
    assert observed is not None
    return Report(
        TrainerStatus(
            progress_percentage=status.progress_percentage,
            estimated_remaining_seconds=status.estimated_remaining_seconds,
            metrics=status.metrics,
            last_updated_time=format_time(observed),
        ),
        observed,
    )


def same_content(one: TrainerStatus, other: TrainerStatus) -> bool:
    """Whether two values are equal but for their time."""
    return (
        one.progress_percentage == other.progress_percentage
        and one.estimated_remaining_seconds == other.estimated_remaining_seconds
        and (one.metrics or []) == (other.metrics or [])
    )


def is_newer(stored: TrainerStatus, mine: TrainerStatus) -> bool:
    """Whether a value that another replica stored is newer, by the clocks of the reporters, in whole seconds."""
    if stored.last_updated_time is None or mine.last_updated_time is None:
        return False
    at, own = parse(stored.last_updated_time), parse(mine.last_updated_time)
    # Within a second the higher percentage counts, so that two replicas do not take turns.
    return at > own or (at == own and (stored.progress_percentage or 0) > (mine.progress_percentage or 0))


# ---------------------------------------------------------------------- decoding


def _first_value(body: bytes) -> Any:
    text = body.decode("utf-8", "replace").lstrip(_SPACES)
    try:
        return _DECODER.raw_decode(text)[0]
    except (ValueError, RecursionError):
        raise MalformedReport from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _field(document: Mapping[str, Any], name: str) -> Any:
    """The value of a field, whatever the case of its key. The last one counts, as in Go."""
    if len(document) == 1 and name in document:
        return document[name]
    folded = name.casefold()
    found = None
    for key, value in document.items():
        if key == name or (len(key) == len(name) and key.casefold() == folded):
            found = value
    return found


def _integer(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value not in _INT32:
        raise MalformedReport
    return value


def _metric(value: object) -> Metric:
    if value is None:
        return Metric(name="", value="")
    if not isinstance(value, dict):
        raise MalformedReport
    return Metric(name=_text(_field(value, "name")), value=_text(_field(value, "value")))


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedReport
    if value.isascii():
        return value
    # JSON can write halves of surrogate pairs, which no UTF-8 has.
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# ---------------------------------------------------------------------- checking


@dataclass(frozen=True, slots=True)
class _Limits:
    """What the schema of a TrainJob allows."""

    percentage: tuple[int, int]
    seconds: tuple[int, int]
    metrics: int
    name: tuple[int, int]
    value: tuple[int, int]


@cache
def _limits() -> _Limits:
    schema = Path(trainer.__file__).parent / "v1alpha1" / "trainjob.schema.json"
    definitions = json.loads(schema.read_bytes())["$defs"]
    status = definitions["trainer.kubeflow.org.v1alpha1.TrainerStatus"]["properties"]
    metric = definitions["trainer.kubeflow.org.v1alpha1.Metric"]["properties"]

    def span(field: Mapping[str, Any], low: str, high: str) -> tuple[int, int]:
        return field[low], field[high]

    return _Limits(
        percentage=span(status["progressPercentage"], "minimum", "maximum"),
        seconds=span(status["estimatedRemainingSeconds"], "minimum", "maximum"),
        metrics=status["metrics"]["maxItems"],
        name=span(metric["name"], "minLength", "maxLength"),
        value=span(metric["value"], "minLength", "maxLength"),
    )


def load_limits() -> None:
    """Read the schema now, so that the first report does not wait for the disk."""
    _limits()


def _problem(status: TrainerStatus) -> str:
    """The first rule that the value breaks, with its field; empty if there is none."""
    limits = _limits()
    for field, number, (low, high) in (
        ("progressPercentage", status.progress_percentage, limits.percentage),
        ("estimatedRemainingSeconds", status.estimated_remaining_seconds, limits.seconds),
    ):
        if number is not None and not low <= number <= high:
            return f"{field}: {number} must be from {low} to {high}"
    metrics = status.metrics or ()
    if len(metrics) > limits.metrics:
        return f"metrics: {len(metrics)} are too many; at most {limits.metrics} can be stored"
    for index, metric in enumerate(metrics):
        for field, text, (low, high) in (("name", metric.name, limits.name), ("value", metric.value, limits.value)):
            if not low <= len(text) <= high:
                return (
                    f"metrics[{index}].{field}: {text[:_SHOWN]!r} has {len(text)} characters;"
                    f" it must have from {low} to {high}"
                )
    return ""


def _is_loss(name: str) -> bool:
    return name == "loss" or name.endswith("_loss")


def _is_finite(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return True  # not a number
