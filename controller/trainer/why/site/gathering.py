# SPDX-License-Identifier: Apache-2.0
"""Surveys an installation: reads what its checks ask for, and tries a job of each runtime in our pipeline."""

import datetime as dt
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

import msgspec

from trainwright.api.objects import Document
from trainwright.api.times import wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.runtimes import Runtime
from trainwright.controller.runtime import Client, Forbidden, Request
from trainwright.controller.trainer.why.kinds import NAMESPACE
from trainwright.controller.trainer.why.reader import Reader
from trainwright.controller.trainer.why.site.examination import examine
from trainwright.controller.trainer.why.site.survey import TRAINER_GROUP, Needed, SiteSurvey, TriedRuntime
from trainwright.plugins.contract import OFFLINE, FactUnavailable, PipelineError
from trainwright.plugins.contract.picture import Source
from trainwright.plugins.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Gatherer:
    client: Client
    pipeline: Pipeline
    needed: Needed
    """Gives the rights that the manager needs."""
    shipped: Mapping[str, Document]
    """The definitions of this version, by name."""
    namespace: str | None
    """For dry runs; None: the one that the manager is limited to, or else `default`."""
    tell: Callable[[str], None] = lambda _: None
    """Takes what is being read now, for a terminal."""
    _tried: dict[tuple[str, str, str], TriedRuntime] = field(default_factory=dict, init=False)

    async def gather(self) -> SiteSurvey:
        """Read everything. What cannot be read is noted in the survey.

        Raises TransportError: there is no answer at all; NotFound: the namespace for dry runs does not exist.
        """
        self.tell("API server")
        now, skew, version = await self._api_server()
        if self.namespace is not None:
            # A user who may not read namespaces learns from the dry runs which right is missing.
            with suppress(Forbidden):
                await self.client.get(NAMESPACE, self.namespace)

        def look(source: Source) -> SiteSurvey:
            site = SiteSurvey(
                source,
                now,
                skew=skew,
                version=version,
                shipped=self.shipped,
                tried=self._try,
                needed=self.needed,
                namespace=self.namespace,
            )
            examine(site)
            self.tell(", ".join(sorted({query.resource.plural for query in site.wanted})[:3]))
            return site

        return await Reader(self.client).settle(look, keep_going=True)

    async def _api_server(self) -> tuple[dt.datetime, float | None, str]:
        """Its time, how far ours is ahead of it, and its version."""
        before = wall_clock()
        answer = await self.client.send(Request("GET", "/version"))
        try:
            version = str(msgspec.json.decode(answer.body)["gitVersion"])
        except (msgspec.DecodeError, KeyError, TypeError):
            version = ""  # a proxy that answers for it
        text = answer.headers.get("date")
        if not text:
            return before, None, version
        server = parsedate_to_datetime(text)
        # The header has whole seconds, so the true time is up to one second later.
        skew = (before - server).total_seconds()
        return max(server, server + (wall_clock() - before)), skew, version

    def _try(self, runtime: Runtime, namespace: str) -> TriedRuntime:
        """Make a one-node job of the runtime; once, since the checks look several times."""
        key = (runtime.RESOURCE.kind, runtime.namespace, runtime.name)
        if key not in self._tried:
            self._tried[key] = tried(self.pipeline, runtime, namespace)
        return self._tried[key]


def tried(pipeline: Pipeline, runtime: Runtime, namespace: str) -> TriedRuntime:
    """What the pipeline says of a one-node job of the runtime, in that namespace if the runtime has none."""
    runtime.set_defaults()
    reference = {"apiGroup": TRAINER_GROUP, "kind": runtime.RESOURCE.kind, "name": runtime.name}
    document = {
        "metadata": {"name": "job", "namespace": runtime.namespace or namespace, "uid": "dry-run"},
        "spec": {"runtimeRef": reference},
    }
    job = msgspec.convert(document, TrainJob)
    job.set_defaults()
    run = pipeline.begin(job, runtime)
    try:
        verdict = run.validate(OFFLINE)
        if verdict.allowed:
            run.render(OFFLINE)
    except (PipelineError, FactUnavailable) as error:
        return TriedRuntime(runtime=runtime, verdict=None, problem=str(error))
    return TriedRuntime(runtime=runtime, verdict=verdict)
