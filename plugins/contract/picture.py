# SPDX-License-Identifier: Apache-2.0
"""Questions to a cluster and their answers, from which checks read what is wrong: with a TrainJob, or an installation.

A check asks a survey for objects. It never waits: what the survey does not hold yet counts as not known, and is noted
in `wanted`. The reader of the survey reads what is wanted and runs the checks again, until no check wants more. So only
what a check needs is read, and a survey over caches or over recorded objects is answered at once. All objects are
dictionaries in wire form: a cluster may have other versions of a kind than this process knows.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, IntEnum
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from trainwright.api.base import Resource
from trainwright.api.conditions import find_true
from trainwright.api.jobset.v1alpha2.labels import (
    LABEL_ATTEMPT,
    LABEL_INDEX,
    LABEL_JOB_INDEX,
    LABEL_JOBSET,
    LABEL_REPLICATED_JOB,
)
from trainwright.api.messages import plain, shortened
from trainwright.api.objects import Document, annotations_of, dig, labels_of, name_of, namespace_of, number_in, uid_of
from trainwright.api.times import moment
from trainwright.plugins.contract.facts import Unreadable

JOBSET = Resource(group="jobset.x-k8s.io", version="v1alpha2", kind="JobSet", plural="jobsets", namespaced=True)
POD = Resource(group="", version="v1", kind="Pod", plural="pods", namespaced=True)
BATCH_JOB = Resource(group="batch", version="v1", kind="Job", plural="jobs", namespaced=True)
EVENT = Resource(group="", version="v1", kind="Event", plural="events", namespaced=True)

EVENTS_OF = 8
"""Events of more objects than that are not asked for one by one: pods of one job tell the same."""


class Verb(Enum):
    """What a query asks for."""

    GET = "get"
    LIST = "list"
    SERVES = "serves"
    """Whether the API server serves the kind."""
    LOG = "log"
    """The last lines of a container."""
    TRY = "try"
    """Whether the API server would take an object: a create as a dry run."""
    MAY = "may"
    """Whether a service account has a right."""


class Query(NamedTuple):
    """One question to the API server."""

    verb: Verb
    resource: Resource
    """Group and kind count; a reader uses the version that the server prefers."""
    namespace: str = ""
    name: str = ""
    labels: str = ""
    """Label selector of a list."""
    fields: str = ""
    """Field selector of a list; container and run of a log; the object to try, as JSON; the account and its verb."""


class NotServed:
    """The answer for a kind that the API server does not have."""


NOT_SERVED = NotServed()
Answer: TypeAlias = tuple[Document, ...] | Unreadable | NotServed
"""The objects (of a get: one, or none if it does not exist; of `SERVES`: one, with whatever content; of a log: one with
the key `lines`); or why there is no answer."""
Source: TypeAlias = Callable[[Query], Answer | None]
"""Answers a query from what was read. None: it was not read yet."""


class Survey:
    """What is known of a cluster at one moment. Questions that name no namespace are about `namespace`; empty: all."""

    def __init__(self, source: Source, now: datetime, namespace: str = "") -> None:
        self.now = now
        self.namespace = namespace
        self.wanted: dict[Query, None] = {}
        """Queries without an answer yet, in the order in which they were asked."""
        self.unread: dict[Query, str] = {}
        """Queries that the API server refused, and what it said."""
        self.answered: dict[Query, Answer] = {}
        """What the checks have asked and learned, so that a picture can be kept."""
        self._source = source

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Document | None:
        """The object, or None if it does not exist or is not known; see `lacks`."""
        found = self.ask(Query(Verb.GET, resource, self._in(resource, namespace), name))
        return found[0] if isinstance(found, tuple) and found else None

    def lacks(self, resource: Resource, name: str, namespace: str | None = None) -> bool:
        """Whether it is certain that the object does not exist."""
        found = self.ask(Query(Verb.GET, resource, self._in(resource, namespace), name))
        return isinstance(found, tuple) and not found

    def list(
        self, resource: Resource, *, labels: str = "", fields: str = "", namespace: str | None = None
    ) -> tuple[Document, ...]:
        """The objects; empty too if they are not known, see `knows`."""
        found = self.ask(Query(Verb.LIST, resource, self._in(resource, namespace), "", labels, fields))
        return found if isinstance(found, tuple) else ()

    def knows(self, resource: Resource, *, labels: str = "", fields: str = "", namespace: str | None = None) -> bool:
        """Whether the list was read, so that what is not in it does not exist."""
        found = self.ask(Query(Verb.LIST, resource, self._in(resource, namespace), "", labels, fields))
        return isinstance(found, tuple)

    def serves(self, resource: Resource) -> bool | None:
        """Whether the API server has the kind; None if that is not known."""
        found = self.ask(Query(Verb.SERVES, resource))
        return None if found is None or isinstance(found, Unreadable) else found is not NOT_SERVED

    def log(self, pod: Document, container: str, *, previous: bool = False) -> tuple[str, ...]:
        """The last lines of a container, made harmless; empty if they cannot be read."""
        run = "previous" if previous else "current"
        found = self.ask(Query(Verb.LOG, POD, namespace_of(pod), name_of(pod), fields=f"{container},{run}"))
        return tuple(map(plain, found[0]["lines"])) if isinstance(found, tuple) and found else ()

    def events(self, *objects: Document | None) -> tuple[Document, ...]:
        """The events about these objects, the latest first."""
        found: dict[str, Document] = {}
        for obj in [one for one in objects if one is not None][:EVENTS_OF]:
            for event in self.list(EVENT, fields=f"involvedObject.uid={uid_of(obj)}"):
                found[uid_of(event) or name_of(event)] = event
        return tuple(sorted(found.values(), key=event_time, reverse=True))

    def _in(self, resource: Resource, namespace: str | None) -> str:
        return "" if not resource.namespaced else self.namespace if namespace is None else namespace

    def ask(self, query: Query) -> Answer | None:
        """The answer; None until it was read, which is noted in `wanted`."""
        answer = self._source(query)
        if answer is None:
            self.wanted[query] = None
            return None
        self.answered[query] = answer
        if isinstance(answer, Unreadable):
            self.unread[query] = answer.message
        return answer


class Picture(Survey):
    """What is known of one TrainJob, and of everything down to its pods."""

    def __init__(self, job: Document, source: Source, now: datetime) -> None:
        super().__init__(source, now, namespace_of(job))
        self.job = job
        self.name = name_of(job)

    @cached_property
    def jobset(self) -> Document | None:
        """The JobSet of the job; None too if the one of its name belongs to another."""
        found = self.get(JOBSET, self.name)
        return found if found is not None and self.is_controller_of(found) else None

    @cached_property
    def jobs(self) -> tuple[Document, ...]:
        """The Jobs of the JobSet, by name."""
        return tuple(sorted(self.list(BATCH_JOB, labels=f"{LABEL_JOBSET}={self.name}"), key=name_of))

    @cached_property
    def pods(self) -> tuple[Document, ...]:
        """All pods of the job, those of earlier attempts and those that end included, by rank."""
        return tuple(sorted(self.list(POD, labels=f"{LABEL_JOBSET}={self.name}"), key=pod_order))

    @cached_property
    def present_pods(self) -> tuple[Document, ...]:
        """The pods of the present attempt."""
        return tuple(pod for pod in self.pods if self.is_of_present_attempt(pod))

    def is_of_present_attempt(self, pod: Document) -> bool:
        """Whether a pod of the job, which may be gone, is none of an attempt before a restart of the JobSet."""
        jobset = self.jobset
        attempt = str(dig(jobset, "status.restarts") or 0) if jobset is not None else None
        return attempt in (None, labels_of(pod).get(LABEL_ATTEMPT, attempt))

    def own(self, resource: Resource) -> Document | None:
        """The object of that kind that has the name of the job and belongs to it; None too if it is not known."""
        found = self.get(resource, self.name) if self.serves(resource) else None
        return {"kind": resource.kind, **found} if found is not None and self.is_controller_of(found) else None

    def is_controller_of(self, obj: Document) -> bool:
        """Whether the object belongs to this very TrainJob."""
        owners = dig(obj, "metadata.ownerReferences") or ()
        return any(owner.get("uid") == uid_of(self.job) for owner in owners)

    def lasted(self, since: datetime | None, seconds: float) -> bool:
        """Whether a state that holds since then has lasted so long. One whose begin is not known has."""
        return since is None or (self.now - since).total_seconds() >= seconds


# ---------------------------------------------------------------------- reading objects


def index_of(pod: Document) -> int:
    """The completion index of a pod, which is its rank in its Job."""
    text = labels_of(pod).get(LABEL_INDEX) or annotations_of(pod).get(LABEL_INDEX) or "0"
    return number_in(text)


def pod_order(pod: Document) -> tuple[str, int, int, str]:
    """Pods by replicated job, its replica, rank and name."""
    labels = labels_of(pod)
    return (
        labels.get(LABEL_REPLICATED_JOB, ""),
        number_in(labels.get(LABEL_JOB_INDEX)),
        index_of(pod),
        name_of(pod),
    )


def place_of(pod: Document) -> tuple[str, int, str]:
    """What a pod and the one that replaces it have in common: the replicated job, its replica, and the rank."""
    role, replica, rank, _ = pod_order(pod)
    is_indexed = LABEL_INDEX in labels_of(pod) or LABEL_INDEX in annotations_of(pod)
    return role, replica, str(rank) if is_indexed else uid_of(pod)


def condition_of(obj: Document | None, kind: str) -> Document | None:
    """The condition of that type, whatever its status."""
    conditions: Iterable[Document] = dig(obj, "status.conditions") or ()
    return next((one for one in conditions if one.get("type") == kind), None)


def holds(obj: Document | None, kind: str) -> Document | None:
    """The condition of that type if its status is True."""
    return find_true(dig(obj, "status.conditions"), kind)


def since_of(condition: Document | None) -> datetime | None:
    return moment(dig(condition, "lastTransitionTime"))


def created_at(obj: Document) -> datetime | None:
    return moment(dig(obj, "metadata.creationTimestamp"))


def event_time(event: Document) -> str:
    """When the event happened last, as text that sorts."""
    series = event.get("series") or {}
    found: str = (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event.get("firstTimestamp")
        or dig(event, "metadata.creationTimestamp")
        or ""
    )
    return found


def event_since(event: Document) -> datetime | None:
    """When the event happened first."""
    return moment(event.get("firstTimestamp") or event.get("eventTime") or event_time(event))


def earliest(moments: Iterable[datetime | None]) -> datetime | None:
    """The earliest of the times that are known."""
    return min((one for one in moments if one is not None), default=None)


def counted(found: Sequence[Document], all_of: Sequence[Document] | int) -> str:
    """`2 of 4 pods`. A pod that failed and the one that replaces it count as one."""
    total = all_of if isinstance(all_of, int) else len(set(map(place_of, all_of)))
    return f"{len(set(map(place_of, found)))} of {total} pod{'' if total == 1 else 's'}"


class Severity(IntEnum):
    """How much a cause asks of people. Of several causes, the one with the lowest value is said first."""

    ENDED = 0
    """The job is over."""
    DELIBERATE = 1
    """Somebody wants it so: suspended, or run by another controller."""
    STUCK = 2
    """It stays until a person acts."""
    TEMPORARY = 3
    """It may pass by itself, or concerns some jobs only."""
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
    remedy: str = ""
    """What to do, where the message does not say it."""
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


def cause(
    reason: str,
    message: str,
    *,
    about: Document | None = None,
    since: Document | None = None,
    severity: Literal["stuck", "temporary", "waits"] = "stuck",
    link: Literal["job", "jobset", "pods", "scheduling", "start", "readiness", "network"] = "job",
    failed: bool = False,
    pods: int = 0,
    explains: Iterable[str] = (),
) -> Cause:
    """One cause, for `explain` of a plugin. The same state of the cluster must give the same: no ages, names in order.

    `reason` is a stable word in CamelCase. `message` says what is wrong, with which object, and what to do, in at most
    300 characters. `about` is the object to look at. `since` is the condition that shows it, or the object itself where
    it is so since its creation. `stuck` stays until a person acts, `temporary` may pass by itself, `waits` is an
    ordinary wait; of equal causes the one whose `link` is earlier in the chain from the job to its training comes
    first, and before that one with `failed`: something ended or was refused. `pods` is how many pods it concerns.
    `explains` has the reasons of causes that are only consequences of this one, and are not said beside it.
    """
    return Cause(
        reason=reason,
        message=message,
        about=About.of(about) if about is not None else None,
        since=since_of(since) or (created_at(since) if since is not None else None),
        severity=Severity[severity.upper()],
        link=Link[link.upper()],
        failed=failed,
        pods=pods,
        explains=frozenset(explains),
    )
