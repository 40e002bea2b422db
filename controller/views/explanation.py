# SPDX-License-Identifier: Apache-2.0
"""Causes and explanations as data and as text: for `trainwright explain`, `trainwright doctor` and the page."""

from collections.abc import Sequence
from typing import Any

import msgspec

from trainwright.api.objects import Key
from trainwright.api.times import format_time, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.why import Explanation
from trainwright.plugins.contract import Explains, JobState
from trainwright.plugins.contract.picture import Cause
from trainwright.plugins.registry import Registry


class ReferenceView(msgspec.Struct, kw_only=True, rename="camel"):
    kind: str
    namespace: str
    """Empty for objects without a namespace."""
    name: str


def reference(key: Key) -> ReferenceView:
    """To a TrainJob."""
    return ReferenceView(kind=TrainJob.RESOURCE.kind, namespace=key.namespace, name=key.name)


class CauseView(msgspec.Struct, kw_only=True, rename="camel"):
    """One cause, in the words of `trainwright explain`."""

    reason: str
    """A stable word in CamelCase."""
    message: str
    """What is wrong with which object, the evidence, and what to do."""
    severity: str
    """`Ended`, `Deliberate`, `Stuck`, `Temporary` or `Waits`."""
    object: ReferenceView | None
    since: str | None
    pods: int
    """How many pods it concerns; 0: not counted."""
    remedy: str | msgspec.UnsetType = msgspec.UNSET
    """What to do, where the message does not say it."""


class ExplanationView(msgspec.Struct, kw_only=True, rename="camel"):
    outcome: JobState
    cause: CauseView
    others: list[CauseView]
    """Further causes, the worst first."""
    not_read: list[str]
    """What could not be read, so that the explanation may be incomplete."""


def shown_explanation(explanation: Explanation) -> ExplanationView:
    return ExplanationView(
        outcome=explanation.outcome,
        cause=shown_cause(explanation.cause),
        others=list(map(shown_cause, explanation.others)),
        not_read=list(explanation.unread),
    )


def shown_cause(cause: Cause) -> CauseView:
    return CauseView(
        reason=cause.reason,
        message=cause.message,
        severity=cause.severity.name.capitalize(),
        object=msgspec.convert(cause.about, ReferenceView | None, from_attributes=True),
        since=format_time(cause.since) if cause.since is not None else None,
        pods=cause.pods,
        remedy=cause.remedy or msgspec.UNSET,
    )


def explaining_plugins() -> Sequence[Explains]:
    """The installed plugins that explain jobs, whatever a Configuration disables: the cluster may have other settings.

    Raises RegistryError.
    """
    return [entry.plugin for entry in Registry.load().having("explain")]  # type: ignore[misc]


def lines_of(explanation: Explanation, *, everything: bool = False) -> list[str]:
    """The explanation as text: the sentence, the object to look at, and what else there is."""
    lines = lines_of_cause(f"{explanation.outcome}: ", explanation.cause)
    shown = explanation.others if everything else explanation.others[:1]
    for other in shown:
        told = lines_of_cause("also: ", other)
        lines += told if everything else told[:1]
    rest = len(explanation.others) - len(shown)
    if rest:
        lines.append(f"{rest} more: see --all")
    lines += [f"not read: {text}" for text in explanation.unread]
    return lines


def lines_of_cause(lead: str, cause: Cause, *, indent: int = 2) -> list[str]:
    """One cause as text: its message, the object to look at and since when, and what to do."""
    parts = [str(cause.about)] if cause.about is not None else []
    if cause.since is not None:
        age = _age((wall_clock() - cause.since).total_seconds())
        parts.append(f"since {cause.since:%Y-%m-%d %H:%M:%S} UTC ({age})")
    remedy = f"to do: {cause.remedy}" if cause.remedy else ""
    return [lead + cause.message, *(" " * indent + line for line in (", ".join(parts), remedy) if line)]


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def as_json(explanation: Explanation) -> dict[str, Any]:
    """The explanation as data. Keys are added over time, never changed."""
    told = msgspec.to_builtins(shown_explanation(explanation))
    job = {"namespace": explanation.namespace, "name": explanation.name, "outcome": told.pop("outcome")}
    return {**job, "exitCode": explanation.exit_code, **told}
