# SPDX-License-Identifier: Apache-2.0
"""The policies of a Job: for failed pods, for success before the end, for the delay of replacements; sets of indexes.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from trainwright.api.objects import Document, conditions_of, name_of, namespace_of, status_of
from trainwright.controller.local.controllers.objects import finished_at


@dataclass(frozen=True, slots=True)
class Indexes:
    """An immutable set of indexes, held as closed intervals in ascending order that do not touch."""

    intervals: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse(cls, text: str, completions: int) -> "Indexes":
        """Read the form of the wire. Indexes that are not below `completions` and parts that are no numbers are
        dropped."""
        found: list[tuple[int, int]] = []
        for part in text.split(",") if text else ():
            first, _, last = part.partition("-")
            if not first.isdecimal() or (last and not last.isdecimal()):
                continue
            begin, end = int(first), min(int(last or first), completions - 1)
            if begin >= completions:
                break
            found.append((begin, end))
        return cls(tuple(_joined(found)))

    @classmethod
    def of(cls, indexes: Iterable[int]) -> "Indexes":
        """The set of these indexes."""
        return cls(tuple(_joined((index, index) for index in sorted(set(indexes)))))

    def __or__(self, other: "Indexes") -> "Indexes":
        return Indexes(tuple(_joined(sorted((*self.intervals, *other.intervals)))))

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and any(first <= index <= last for first, last in self.intervals)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __str__(self) -> str:
        return ",".join(
            str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}"
            for first, last in self.intervals
        )

    def common(self, other: "Indexes") -> int:
        """The number of indexes in both sets."""
        return sum(
            max(0, min(last, end) - max(first, begin) + 1)
            for first, last in self.intervals
            for begin, end in other.intervals
        )

    def absent(self, count: int, completions: int) -> list[int]:
        """The first `count` indexes below `completions` that are not in the set."""
        found: list[int] = []
        candidate = 0
        for first, last in (*self.intervals, (completions, completions)):
            found.extend(range(candidate, min(first, completions, candidate + count - len(found))))
            if len(found) >= count:
                break
            candidate = max(candidate, last + 1)
        return found


def _joined(intervals: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ordered intervals, with those that touch or overlap made one."""
    current: tuple[int, int] | None = None
    for first, last in intervals:
        if current is None:
            current = first, last
        elif first <= current[1] + 1:
            current = current[0], max(current[1], last)
        else:
            yield current
            current = first, last
    if current is not None:
        yield current


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    """What the policy says of one failed pod."""

    counts: bool = True
    """Whether the failure counts towards the back-off limit."""
    action: str = ""
    """The action of the matching rule; empty if no rule matches."""
    message: str | None = None
    """Why the Job fails; only with the action FailJob."""


_NO_RULE = PolicyVerdict()


def judge(policy: Document | None, pod: Document) -> PolicyVerdict:
    """The verdict of the first rule that matches."""
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        cause = _cause(rule, pod, index)
        if cause is None:
            continue
        action = rule.get("action")
        if action == "Ignore":
            return PolicyVerdict(counts=False, action=action)
        if action in ("Count", "FailIndex"):
            return PolicyVerdict(action=action)
        if action == "FailJob":
            return PolicyVerdict(action=action, message=cause)
    return _NO_RULE


def _cause(rule: Document, pod: Document, index: int) -> str | None:
    """What of the pod matches the rule, as a sentence; None if nothing does."""
    who = f"{namespace_of(pod)}/{name_of(pod)}"
    matching = f"matching {rule.get('action')} rule at index {index}"
    if rule.get("onExitCodes") is not None:
        container = _container(pod, rule["onExitCodes"])
        if container is None:
            return None
        code = container["state"]["terminated"]["exitCode"]
        return f"Container {container.get('name')} for pod {who} failed with exit code {code} {matching}"
    patterns = [(p.get("type"), p.get("status") or "True") for p in rule.get("onPodConditions") or ()]
    for condition in conditions_of(pod):
        if (condition.get("type"), condition.get("status")) in patterns:
            return f"Pod {who} has condition {condition['type']} {matching}"
    return None


def _container(pod: Document, requirement: Document) -> Document | None:
    """The first container that ended with a code that the rule asks for; containers before init containers."""
    status = status_of(pod)
    wanted, values = requirement.get("containerName"), requirement.get("values") or ()
    containers: list[Document] = [
        *(status.get("containerStatuses") or ()),
        *(status.get("initContainerStatuses") or ()),
    ]
    for container in containers:
        code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode")
        if not code or (wanted is not None and wanted != container.get("name")):
            continue
        if (code in values) == (requirement.get("operator") == "In"):
            return container
    return None


def met(policy: Document | None, completions: int, succeeded: Indexes) -> str | None:
    """The message of the first rule that is fulfilled; None if there is none."""
    if not succeeded:
        return None
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            wanted = Indexes.parse(rule["succeededIndexes"], completions)
            done = succeeded.common(wanted)
            fulfilled = bool(wanted) and (done == len(wanted) or (count is not None and done >= count))
        else:
            fulfilled = count is not None and len(succeeded) >= count
        if fulfilled:
            return f"Matched rules at index {index}"
    return None


FIRST_SECONDS = 10.0
MOST_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Failures:
    """Failures of a Job's pods since the last success."""

    count: int = 0
    last: datetime | None = None
    """When the last of them happened."""

    def after(self, succeeded: Sequence[Document], failed: Sequence[Document]) -> "Failures":
        """The record after pods have finished that it did not count before."""
        if not succeeded and not failed:
            return self
        times = sorted(finished_at(pod) for pod in failed)
        if not succeeded:
            return Failures(self.count + len(times), times[-1])
        success = max(finished_at(pod) for pod in succeeded)
        later = [time for time in times if time > success]
        return Failures(len(later), later[-1]) if later else Failures()

    def seconds_left(self, now: datetime) -> float:
        """Seconds until a pod may be created; 0: now."""
        if not self.count or self.last is None:
            return 0.0
        # The exponent is bounded: a Job may fail a million times.
        delay: float = min(FIRST_SECONDS * 2 ** min(self.count - 1, 10), MOST_SECONDS)
        return max(0.0, delay - (now - self.last).total_seconds())


NO_FAILURES = Failures()
