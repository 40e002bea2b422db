# SPDX-License-Identifier: Apache-2.0
"""Turns the watches that plugins declare into sources of the controller, and looks up facts in what they hold.

Each watch becomes an informer whose events lead to TrainJobs. An optional kind that the cluster does not serve is not
watched and counts as absent.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from trainwright.api.base import Object, Resource
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import (
    AnyObject,
    PartialObject,
    controller_of,
    deletion_timestamp_of,
    generation_of,
    name_of,
    namespace_of,
    uid_of,
)
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.completion import is_finished
from trainwright.api.trainer.v1alpha1.queues import is_queued
from trainwright.api.trainer.v1alpha1.runtimes import RUNTIMES, pods_of
from trainwright.controller.runtime import Client, Discovery, Event, Key, Kind, KubernetesError, MetadataOnly, NotFound
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.cache.informer import Informer
from trainwright.controller.runtime.controller.builder import Builder
from trainwright.controller.runtime.errors import NotSynced
from trainwright.controller.runtime.tasks import together
from trainwright.controller.runtime.workqueue.queue import LOW_PRIORITY, WorkQueue
from trainwright.controller.trainer.build.runtimes import Runtimes
from trainwright.plugins.contract import ClusterFacts, Component, Enqueue, Reference, Refusal, Watch
from trainwright.plugins.contract.errors import PluginFailure
from trainwright.plugins.contract.facts import Unreadable

log = logging.getLogger(__name__)

TRAIN_JOB = TrainJob.RESOURCE

COUNTERS_SECONDS = 1.7
"""How long a change of counters alone waits before it is written: a JobSet changes them several times in a row."""

_REMEDY = "install its CustomResourceDefinition"
"""What to do about a missing kind whose watch names no remedy."""
SPREAD_SECONDS = 50.0
"""Time from the first reconcile to the last one: all must be done within a minute."""
STEP_SECONDS = 0.05
"""Longest time between two reconciles: few jobs need not wait for most of a minute."""


class WatchedKinds:
    def __init__(self, watches: Sequence[Watch], *, absent: frozenset[Resource] = frozenset()) -> None:
        """`absent`: optional resources that the cluster does not serve; see `absent_kinds`."""
        self._absent = absent
        # The controller itself needs ConfigMaps for the snapshots of runtimes. Plugins may declare an equal watch.
        own = Watch(ConfigMap.RESOURCE, metadata_only=True)
        served = [
            watch
            for watch in dict.fromkeys((own, *watches))
            if watch.resource not in absent and watch.only_with not in absent
        ]
        self._watches = [watch for watch in served if not watch.name]
        self._single = {Reference(w.resource, w.namespace, w.name): w for w in served if w.name}
        self._remedies = _remedies(watches)
        models = {watch.resource: watch.model for watch in self._watches if watch.model is not None}
        whole = {watch.resource for watch in self._watches if not watch.metadata_only}
        self._kinds: dict[Resource, Kind] = {}
        for resource in dict.fromkeys(watch.resource for watch in self._watches):
            model: type[Object] | Resource = models.get(resource, resource)
            self._kinds[resource] = model if resource in whole else MetadataOnly(model)

    def declare(self, builder: Builder, cache: Cache, runtimes: Runtimes) -> None:
        """Let the events of each kind start reconciles of the TrainJobs that its watch names."""
        for reference, watch in self._single.items():
            # Another informer than that of the kind, which may hold metadata only or another namespace.
            informer = cache.informer(
                self.kind_of(reference), namespace=reference.namespace, field_selector=f"metadata.name={reference.name}"
            )
            if watch.enqueue is Enqueue.UNFINISHED:
                builder.source(UnfinishedJobs(informer, cache))
        for watch in self._watches:
            kind = self._kinds[watch.resource]
            match watch.enqueue:
                case Enqueue.UNFINISHED:
                    builder.source(UnfinishedJobs(cache.informer(kind), cache))
                case Enqueue.OWNER:
                    # A cluster may hold many ConfigMaps; keep those of TrainJobs only.
                    transforms = (of_a_trainjob,) if isinstance(kind, MetadataOnly) else ()
                    wait = waiting(watch.counters, _is_awaited(cache)) if watch.counters else None
                    builder.owns(kind, transforms=transforms, wait=wait)
                    if not transforms:
                        # What a job uses in place of its own object, or what keeps it from making that, goes.
                        builder.watches(kind, _once_synced(_namesake(cache)), predicates=[_ends_foreign])
                case Enqueue.SUSPENDED_IN_NAMESPACE:
                    builder.watches(kind, _once_synced(_suspended(lambda obj: cache.list(TrainJob, namespace_of(obj)))))
                case Enqueue.SUSPENDED_OF_RUNTIME_CLASS:
                    builder.watches(
                        kind, _once_synced(_suspended(lambda obj: _jobs_of_class(cache, runtimes, name_of(obj))))
                    )

    def owned(self) -> dict[Resource, Kind]:
        """The kinds whose objects belong to TrainJobs, each with how the cache holds it."""
        return {one.resource: self._kinds[one.resource] for one in self._watches if one.enqueue is Enqueue.OWNER}

    def watches(self, reference: Reference) -> bool:
        """Whether a change of the object starts reconciles. True for an absent kind too, which has no objects."""
        resource = reference.resource
        return reference in self._single or resource in self._kinds or resource in self._absent

    def owns(self, reference: Reference) -> bool:
        """Whether objects of this kind belong to TrainJobs; not so an object that a watch names."""
        return reference not in self._single and any(
            watch.resource == reference.resource and watch.enqueue is Enqueue.OWNER for watch in self._watches
        )

    def is_absent(self, resource: Resource) -> bool:
        """Whether it is an optional kind that the cluster did not serve when the manager started."""
        return resource in self._absent

    def kind_of(self, reference: Reference) -> Kind:
        """How the cache holds the object."""
        single = self._single.get(reference)
        if single is not None:
            return single.model or single.resource
        return self._kinds.get(reference.resource, reference.resource)

    def require(self, component: Component) -> None:
        """Check that objects of this kind can be made.

        Raises:
            PluginFailure: the kind is watched only where the cluster serves another one, which it did not.
            Refusal: the kind is optional, and the cluster did not serve it when the manager started.
        """
        resource = component.resource
        what = f"{resource.kind} of {resource.api_version}"
        if resource in self._absent:
            raise Refusal(
                f"the cluster does not serve {what}, which the runtime needs: "
                f"{self._remedies.get(resource, _REMEDY)} and restart the manager, or use another runtime",
                phase="build",
            )
        if resource not in self._kinds:
            problem = f"build returned a {what}, which is not watched on this cluster; see only_with of its Watch"
            raise PluginFailure(problem, plugin=component.plugin, phase="build")


async def absent_kinds(client: Client, watches: Sequence[Watch]) -> frozenset[Resource]:
    """The optional resources that the cluster does not serve now. A missing required one is logged as an error.

    Raises KubernetesError: the API server does not answer.
    """
    own = (TRAIN_JOB, *(kind.RESOURCE for kind in RUNTIMES))
    remedies = _remedies(watches)
    wanted = {watch.resource: watch.optional for watch in watches} | dict.fromkeys(own, False)
    by_version: dict[str, list[Resource]] = {}
    for resource in wanted:
        if resource.group:
            by_version.setdefault(resource.api_version, []).append(resource)
    discovery = Discovery(client)  # needs no right that not every user has
    found = await together("discovery", *(_missing(discovery, resources) for resources in by_version.values()))
    missing = [resource for resources in found for resource in resources]
    for resource in missing:
        what = f"the cluster does not serve {resource.kind} of {resource.api_version}"
        if wanted[resource]:
            log.info("%s: features that need it are off until the manager restarts", what)
        else:
            log.error("%s; %s. The manager waits two minutes for it, then exits", what, remedies.get(resource, _REMEDY))
    return frozenset(resource for resource in missing if wanted[resource])


def _remedies(watches: Iterable[Watch]) -> dict[Resource, str]:
    return {watch.resource: watch.remedy for watch in watches if watch.remedy}


async def _missing(discovery: Discovery, resources: Iterable[Resource]) -> list[Resource]:
    missing = []
    for resource in resources:
        try:
            await discovery.resource(resource.api_version, resource.kind)
        except NotFound:
            missing.append(resource)
    return missing


def waiting(
    counters: Sequence[str], is_awaited: Callable[[AnyObject], bool] = lambda _: False
) -> Callable[[Event[AnyObject]], float]:
    """How long the reconcile of an event may wait: COUNTERS_SECONDS if nothing but these counters has changed.

    `is_awaited`: whether another controller may wait for the counters of an object; then the reconcile decides.
    """

    def seconds(event: Event[AnyObject]) -> float:
        old, new = event.old, event.new
        if old is None or new is None or not differs_in(old, new, counters):
            return 0.0
        return 0.0 if is_awaited(new) else COUNTERS_SECONDS

    return seconds


def differs_in(old: AnyObject, new: AnyObject, attributes: Sequence[str]) -> bool:
    """Whether two states of an object differ in these attributes of the status at most, and in managedFields."""
    if isinstance(old, dict) or isinstance(new, dict) or old.metadata is None or new.metadata is None:
        return False
    if generation_of(old) != generation_of(new) or not generation_of(new):
        return False
    version, owned = new.metadata.resource_version, new.metadata.managed_fields
    if replace(old.metadata, resource_version=version, managed_fields=owned) != new.metadata:
        return False
    before, after = getattr(old, "status", None), getattr(new, "status", None)
    if after is None:
        return False
    rest = (name for name in after.__struct_fields__ if name not in attributes)
    # An empty value is the same as none: the first status may write both.
    return all((getattr(before, name, None) or None) == (getattr(after, name) or None) for name in rest)


def of_a_trainjob(obj: AnyObject) -> AnyObject | None:
    """A transform that drops objects which no TrainJob controls."""
    controller = controller_of(obj)
    ours = controller is not None and (controller.kind, controller.group) == (TRAIN_JOB.kind, TRAIN_JOB.group)
    return obj if ours else None


def _ends_foreign(event: Event[AnyObject]) -> bool:
    return event.new is None and event.old is not None and of_a_trainjob(event.old) is None


def _namesake(cache: Cache) -> Callable[[AnyObject], Iterable[TrainJob]]:
    """The job with the name of an object: JobSets and PodGroups have the names of their jobs."""

    def find(obj: AnyObject) -> Iterable[TrainJob]:
        job = cache.get(TrainJob, name_of(obj), namespace_of(obj))
        return (job,) if job is not None else ()

    return find


def _is_awaited(cache: Cache) -> Callable[[AnyObject], bool]:
    """Whether an object belongs to a job that is suspended, or that a queue admits and evicts."""

    def find(obj: AnyObject) -> bool:
        owner = controller_of(obj)
        try:
            job = cache.get(TrainJob, owner.name, namespace_of(obj)) if owner is not None else None
        except NotSynced:
            return False
        return job is not None and (bool(job.spec_or_empty.suspend) or is_queued(job))

    return find


def _suspended(jobs: Callable[[AnyObject], Iterable[TrainJob]]) -> Callable[[AnyObject], Iterable[TrainJob]]:
    return lambda obj: [job for job in jobs(obj) if job.spec_or_empty.suspend]


def _once_synced(jobs: Callable[[AnyObject], Iterable[TrainJob]]) -> Callable[[AnyObject], list[Key]]:
    """The keys of `jobs`; none before the first lists have arrived, when every job is due anyway."""

    def mapper(obj: AnyObject) -> list[Key]:
        try:
            return [Key(job.namespace, job.name) for job in jobs(obj)]
        except NotSynced:
            return []

    return mapper


def _jobs_of_class(cache: Cache, runtimes: Runtimes, runtime_class: str) -> Iterator[TrainJob]:
    for kind in RUNTIMES:
        for runtime in cache.list(kind):
            if any(pod.runtime_class_name == runtime_class for _, pod in pods_of(runtime)):
                yield from runtimes.jobs_of(runtime)


class UnfinishedJobs:
    """A source of the controller: the keys of all unfinished jobs after each change of the informer's objects.

    A change of the CA certificates concerns all jobs. Reconciles of thousands of jobs at once would hold up other jobs
    and send as many writes, so they follow each other.
    """

    def __init__(self, informer: Informer, cache: Cache) -> None:
        self._informer = informer
        self._cache = cache
        self._queue: WorkQueue[Key] | None = None
        informer.add_handler(self._changed)

    @property
    def name(self) -> str:
        """Plural and scope."""
        return f"{self._informer.resource.plural} ({self._informer.scope})"

    async def start(self, queue: WorkQueue[Key]) -> None:
        """Wait for the first list. It adds no keys: at the start every job is due anyway."""
        await self._informer.wait_synced()
        self._queue = queue

    def _changed(self, event: Event[Any]) -> None:
        if self._queue is None:
            return
        try:
            jobs = [job for job in self._cache.list(TrainJob) if not is_finished(job)]
        except NotSynced:
            return
        reason = f"{self._informer.resource.kind} {event.type.lower()}"
        step = min(STEP_SECONDS, SPREAD_SECONDS / max(1, len(jobs)))
        for number, key in enumerate(sorted(Key(job.namespace, job.name) for job in jobs)):
            self._queue.add(key, priority=LOW_PRIORITY, after=number * step, reason=reason)


class CachedFacts:
    """Reads from the manager's cache; for kinds that no plugin watches, from the API server."""

    def __init__(self, client: Client, cache: Cache, kinds: WatchedKinds) -> None:
        self._client = client
        self._cache = cache
        self.kinds = kinds

    async def read(self, references: Iterable[Reference]) -> ClusterFacts:
        """The current state of these objects. A read that failed is part of the answer (`Unreadable`)."""
        found: dict[Reference, AnyObject | Unreadable | None] = {}
        for reference in references:
            try:
                if self.kinds.watches(reference):
                    found[reference] = self.find(reference)
                else:
                    found[reference] = await self._client.get(reference.resource, reference.name, reference.namespace)
            except NotFound:
                found[reference] = None
            except KubernetesError as error:
                found[reference] = Unreadable(str(error))
        return ClusterFacts(found)

    def find(self, reference: Reference) -> AnyObject | None:
        """The object from the cache, or None.

        Raises CacheError: its kind is not watched, or the first list of the kind has not arrived.
        """
        if self.kinds.is_absent(reference.resource):
            return None
        found: AnyObject | None = self._cache.get(self.kinds.kind_of(reference), reference.name, reference.namespace)
        return found


async def metadata_of(client: Client, reference: Reference) -> PartialObject | None:
    """What the API server has of the object. The cache is late, and lacks objects that no TrainJob controls.

    It is a list, because the manager may list every watched kind but need not have the right to get one. Raises
    KubernetesError.
    """
    kind = MetadataOnly(reference.resource)
    listed = await client.list(kind, reference.namespace, field_selector=f"metadata.name={reference.name}")
    return next(iter(listed.items), None)


async def is_there(client: Client, job: TrainJob) -> bool:
    """Whether the API server has this very job, and it is not being deleted. Raises KubernetesError.

    Whoever makes an object of a job again asks this first. The garbage collector may have deleted the object because
    the job is gone; until the watch shows that, both would write as fast as they can.
    """
    found = await metadata_of(client, Reference(TrainJob.RESOURCE, job.namespace, job.name))
    return found is not None and uid_of(found) == uid_of(job) and deletion_timestamp_of(found) is None
