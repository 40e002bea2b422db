# SPDX-License-Identifier: Apache-2.0
"""Chooses the cause to show: a pure function from a picture to one explanation."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec

from trainwright.api.messages import one_line
from trainwright.api.objects import dig
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.job.status import state_of, without_causes
from trainwright.controller.trainer.why.job import (
    ended,
    jobset,
    nodes,
    refusals,
    running,
    scheduling,
    starting,
    unattended,
)
from trainwright.plugins.contract import Explains, FactUnavailable, JobState
from trainwright.plugins.contract.errors import PipelineError
from trainwright.plugins.contract.picture import Cause, Picture, Query, Severity, Verb
from trainwright.plugins.registry import called

Check = Callable[[Picture], Iterable[Cause]]

CHECKS: tuple[Check, ...] = (
    jobset.not_made,
    jobset.between_attempts,
    jobset.waiting_steps,
    jobset.service_taken,
    refusals.uncreated,
    scheduling.unscheduled,
    starting.unpulled,
    starting.unmounted,
    starting.not_created,
    starting.refused_by_node,
    starting.slow,
    ended.failed,
    ended.failed_as_a_whole,
    nodes.disrupted,
    running.unready,
    running.left_alone,
    running.silent,
)
"""The checks of a job that is on its way, in the order of the chain."""


_RESTARTS = frozenset({"CrashLoop", "Restarting"})
_RETRIED = frozenset({"RankFailed", "OutOfMemory", "InitializerFailed"})
"""Reasons of a restart as long as they may pass by themselves."""
_STALLS = frozenset({"NoReport", "RankEnded"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    namespace: str
    name: str
    outcome: JobState
    """The state of the job."""
    cause: Cause
    others: tuple[Cause, ...] = ()
    """Further causes, the worst first."""
    unread: tuple[str, ...] = ()
    """What could not be read, so that the explanation may be incomplete."""

    @property
    def exit_code(self) -> int:
        """0: it runs or is complete, 1: it failed or needs an action, 3: it waits."""
        if self.outcome is JobState.COMPLETE or self.cause.reason == "Running":
            return 0
        return 1 if self.outcome is JobState.FAILED or self.cause.severity is Severity.STUCK else 3


def explain(picture: Picture, plugins: Sequence[Explains] = ()) -> Explanation:
    """The explanation of the job. While `picture.wanted` is not empty it is provisional: read that, and ask again."""
    failed: list[str] = []
    # Pods, nodes and plugins give parts of the sentences, which are shown and stored.
    found = _causes(picture, plugins, failed)
    first, *others = (replace(one, message=one_line(one.message)) for one in found)
    return Explanation(
        namespace=picture.namespace,
        name=picture.name,
        outcome=_outcome(picture, first),
        cause=first,
        others=tuple(others),
        unread=tuple(map(one_line, (*_unread(picture), *failed))),
    )


def _causes(picture: Picture, plugins: Sequence[Explains], failed: list[str]) -> list[Cause]:  # noqa: PLR0911 - rules
    """At least one cause, in the order in which they are said. Notes plugins that raise in `failed`."""
    if over := list(ended.over(picture)):
        return over
    if dig(picture.job, "metadata.deletionTimestamp"):
        return list(nodes.ending(picture))
    if elsewhere := list(unattended.elsewhere(picture)):
        return elsewhere
    refused, suspended = list(refusals.refusals(picture)), list(unattended.suspended(picture))
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
        name = getattr(plugin, "name", type(plugin).__name__)
        try:
            found += called(plugin, name, "explain", picture)
        except (PipelineError, FactUnavailable) as error:  # must not hide what the others say
            failed.append(f"what plugin {name} knows: {getattr(error, 'message', error)}")
    # A container that runs again after a failure is worth a word, and no reason for concern.
    only_notes = all(one.severity is Severity.WAITS and one.reason == "CrashLoop" for one in found)
    ordinary = running.ordinary(picture)
    return _with_attempt(picture, [*_unexplained(found), *([ordinary] if only_notes else [])])


def _unexplained(found: Sequence[Cause]) -> list[Cause]:
    """Those that no other one explains, each once, in order."""
    explained = {reason for cause in found for reason in cause.explains}
    if any(cause.severity < Severity.WAITS for cause in found):
        # A step that waits for a step in trouble; a restart whose new pods are in trouble.
        explained |= {"StepWaits"}
    if any(cause.reason != "Restarting" and cause.severity < Severity.WAITS for cause in found):
        explained |= {"Restarting"}
    left = {(cause.reason, cause.message): cause for cause in found if cause.reason not in explained}
    return sorted(left.values(), key=_order)


def _order(cause: Cause) -> tuple[int, bool, int, datetime, int, int, str]:
    """Worst first; a failure before a wait; then the earlier link, the earlier time, more pods, the lower rank."""
    since = cause.since or datetime.max.replace(tzinfo=UTC)
    return cause.severity, not cause.failed, cause.link, since, -cause.pods, cause.index, cause.message


def _with_attempt(picture: Picture, found: list[Cause]) -> list[Cause]:
    """Where JobSet has restarted the job, the sentence says which attempt it is about."""
    if found[0].reason in ("CrashLoop", "Restarting") and found[-1].reason == "Running":
        found = [found[-1], *found[:-1]]
    attempt = jobset.attempt_of(picture)
    if not attempt or "attempt " in found[0].message:
        return found
    return [replace(found[0], message=f"{found[0].message}; {attempt}"), *found[1:]]


def _outcome(picture: Picture, first: Cause) -> JobState:
    """The state of the job, by the rules of `state_of`, but from causes where that has conditions made of them."""
    job = msgspec.convert({name: picture.job.get(name) for name in ("metadata", "status")}, TrainJob)
    state = state_of(without_causes(job)).state
    if state.is_over or state in {JobState.DELETING, JobState.BLOCKED}:
        return state
    # A job that no manager has looked at yet may be stuck for another reason.
    is_to_be = dig(picture.job, "spec.suspend") and first.severity is not Severity.STUCK
    if state is JobState.SUSPENDED or is_to_be:
        return JobState.SUSPENDED
    return state_from(first) or (JobState.PENDING if first.reason == "Starting" else state)


def state_from(cause: Cause) -> JobState | None:
    """The state of a job for which this cause goes first; None: the cause does not say it."""
    if cause.reason == "Running":
        return JobState.RUNNING
    if cause.reason in _RESTARTS or (cause.reason in _RETRIED and cause.severity is Severity.TEMPORARY):
        return JobState.RESTARTING
    if cause.reason in _STALLS:
        return JobState.STALLED
    return {Severity.STUCK: JobState.STUCK, Severity.TEMPORARY: JobState.WAITING}.get(cause.severity)


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
