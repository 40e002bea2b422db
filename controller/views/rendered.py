# SPDX-License-Identifier: Apache-2.0
"""What jobs become: the objects that the manager makes of them, and who set which value."""

from contextlib import suppress
from dataclasses import replace

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.manifest import dump
from trainwright.api.messages import value_text
from trainwright.api.objects import AnyObject, Document, Key, controller_of, name_of, namespace_of, uid_of
from trainwright.api.times import format_time, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Client, NotFound
from trainwright.controller.runtime.errors import ApiError
from trainwright.controller.trainer.build.runtimes import (
    RuntimeUnsupported,
    SnapshotInvalid,
    name_of_snapshot,
    runtime_in,
    target_of,
)
from trainwright.controller.views.cluster import ClusterView, shown
from trainwright.plugins.contract import ClusterFacts, FactUnavailable, Reference, Runtime
from trainwright.plugins.contract.container import Override, Setting
from trainwright.plugins.contract.errors import PipelineError
from trainwright.plugins.contract.facts import Unreadable
from trainwright.plugins.pipeline import Pipeline, Rendering
from trainwright.plugins.registry import Registry

_IN_THE_WAY = (ApiError, PipelineError, FactUnavailable, RuntimeUnsupported, SnapshotInvalid)
"""Why a job is not rendered."""
VALUE_LENGTH = 100


class ObjectView(msgspec.Struct, kw_only=True, rename="camel"):
    kind: str
    namespace: str
    name: str
    yaml: str
    """As the manager would apply it. The content of Secrets is hidden."""


class SettingView(msgspec.Struct, kw_only=True, rename="camel"):
    """One value of an object, and who set it."""

    path: str
    """Such as `spec.replicatedJobs[node].template.spec.template.spec.containers[node].env[PET_NNODES]`."""
    value: str
    """As JSON; at most 100 characters."""
    source: str
    """A plugin, `the TrainJob`, `the runtime`, or the patch of a manager."""
    phase: str
    why: str


class ObjectsView(msgspec.Struct, kw_only=True, rename="camel"):
    """What the manager makes of a job, by this version of Trainwright and its plugins."""

    now: str
    objects: list[ObjectView] = []
    """In the order in which they are applied."""
    settings: list[SettingView] = []
    overrides: list[Override] = []
    problems: list[str] = []
    """Why there are no objects: what admission would refuse, or what could not be read. Empty otherwise."""


class RenderedObjects:
    """The manager's pipeline, run on a job and its runtime as they are in the cluster.

    `trainwright render --cluster` does the same with a file.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._view = ClusterView(client)
        self._pipeline: Pipeline | None = None

    async def objects(self, key: Key) -> ObjectsView:
        """The objects of a job; what stands in the way is in `problems`.

        Raises NotFound: the job does not exist; KubernetesError: no answer; RegistryError: a plugin is broken.
        """
        job = await self._client.get(TrainJob, key.name, key.namespace)
        try:
            rendering = await self._rendering(job)
        except _IN_THE_WAY as error:
            problem = error.message if isinstance(error, ApiError) else str(error)
            return ObjectsView(now=format_time(wall_clock()), problems=[problem])
        return ObjectsView(
            now=format_time(wall_clock()),
            objects=[_object(component.document) for component in rendering.components],
            settings=[_setting(one) for one in rendering.settings],
            overrides=list(rendering.overrides),
        )

    async def jobset(self, job: TrainJob) -> Document | None:
        """What a job that has ended was, where its JobSet is gone; None: that is not known any more."""
        with suppress(*_IN_THE_WAY):
            rendering = await self._rendering(msgspec.structs.replace(job, status=None))
            found = (one.document for one in rendering.components)
            return next((one for one in found if one["kind"] == JobSet.RESOURCE.kind), None)
        return None

    async def _rendering(self, job: TrainJob) -> Rendering:
        runtime = await self._runtime(job)
        if self._pipeline is None:
            self._pipeline = Pipeline(Registry.load())
        run = self._pipeline.begin(job, runtime)
        facts = await self._view.read(run.references())
        return run.render(_without_own(facts, job))

    async def _runtime(self, job: TrainJob) -> Runtime:
        # It was not built yet, or the user may not read ConfigMaps; the runtime is most often the same.
        with suppress(ApiError):
            return runtime_in(await self._client.get(ConfigMap, name_of_snapshot(job), job.namespace), job)
        runtime = await self._view.runtime(job)
        if runtime is None:
            kind, missing = target_of(job)
            raise NotFound(f"{kind.RESOURCE.kind} {missing.name} does not exist")
        runtime.set_defaults()
        return runtime


def _without_own(facts: ClusterFacts, job: TrainJob) -> ClusterFacts:
    """The facts without what the job became: beside a JobSet that runs nothing is built, so nothing would be shown.

    A JobSet that the user may not read is most often that of the job.
    """

    def is_own(reference: Reference, found: AnyObject | Unreadable) -> bool:
        if isinstance(found, Unreadable):
            return reference.resource == JobSet.RESOURCE
        owner = controller_of(found)
        return owner is not None and owner.uid == uid_of(job)

    kept = {one: None if found is None or is_own(one, found) else found for one, found in facts.objects.items()}
    return replace(facts, objects=kept)


def _setting(one: Setting) -> SettingView:
    shared = {name: getattr(one, name) for name in ("path", "source", "phase", "why")}
    return SettingView(**shared, value=value_text(one.value, VALUE_LENGTH))


def _object(document: Document) -> ObjectView:
    return ObjectView(
        kind=str(document.get("kind", "")),
        namespace=namespace_of(document),
        name=name_of(document),
        yaml=dump(shown(document), sort_keys=False),
    )
