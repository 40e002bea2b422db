# SPDX-License-Identifier: Apache-2.0
"""Surveys an installation: reads what its checks ask for, and tries a job of each runtime in our pipeline."""

import datetime as dt
from collections.abc import Callable, Mapping
from contextlib import suppress
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


class Gatherer:
    def __init__(
        self,
        client: Client,
        pipeline: Pipeline,
        needed: Needed,
        shipped: Mapping[str, Document],
        namespace: str | None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`needed` gives the rights that the manager needs, `shipped` the definitions of this version, by name.

        `namespace` is for dry runs; None: the one that the manager is limited to, or else `default`. `tell` takes what
        is being read now, for a terminal.
        """
        self._client, self._pipeline, self._needed = client, pipeline, needed
        self._shipped, self._namespace, self._tell = shipped, namespace, tell
        self._tried: dict[tuple[str, str, str], TriedRuntime] = {}

    async def gather(self) -> SiteSurvey:
        """Read everything. What cannot be read is noted in the survey.

        Raises TransportError: there is no answer at all; NotFound: the namespace for dry runs does not exist.
        """
        self._tell("API server")
        now, skew, version = await self._api_server()
        if self._namespace is not None:
            # A user who may not read namespaces learns from the dry runs which right is missing.
            with suppress(Forbidden):
                await self._client.get(NAMESPACE, self._namespace)

        def look(source: Source) -> SiteSurvey:
            site = SiteSurvey(
                source,
                now,
                skew=skew,
                version=version,
                shipped=self._shipped,
                tried=self._try,
                needed=self._needed,
                namespace=self._namespace,
            )
            examine(site)
            self._tell(", ".join(sorted({query.resource.plural for query in site.wanted})[:3]))
            return site

        return await Reader(self._client).settle(look, keep_going=True)

    async def _api_server(self) -> tuple[dt.datetime, float | None, str]:
        """Its time, how far ours is ahead of it, and its version."""
        before = wall_clock()
        answer = await self._client.send(Request("GET", "/version"))
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
            self._tried[key] = tried(self._pipeline, runtime, namespace)
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
