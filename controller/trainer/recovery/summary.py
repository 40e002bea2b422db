# SPDX-License-Identifier: Apache-2.0
"""The key `summary` of the record of failures: what a job's attempts have cost, and what follows.

It is written before what it justifies, so a manager that starts goes on from it. Lost or edited, the counts begin from
those of the JobSet, and are never lower.
"""

from collections.abc import Mapping

import msgspec

from trainwright.api.manifest import ManifestError, dump, load
from trainwright.controller.trainer.recovery.causes import FailureCause
from trainwright.controller.trainer.recovery.verdict import Counts

KEY = "summary"


class Summary(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """What is on record of a job's recovery."""

    jobset: str = ""
    """The uid of the JobSet whose attempts were judged last."""
    base: int = 0
    """Attempts before the first one of that JobSet, or before its last resume."""
    judged: int = 0
    """Attempts that have ended and are judged: the number of the last one, from 1."""
    counted: int = 0
    """How many of the JobSet's restarts count towards its limit, when the last attempt was judged."""
    counts: Counts = msgspec.field(default_factory=Counts)
    before: Counts = msgspec.field(default_factory=Counts)
    """The counts before the last attempt, for the case that its cause is corrected."""
    last_cause: str = ""
    provisional_until: str = ""
    """Until then, later evidence may correct the cause of the last attempt; empty: no more."""
    hold_until: str = ""
    """The next attempt begins then; empty: at once."""
    hang: bool = False
    """Whether the ranks are being stopped, because the attempt that runs stands still."""
    replace: str = ""
    """The uid of the JobSet that gives way to a new one."""
    avoided: dict[str, str] = msgspec.field(default_factory=dict)
    """Nodes that the job avoids, and since when."""
    kept: list[str] = msgspec.field(default_factory=list)
    """Suspect nodes that it does not avoid, since there is a reason; users were told."""
    end_reason: str = ""
    """The job ends with this reason."""
    end_message: str = ""
    paid: str = ""
    """What the last attempt has cost, in words."""
    why: str = ""
    """Why the last attempt ended, in words."""

    def copy(self) -> "Summary":
        return msgspec.structs.replace(
            self,
            counts=self.counts.copy(),
            before=self.before.copy(),
            avoided=dict(self.avoided),
            kept=list(self.kept),
        )


NOTHING = Summary()
"""Of a job of which no attempt has ended: one for all of them, which nobody changes."""


def summary_of(data: Mapping[str, str] | None) -> Summary | None:
    """The summary that a record holds; None: it holds none, or somebody has edited it so that it cannot be read."""
    text = (data or {}).get(KEY)
    if text is None:
        return None
    try:
        return msgspec.convert(load(text), Summary)
    except (ManifestError, msgspec.ValidationError):
        return None


def text_of(summary: Summary) -> str:
    """The summary as the record holds it."""
    return dump(msgspec.to_builtins(summary), sort_keys=False)


def at_least(summary: Summary, *, jobset: str, base: int, restarts: int, counted: int) -> Summary:
    """The summary with counts that are not lower than those of the JobSet.

    `base` are the attempts before its first one, as its pods carry it; `counted` are the restarts that count towards
    its limit.
    """
    known = sum(summary.counts.causes.values())
    if summary.judged >= base + restarts and known >= summary.judged:
        return summary
    whole = summary.copy()
    if not whole.judged and not known:
        # Nothing is known but what the JobSet has counted.
        whole.jobset, whole.base, whole.judged, whole.counted = jobset, base, base + restarts, counted
        causes = {FailureCause.CODE: counted, FailureCause.INFRASTRUCTURE: base + restarts - counted}
        whole.counts = Counts(
            causes={cause: n for cause, n in causes.items() if n}, row={"retries": counted} if counted else {}
        )
        return whole
    missing = whole.judged - known
    if missing > 0:
        whole.counts.causes[FailureCause.INFRASTRUCTURE] = (
            whole.counts.causes.get(FailureCause.INFRASTRUCTURE, 0) + missing
        )
    return whole
