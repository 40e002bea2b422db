# SPDX-License-Identifier: Apache-2.0
"""Which of the causes is said: a pure function from a picture to one explanation."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from trainwright.api.messages import one_line
from trainwright.controller.trainer.explain.checks import (
    claims,
    creation,
    ended,
    failures,
    images,
    jobset,
    nodes,
    queue,
    refusals,
    running,
    scheduling,
    starting,
    unattended,
)
from trainwright.plugins.contract import Cause, Explains, Picture, Severity
from trainwright.plugins.contract.picture import Query, Verb

Check = Callable[[Picture], Iterable[Cause]]

CHECKS: tuple[Check, ...] = (
    jobset.not_made,
    jobset.restarting,
    jobset.waiting_steps,
    jobset.service_taken,
    creation.uncreated,
    scheduling.unscheduled,
    images.unpulled,
    claims.unmounted,
    starting.not_created,
    starting.refused_by_node,
    starting.slow,
    failures.failed,
    nodes.disrupted,
    running.unready,
    running.silent,
)
"""The checks of a job that is on its way, in the order of the chain."""


class Outcome(StrEnum):
    """How the job stands, in one word."""

    COMPLETE = "Complete"
    RUNNING = "Running"
    WAITING = "Waiting"
    STUCK = "Stuck"
    FAILED = "Failed"


EXIT_CODES = {Outcome.COMPLETE: 0, Outcome.RUNNING: 0, Outcome.FAILED: 1, Outcome.STUCK: 1, Outcome.WAITING: 3}
"""Exit code of `trainwright explain`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a job does not train, or that it does."""

    namespace: str
    name: str
    outcome: Outcome
    cause: Cause
    """The one to say."""
    others: tuple[Cause, ...] = ()
    """Further causes, the worst first."""
    unread: tuple[str, ...] = ()
    """What could not be read, so that the explanation may be incomplete."""

    @property
    def exit_code(self) -> int:
        """0: it runs or is complete, 1: it failed or is stuck, 3: it waits."""
        return EXIT_CODES[self.outcome]


def explain(picture: Picture, plugins: Sequence[Explains] = ()) -> Explanation:
    """The explanation of the job. While `picture.wanted` is not empty it is provisional: read that, and ask again.

    Args:
        picture: the job and what is known around it.
        plugins: those with the hook `explain`.
    """
    failed: list[str] = []
    first, *others = map(_harmless, _causes(picture, plugins, failed))
    return Explanation(
        namespace=picture.namespace,
        name=picture.name,
        outcome=_outcome(picture, first),
        cause=first,
        others=tuple(others),
        unread=tuple(map(one_line, (*_unread(picture), *failed))),
    )


def _harmless(cause: Cause) -> Cause:
    """The cause as it may be shown and stored: pods, nodes and plugins give parts of its sentence."""
    return replace(cause, message=one_line(cause.message))


def _causes(picture: Picture, plugins: Sequence[Explains], failed: list[str]) -> list[Cause]:  # noqa: PLR0911 - rules
    """At least one cause, in the order in which they are said. Notes plugins that raise in `failed`."""
    if over := list(ended.over(picture)):
        return over
    if (picture.job.get("metadata") or {}).get("deletionTimestamp"):
        return list(nodes.ending(picture))
    if elsewhere := list(unattended.elsewhere(picture)):
        return elsewhere
    refused, suspended = list(refusals.refusals(picture)), list(queue.suspended(picture))
    if suspended:
        # Its owner knows of the suspension. To resume a job that cannot be built would not help.
        is_first = (
            any(one.reason == "RuntimeMissing" for one in refused) or suspended[0].severity is Severity.DELIBERATE
        )
        return [*refused, *suspended] if is_first else [*suspended, *refused]
    if refused:
        return refused
    if alone := list(unattended.unattended(picture)):
        return alone
    found = [cause for check in CHECKS for cause in check(picture)]
    for plugin in plugins:
        try:
            found += plugin.explain(picture)
        except Exception as error:  # a defect of one plugin must not hide what the others say
            name = getattr(plugin, "name", type(plugin).__name__)
            failed.append(f"what plugin {name} knows: it failed with {type(error).__name__}: {error}")
    return _with_attempt(picture, [*_sorted(_not_explained(found)), *_at_last(picture, found)])


def _at_last(picture: Picture, found: Sequence[Cause]) -> list[Cause]:
    """That the job runs, or starts, unless a cause says why it does neither."""
    ordinary = running.ordinary(picture)
    if not found:
        return [ordinary]
    # A container that runs again after a failure is worth a word, and no reason for concern.
    only_notes = all(one.severity is Severity.WAITS and one.reason == "CrashLoop" for one in found)
    return [ordinary] if only_notes else []


def _not_explained(found: Sequence[Cause]) -> list[Cause]:
    explained = {reason for cause in found for reason in cause.explains}
    if any(cause.severity < Severity.WAITS for cause in found):
        # A step that waits for a step in trouble; a restart whose new pods are in trouble.
        explained |= {"StepWaits"}
    if any(cause.reason != "Restarting" and cause.severity < Severity.WAITS for cause in found):
        explained |= {"Restarting"}
    return [cause for cause in found if cause.reason not in explained]


def _sorted(found: Iterable[Cause]) -> list[Cause]:
    unique = {(cause.reason, cause.message): cause for cause in found}
    return sorted(unique.values(), key=_order)


def _order(cause: Cause) -> tuple[int, bool, int, datetime, int, int, str]:
    """Worst first; a failure before a wait; then the earlier link, the earlier time, more pods, the lower rank."""
    since = cause.since or datetime.max.replace(tzinfo=UTC)
    return cause.severity, not cause.failed, cause.link, since, -cause.pods, cause.index, cause.message


def _with_attempt(picture: Picture, found: list[Cause]) -> list[Cause]:
    """Where JobSet has restarted the job, the sentence says which attempt it is about."""
    if found[0].reason in ("CrashLoop", "Restarting") and found[-1].reason == "Running":
        found = [found[-1], *found[:-1]]
    attempt = jobset.attempt_of(picture)
    if attempt is None or "attempt " in found[0].message:
        return found
    which = f"; attempt {attempt[0]} of {attempt[1]}"
    return [replace(found[0], message=f"{found[0].message}{which}"), *found[1:]]


def _outcome(picture: Picture, first: Cause) -> Outcome:
    conditions = (picture.job.get("status") or {}).get("conditions") or ()
    held = {one.get("type") for one in conditions if one.get("status") == "True"}
    if "Complete" in held:
        return Outcome.COMPLETE
    if "Failed" in held:
        return Outcome.FAILED
    if first.reason == "Running":
        return Outcome.RUNNING
    return Outcome.STUCK if first.severity is Severity.STUCK else Outcome.WAITING


def _unread(picture: Picture) -> Iterator[str]:
    """The rights that are missing, and other reads that failed, each once."""
    told: dict[str, None] = {}
    for query, message in picture.unread.items():
        if query.verb is Verb.SERVES or (query.verb is Verb.LOG and "forbidden" not in message):
            continue
        told[why_unread(query, message)] = None
    yield from told


def why_unread(query: Query, message: str) -> str:
    """Why a query has no answer, in the words of users: the right that is missing, or what the API server said."""
    resource = query.resource
    plural = "pods/log" if query.verb is Verb.LOG else resource.plural
    kind = f"{plural}.{resource.group}" if resource.group else plural
    if "forbidden" not in message:
        return f"{kind}: {message}"
    where = f" in namespace {query.namespace}" if query.namespace else ""
    word = "get" if query.verb is Verb.LOG else query.verb.value
    return f"no right to {word} {kind}{where}"
