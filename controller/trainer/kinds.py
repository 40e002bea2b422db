# SPDX-License-Identifier: Apache-2.0
"""What the plugins watch: turned into sources of the controller, and read back as facts for the pipeline.

Plugins declare watches as data. Here each becomes one informer, whose events lead to TrainJobs; optional kinds that the
cluster does not serve are left out, and count as absent.
"""

import logging
from collections.abc import Callable, Iterable, Iterator

from trainwright.api.base import Object, Resource
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Builder, Cache, Client, Key, Kind, MetadataOnly, NotFound
from trainwright.controller.runtime.client.discovery import Discovery
from trainwright.controller.runtime.errors import KubernetesError, NotSynced
from trainwright.controller.runtime.objects import AnyObject, controller_of, name_of, namespace_of
from trainwright.controller.runtime.tasks import together
from trainwright.controller.trainer.runtimes import RUNTIMES, Runtime, Runtimes
from trainwright.plugins.contract import ClusterFacts, Enqueue, PluginFailure, Reference, Refusal, Unreadable, Watch

log = logging.getLogger(__name__)

TRAIN_JOB = TrainJob.RESOURCE

_MODELS: dict[Resource, type[Object]] = {kind.RESOURCE: kind for kind in (JobSet,)}
"""Kinds whose content every job reads: a model decodes faster and keeps less than a dictionary."""


_REMEDY = "apply its CustomResourceDefinition"
_REMEDIES = {JobSet.RESOURCE.group: "install JobSet, see https://jobset.sigs.k8s.io"}
"""What to do about a group that is missing, where there is more to say."""


class WatchedKinds:
    """The kinds of the plugins' watches, as far as the cluster serves them."""

    def __init__(self, watches: Iterable[Watch], *, absent: frozenset[Resource] = frozenset()) -> None:
        """`absent`: optional resources that are not served; see `absent_kinds`."""
        self._absent = absent
        # Of the controller itself, for the snapshots of runtimes; plugins with ConfigMaps declare the same.
        own = Watch(ConfigMap.RESOURCE, metadata_only=True)
        self._watches = [
            watch
            for watch in dict.fromkeys((own, *watches))
            if watch.resource not in absent and watch.only_with not in absent
        ]
        self._kinds: dict[Resource, Kind] = {}
        for watch in self._watches:
            model: type[Object] | Resource = _MODELS.get(watch.resource, watch.resource)
            partial = watch.metadata_only and not isinstance(self._kinds.get(watch.resource), (Resource, type))
            self._kinds[watch.resource] = MetadataOnly(model) if partial else model

    def declare(self, builder: Builder, cache: Cache, runtimes: Runtimes) -> None:
        """Let the events of each kind wake the TrainJobs that its watch names."""
        for watch in self._watches:
            kind = self._kinds[watch.resource]
            match watch.enqueue:
                case Enqueue.OWNER:
                    # There may be many more ConfigMaps and Secrets than those of TrainJobs; none is kept for nothing.
                    builder.owns(kind, transforms=(_of_a_trainjob,) if isinstance(kind, MetadataOnly) else ())
                case Enqueue.SUSPENDED_IN_NAMESPACE:
                    builder.watches(kind, _once_synced(lambda obj: cache.list(TrainJob, namespace_of(obj))))
                case Enqueue.SUSPENDED_OF_RUNTIME_CLASS:
                    builder.watches(kind, _once_synced(lambda obj: _jobs_of_class(cache, runtimes, name_of(obj))))

    async def facts(self, client: Client, cache: Cache, references: Iterable[Reference]) -> ClusterFacts:
        """What is known of the objects referred to: from the cache, and live for kinds that no plugin watches."""
        return ClusterFacts({reference: await self._look_up(client, cache, reference) for reference in references})

    def watches(self, reference: Reference) -> bool:
        """Whether a change of the object wakes the jobs that it concerns."""
        return reference.resource in self._kinds or reference.resource in self._absent

    def find(self, cache: Cache, reference: Reference) -> AnyObject | None:
        """The object from the cache, or None.

        Raises:
            CacheError: its kind is not watched, or its first list has not arrived.
        """
        found: AnyObject | None = None
        if reference.resource not in self._absent:
            kind = self._kinds.get(reference.resource, reference.resource)
            found = cache.get(kind, reference.name, reference.namespace)
        return found

    def resource(self, key: tuple[str, str, str, str]) -> Resource:
        """The resource of a component by its key (apiVersion, kind, namespace, name).

        Raises:
            PluginFailure: no plugin watches such a kind.
            Refusal: it is an optional one, and the cluster did not serve it when the manager started.
        """
        api_version, kind, _, _ = key
        if any((resource.api_version, resource.kind) == (api_version, kind) for resource in self._absent):
            raise Refusal(
                f"the cluster does not serve {kind} of {api_version}, which the runtime needs: "
                "install what defines it and restart the manager, or take another runtime",
                phase="build",
            )
        for resource in self._kinds:
            if (resource.api_version, resource.kind) == (api_version, kind):
                return resource
        raise PluginFailure(
            f"{kind} of {api_version} is built, but no plugin watches it: declare a watch", phase="build"
        )

    def reference(self, key: tuple[str, str, str, str]) -> Reference:
        """Where the object of a component is. Raises like `resource`."""
        return Reference(self.resource(key), key[2], key[3])

    async def _look_up(self, client: Client, cache: Cache, reference: Reference) -> AnyObject | Unreadable | None:
        try:
            if reference.resource in self._absent or reference.resource in self._kinds:
                return self.find(cache, reference)
            return await client.get(reference.resource, reference.name, reference.namespace)
        except NotFound:
            return None
        except KubernetesError as error:
            return Unreadable(str(error))


async def absent_kinds(client: Client, watches: Iterable[Watch]) -> frozenset[Resource]:
    """The optional resources that the cluster does not serve now. Others that are missing are complained of.

    Raises:
        KubernetesError: the API server cannot be asked.
    """
    own = (TRAIN_JOB, *(kind.RESOURCE for kind in RUNTIMES))
    wanted = {watch.resource: watch.optional for watch in watches} | dict.fromkeys(own, False)
    by_version: dict[str, list[Resource]] = {}
    for resource in wanted:
        if resource.group:
            by_version.setdefault(resource.api_version, []).append(resource)
    discovery = Discovery(client)  # which needs no right beyond that of every user
    found = await together("discovery", *(_missing(discovery, resources) for resources in by_version.values()))
    missing = [resource for resources in found for resource in resources]
    for resource in missing:
        what = f"{resource.kind} of {resource.api_version} is not served here"
        if wanted[resource]:
            log.info("%s: what needs it does without until the manager starts anew", what)
        else:
            log.error("%s; the manager waits two minutes: %s", what, _REMEDIES.get(resource.group, _REMEDY))
    return frozenset(resource for resource in missing if wanted[resource])


async def _missing(discovery: Discovery, resources: Iterable[Resource]) -> list[Resource]:
    """Those of one group and version that are not served."""
    missing = []
    for resource in resources:
        try:
            await discovery.resource(resource.api_version, resource.kind)
        except NotFound:
            missing.append(resource)
    return missing


def _of_a_trainjob(obj: AnyObject) -> AnyObject | None:
    controller = controller_of(obj)
    ours = controller is not None and (controller.kind, controller.group) == (TRAIN_JOB.kind, TRAIN_JOB.group)
    return obj if ours else None


def _once_synced(jobs: Callable[[AnyObject], Iterable[TrainJob]]) -> Callable[[AnyObject], list[Key]]:
    """The suspended ones among the jobs; none while first lists arrive, since every job is due then anyway."""

    def mapper(obj: AnyObject) -> list[Key]:
        try:
            found = list(jobs(obj))
        except NotSynced:
            return []
        return [Key(job.namespace, job.name) for job in found if job.spec is not None and job.spec.suspend]

    return mapper


def _jobs_of_class(cache: Cache, runtimes: Runtimes, runtime_class: str) -> Iterator[TrainJob]:
    for kind in RUNTIMES:
        for runtime in cache.list(kind):
            if runtime_class in _runtime_classes(runtime):
                yield from runtimes.jobs_of(runtime)


def _runtime_classes(runtime: Runtime) -> set[str]:
    """The runtimeClassName of every replicated job that has one."""
    template = runtime.spec.template.spec if runtime.spec is not None and runtime.spec.template is not None else None
    found = set()
    for job in (template.replicated_jobs if template is not None else None) or ():
        job_spec = job.template.spec
        pod = job_spec.template.spec if job_spec is not None and job_spec.template is not None else None
        if pod is not None and pod.runtime_class_name:
            found.add(pod.runtime_class_name)
    return found
