# SPDX-License-Identifier: Apache-2.0
"""A cause: why a TrainJob does not train, in one sentence for its user."""

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from trainwright.api.messages import shortened
from trainwright.api.objects import Document, name_of, namespace_of


class Severity(IntEnum):
    """How much a cause asks of people. Of several causes, the one with the lowest value is said first."""

    ENDED = 0
    """The job is over."""
    DELIBERATE = 1
    """Somebody wants it so: suspended, or run by another controller."""
    STUCK = 2
    """It stays until a person acts."""
    TEMPORARY = 3
    """It may pass by itself."""
    WAITS = 4
    """An ordinary wait, or no fault at all."""


class Link(IntEnum):
    """The place in the chain from the job to its training; of equal causes the earlier one is said."""

    JOB = 0
    JOBSET = 1
    BATCH_JOB = 2
    PODS = 3
    """Creation of pods."""
    SCHEDULING = 4
    START = 5
    READINESS = 6
    NETWORK = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The object to look at."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, obj: Document, kind: str = "") -> "About":
        """The reference of an object."""
        return cls(kind=kind or str(obj.get("kind", "")), namespace=namespace_of(obj), name=name_of(obj))

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause. The same state of the cluster gives the same cause, byte for byte: no ages, names in order."""

    reason: str
    """A stable word in CamelCase, for scripts and conditions."""
    message: str
    """What is wrong, with which object, and what to do; at most 300 characters."""
    about: About | None = None
    since: datetime | None = None
    severity: Severity = Severity.STUCK
    link: Link = Link.JOB
    failed: bool = False
    """Whether something ended or was refused; False for what is only awaited."""
    pods: int = 0
    """How many pods it concerns."""
    index: int = 0
    """The lowest rank that it concerns."""
    explains: frozenset[str] = frozenset()
    """Reasons that are only consequences of this cause, and are not said beside it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", shortened(" ".join(self.message.split())))
