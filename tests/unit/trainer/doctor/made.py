# SPDX-License-Identifier: Apache-2.0
"""Installations as tests plant them. Each answers the questions of the doctor's checks as the cluster would."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.unit.plugins.blueprints import PIPELINE
from trainwright.api.manifest import dump
from trainwright.api.objects import Document, name_of, namespace_of, wire
from trainwright.api.rights import Rule
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob
from trainwright.api.trainer.v1alpha1.runtimes import Runtime
from trainwright.controller.trainer.why import kinds
from trainwright.controller.trainer.why.site import examination
from trainwright.controller.trainer.why.site.examination import Examined, tried
from trainwright.controller.trainer.why.site.survey import (
    CONFIGURATION,
    CONFIGURATION_KEY,
    KUEUE_CONFIGURATION,
    Probe,
    SiteSurvey,
    TriedRuntime,
)
from trainwright.plugins.contract.facts import Unreadable
from trainwright.plugins.contract.picture import Answer, Query, Verb


@dataclass(frozen=True)
class Unread:
    """Stands for what may not be read."""

    why: str


@dataclass
class Made:
    """An installation. Each field may be `Unread`."""

    now: datetime
    skew: float | None
    version: str
    groups: Any
    definitions: Any
    shipped: Mapping[str, Document]
    leases: Any
    deployments: Any
    webhooks: Any
    services: Mapping[tuple[str, str], Document | None]
    jobset_probe: Probe
    job_probe: Probe
    configuration: Any
    rendered: Any
    nodes: Sequence[Document]
    jobs: Sequence[Document]
    quotas: Sequence[Document]
    tried_in: str | None = None
    denied: Sequence[tuple[Rule, str]] = ()
    denied_in: Mapping[str, Sequence[tuple[Rule, str]]] = field(default_factory=dict)
    kueue_configuration: str | None = None
    cluster_queues: Sequence[Document] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.survey(), name)

    def survey(self) -> SiteSurvey:
        """What the doctor looks at."""
        return SiteSurvey(
            self.answer,
            self.now,
            skew=self.skew,
            version=self.version,
            shipped=self.shipped,
            tried=self._tried,
            needed=lambda _: self._needed(),
            namespace=self.tried_in,
        )

    def _tried(self, runtime: Runtime, namespace: str) -> TriedRuntime:
        broken = [one for one in self.rendered if one.problem and one.runtime.name == runtime.name]
        return broken[0] if broken else tried(PIPELINE, runtime, namespace)

    def _needed(self) -> Iterator[tuple[str, list[Rule]]]:
        for place, lacking in {"": self.denied, **self.denied_in}.items():
            yield place, [Rule(one.group, one.resource, (verb,), one.names, one.namespaced) for one, verb in lacking]

    def answer(self, query: Query) -> Answer:
        """The answer of the cluster. No right is granted."""
        if query.verb is Verb.TRY:
            probe = self.job_probe if query.resource == TrainJob.RESOURCE else self.jobset_probe
            return ({"code": probe.code, "message": probe.message},)
        if query.verb is Verb.MAY:
            return ({"allowed": False},)
        found = self._objects(query)
        if isinstance(found, Unread):
            return Unreadable(found.why)
        if query.verb is Verb.GET:
            return tuple(one for one in found if (namespace_of(one), name_of(one)) == (query.namespace, query.name))
        name = query.fields.removeprefix("metadata.name=")
        return tuple(one for one in found if not name or name_of(one) == name)

    def _objects(self, query: Query) -> Any:
        resource = query.resource
        if resource in (TrainingRuntime.RESOURCE, ClusterTrainingRuntime.RESOURCE):
            if isinstance(self.rendered, Unread):
                return self.rendered
            return [wire(one.runtime) for one in self.rendered if resource == one.runtime.RESOURCE]
        if resource == kinds.CONFIG_MAP:
            return self._config_maps(query)
        if resource == kinds.API_GROUP:
            if isinstance(self.groups, Unread):
                return self.groups
            return [{"name": name, "versions": [{"version": x} for x in some]} for name, some in self.groups.items()]
        by_resource = {
            kinds.DEFINITION: self.definitions,
            kinds.LEASE: self.leases,
            kinds.DEPLOYMENT: self.deployments,
            kinds.VALIDATING_WEBHOOKS: self.webhooks,
            kinds.NODE: self.nodes,
            kinds.QUOTA: self.quotas,
            kinds.CLUSTER_QUEUE: self.cluster_queues,
            TrainJob.RESOURCE: self.jobs,
            kinds.SERVICE: [
                {"metadata": {"namespace": namespace, "name": name}}
                for (namespace, name), one in self.services.items()
                if one is not None
            ],
        }
        found = by_resource.get(resource, ())
        return (
            [{"metadata": {"name": name}, **one} for name, one in found.items()] if isinstance(found, dict) else found
        )

    def _config_maps(self, query: Query) -> Any:
        if query.name == KUEUE_CONFIGURATION:
            text = self.kueue_configuration
            metadata = {"name": query.name, "namespace": query.namespace}
            return [] if text is None else [{"metadata": metadata, "data": {CONFIGURATION_KEY: text}}]
        if isinstance(self.configuration, Unread):
            return self.configuration
        if self.configuration is None:
            return []
        data = {CONFIGURATION_KEY: dump(self.configuration)}
        return [{"metadata": {"name": CONFIGURATION, "namespace": query.namespace}, "data": data}]


def examine(site: Made | SiteSurvey) -> list[Examined]:
    """What the doctor says."""
    return examination.examine(site.survey() if isinstance(site, Made) else site)
