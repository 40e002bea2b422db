# SPDX-License-Identifier: Apache-2.0
"""Reads the picture of a job from an API server, with the rights of whoever asks.

It reads what the checks want, in rounds of concurrent reads, until they want no more. No manager is needed, and what
may not be read becomes part of the explanation.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing

import msgspec

from trainwright.api.base import Resource
from trainwright.api.objects import Document, wire
from trainwright.api.times import Now, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import (
    ApiError,
    Client,
    DecodeError,
    Discovery,
    MetadataOnly,
    NotFound,
    TransportError,
    together,
)
from trainwright.controller.trainer.explain.judgement import Explanation, explain
from trainwright.controller.trainer.explain.kinds import SECRET
from trainwright.plugins.contract import Explains, Picture, Unreadable
from trainwright.plugins.contract.picture import NOT_SERVED, Answer, Query, Verb

_ROUNDS = 12
"""More rounds than that would be a check that wants something new each time."""
_BUILT_IN = frozenset(
    {
        "",
        "admissionregistration.k8s.io",
        "apps",
        "batch",
        "coordination.k8s.io",
        "node.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    }
)
_AT_ONCE = 8
_LOG_LINES = 200
"""Enough for the traceback and the summary of a launcher after the words of the program."""
_LOG_BYTES = 64 * 1024
_LOG_SECONDS = 5.0


class Reader:
    """Reads and explains jobs through one client."""

    def __init__(self, client: Client, plugins: Sequence[Explains] = (), *, now: Now = wall_clock) -> None:
        self._client = client
        self._plugins = tuple(plugins)
        self._discovery = Discovery(client)
        self._now = now
        self._limit = asyncio.Semaphore(_AT_ONCE)

    async def explain(self, namespace: str, name: str) -> Explanation:
        """Explain the job as it is now.

        Raises:
            NotFound: the job does not exist, or TrainJobs are not installed.
            ApiError: the job may not be read.
            TransportError: no answer.
            DecodeError: the job does not fit the API, which a definition that accepts anything allows.
        """
        return (await self.picture(namespace, name))[1]

    async def picture(
        self, namespace: str, name: str, *, also: Callable[[Picture], object] | None = None
    ) -> tuple[Picture, Explanation]:
        """The picture that the explanation comes from, and the explanation.

        `also` asks the picture for more, as a check does; what it asks for is read too. Raises as `explain`.
        """
        job: Document = await self._client.get(TrainJob.RESOURCE, name, namespace)
        try:
            msgspec.convert(job, TrainJob)
        except msgspec.ValidationError as error:
            raise DecodeError(f"TrainJob {namespace}/{name} does not fit the API: {error}") from error
        self._discovery = Discovery(self._client)  # What is missing may be installed while one watches.
        now, answers = self._now(), dict[Query, Answer]()
        rounds = 0
        while True:
            picture = Picture(job, answers.get, now)
            explanation = explain(picture, self._plugins)
            if also is not None:
                also(picture)
            wanted = tuple(picture.wanted)
            if not wanted or rounds == _ROUNDS:
                return picture, explanation
            found = await together("explain", *(self._answer(query) for query in wanted))
            answers.update(zip(wanted, found, strict=True))
            rounds += 1

    async def _answer(self, query: Query) -> Answer:
        async with self._limit:
            try:
                return await self._read(query)
            except NotFound:
                return NOT_SERVED if query.verb in (Verb.LIST, Verb.SERVES) else ()
            except ApiError as error:
                return Unreadable(error.message)

    async def _read(self, query: Query) -> Answer:
        if query.verb is Verb.LOG:
            return await self._log(query)
        resource = await self._served(query.resource)
        if resource is None:
            return NOT_SERVED
        if query.verb is Verb.SERVES:
            return ({},)
        # The content of Secrets is nobody's business here.
        kind: Resource | MetadataOnly = MetadataOnly(resource) if resource == SECRET else resource
        if query.verb is Verb.GET:
            return (wire(await self._client.get(kind, query.name, query.namespace)),)
        listed = await self._client.list(
            resource, query.namespace, label_selector=query.labels, field_selector=query.fields
        )
        return tuple(listed.items)

    async def _served(self, resource: Resource) -> Resource | None:
        """The resource in the version that the server prefers; None if it does not serve the kind."""
        return (
            resource if resource.group in _BUILT_IN else await self._discovery.preferred(resource.group, resource.kind)
        )

    async def _log(self, query: Query) -> Answer:
        container, _, run = query.fields.rpartition(",")
        kept = b""
        try:
            async with (
                asyncio.timeout(_LOG_SECONDS),
                aclosing(
                    self._client.logs(
                        query.name, query.namespace, container=container, previous=run == "previous", tail=_LOG_LINES
                    )
                ) as chunks,
            ):
                async for chunk in chunks:
                    kept = (kept + chunk)[-_LOG_BYTES:]
        except (TimeoutError, TransportError) as error:
            return Unreadable(str(error) or "the node does not answer")
        return ({"lines": kept.decode(errors="replace").split("\n")},)
