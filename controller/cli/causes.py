# SPDX-License-Identifier: Apache-2.0
"""An explanation as commands and pages write it as JSON. Names are camelCase; fields are added over time."""

import msgspec

from trainwright.api.times import format_time
from trainwright.controller.trainer.job.state import Word
from trainwright.controller.trainer.why import Explanation
from trainwright.plugins.contract import Cause


class ReferenceView(msgspec.Struct, kw_only=True, rename="camel"):
    kind: str
    namespace: str
    """Empty for objects without a namespace."""
    name: str


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


class ExplanationView(msgspec.Struct, kw_only=True, rename="camel"):
    outcome: Word
    cause: CauseView
    others: list[CauseView]
    """Further causes, the worst first."""
    not_read: list[str]
    """What could not be read, so that the explanation may be incomplete."""


def shown_explanation(explanation: Explanation) -> ExplanationView:
    return ExplanationView(
        outcome=explanation.outcome,
        cause=_cause(explanation.cause),
        others=[_cause(one) for one in explanation.others],
        not_read=list(explanation.unread),
    )


def _cause(cause: Cause) -> CauseView:
    return CauseView(
        reason=cause.reason,
        message=cause.message,
        severity=cause.severity.name.capitalize(),
        object=msgspec.convert(cause.about, ReferenceView | None, from_attributes=True),
        since=format_time(cause.since) if cause.since is not None else None,
        pods=cause.pods,
    )
