# SPDX-License-Identifier: Apache-2.0
"""What a job becomes: the manager's pipeline, run on the job and its runtime as they are in the cluster.

It shows what this version of Trainwright and its plugins make of the job, as `trainwright render --cluster` does. It
reads with the rights of the user and applies nothing.
"""

from collections.abc import Callable
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
from trainwright.controller.cli.dashboard import contract
from trainwright.controller.cli.rendering.cluster import ClusterView, shown
from trainwright.controller.runtime import ApiError, Client
from trainwright.controller.trainer.build.runtimes import (
    RuntimeUnsupported,
    SnapshotInvalid,
    name_of_snapshot,
    runtime_in,
    target_of,
)
from trainwright.plugins.contract import (
    ClusterFacts,
    FactUnavailable,
    PipelineError,
    Reference,
    Runtime,
    Setting,
    Unreadable,
)
from trainwright.plugins.pipeline import Pipeline, Rendering

VALUE_LENGTH = 100


class RenderedObjects:
    def __init__(self, client: Client, pipeline: Callable[[], Pipeline]) -> None:
        """`pipeline` is called when the first job is rendered: to load all plugins takes a while."""
        self._client = client
        self._view = ClusterView(client)
        self._load = pipeline
        self._pipeline: Pipeline | None = None

    async def objects(self, key: Key) -> contract.ObjectsView:
        """The objects of a job; what stands in the way is in `problems`.

        Raises NotFound: the job does not exist; KubernetesError: no answer; RegistryError: a plugin is broken.
        """
        job = await self._client.get(TrainJob, key.name, key.namespace)
        try:
            runtime = await self._runtime(job)
            if runtime is None:
                kind, missing = target_of(job)
                return self._refused(f"{kind.RESOURCE.kind} {missing.name} does not exist")
            if self._pipeline is None:
                self._pipeline = self._load()
            run = self._pipeline.begin(job, runtime)
            facts = await self._view.read(run.references())
            return self._answer(run.render(_without_own(facts, job)))
        except ApiError as error:
            return self._refused(error.message)
        except (PipelineError, FactUnavailable, RuntimeUnsupported, SnapshotInvalid) as error:
            return self._refused(str(error))

    async def _runtime(self, job: TrainJob) -> Runtime | None:
        # It was not built yet, or the user may not read ConfigMaps; the runtime is most often the same.
        with suppress(ApiError):
            return runtime_in(await self._client.get(ConfigMap, name_of_snapshot(job), job.namespace), job)
        runtime = await self._view.runtime(job)
        if runtime is not None:
            runtime.set_defaults()
        return runtime

    def _answer(self, rendering: Rendering) -> contract.ObjectsView:
        return contract.ObjectsView(
            now=format_time(wall_clock()),
            objects=[_object(component.document) for component in rendering.components],
            settings=[_setting(one) for one in rendering.settings],
            overrides=msgspec.convert(rendering.overrides, list[contract.OverrideView], from_attributes=True),
        )

    def _refused(self, *problems: str) -> contract.ObjectsView:
        return contract.ObjectsView(now=format_time(wall_clock()), problems=list(problems))


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


def _setting(one: Setting) -> contract.SettingView:
    shared = {name: getattr(one, name) for name in ("path", "plugin", "source", "phase", "why")}
    return contract.SettingView(**shared, value=value_text(one.value, VALUE_LENGTH))


def _object(document: Document) -> contract.ObjectView:
    return contract.ObjectView(
        kind=str(document.get("kind", "")),
        api_version=str(document.get("apiVersion", "")),
        namespace=namespace_of(document),
        name=name_of(document),
        yaml=dump(shown(document), sort_keys=False),
    )
