# SPDX-License-Identifier: Apache-2.0
"""What the objects are that checks ask for: those of an API server, or those at hand.

`Reader` reads in rounds of concurrent reads, until the checks want no more, with the rights of whoever asks. No manager
is needed, and what may not be read becomes part of what they say. Nothing is changed: writes are dry runs.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import TypeVar

import msgspec

from trainwright.api.base import Resource
from trainwright.api.kubernetes.authorization.v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from trainwright.api.objects import Document, dig, labels_of, name_of, namespace_of, wire
from trainwright.api.times import Now, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Client, Discovery, Forbidden, KubernetesError, MetadataOnly, NotFound
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import ApiError, DecodeError, TransportError
from trainwright.controller.runtime.tasks import together
from trainwright.controller.trainer.why.job.judgement import Explanation, explain
from trainwright.controller.trainer.why.kinds import API_GROUP, SECRET
from trainwright.plugins.contract import Explains
from trainwright.plugins.contract.facts import Unreadable
from trainwright.plugins.contract.picture import NOT_SERVED, Answer, Picture, Query, Source, Survey, Verb

S = TypeVar("S", bound=Survey)

_ROUNDS = 12
"""More rounds than that would be a check that wants something new each time."""
_BUILT_IN = frozenset(
    {
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
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
        now = self._now()
        found: list[Explanation] = []

        def look(source: Source) -> Picture:
            picture = Picture(job, source, now)
            found[:] = [explain(picture, self._plugins)]
            if also is not None:
                also(picture)
            return picture

        return await self.settle(look), found[0]

    async def settle(self, look: Callable[[Source], S], *, keep_going: bool = False) -> S:
        """The survey for which there is nothing more to read.

        `look` makes a survey from what was read so far, and runs the checks over it. With `keep_going` every read that
        fails is noted as unread; else KubernetesError is raised for those that the API server did not answer.
        """
        self._discovery = Discovery(self._client)  # What is missing may be installed while one watches.
        answers = dict[Query, Answer]()
        rounds = 0
        while True:
            survey = look(answers.get)
            wanted = tuple(survey.wanted)
            if not wanted or rounds == _ROUNDS:
                return survey
            found = await together("explain", *(self._answer(query, keep_going) for query in wanted))
            answers.update(zip(wanted, found, strict=True))
            rounds += 1

    async def _answer(self, query: Query, keep_going: bool) -> Answer:
        async with self._limit:
            try:
                return await self._read(query)
            except NotFound:
                return NOT_SERVED if query.verb in (Verb.LIST, Verb.SERVES) else ()
            except ApiError as error:
                return Unreadable(error.message)
            except KubernetesError as error:
                if not keep_going:
                    raise
                return Unreadable(str(error))

    async def _read(self, query: Query) -> Answer:
        special = {Verb.LOG: self._log, Verb.TRY: self._try, Verb.MAY: self._may}.get(query.verb)
        if special is not None:
            return await special(query)
        if query.resource == API_GROUP:
            answer = await self._client.send(Request("GET", "/apis", headers={"Accept": "application/json"}))
            return tuple(msgspec.json.decode(answer.body)["groups"])
        resource: Resource | None = query.resource
        if query.resource.group not in _BUILT_IN:
            resource = await self._discovery.preferred(query.resource.group, query.resource.kind)
        if resource is None:
            return NOT_SERVED
        if query.verb is Verb.SERVES:
            return ({},)
        # Checks need no content of Secrets: read only whether they exist.
        kind: Resource | MetadataOnly = MetadataOnly(resource) if resource == SECRET else resource
        if query.verb is Verb.GET:
            return (wire(await self._client.get(kind, query.name, query.namespace)),)
        listed = await self._client.list(
            resource, query.namespace, label_selector=query.labels, field_selector=query.fields
        )
        return tuple(listed.items)

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

    async def _try(self, query: Query) -> Answer:
        try:
            await self._client.create(msgspec.json.decode(query.fields), kind=query.resource, dry_run=True)
        except ApiError as error:
            if isinstance(error, Forbidden) and f'cannot create resource "{query.resource.plural}"' in error.message:
                raise
            return ({"code": error.status, "message": error.message},)
        return ({"code": 201},)

    async def _may(self, query: Query) -> Answer:
        account, _, verb = query.fields.rpartition(",")
        home, _, name = account.partition("/")
        what = query.resource
        plural, _, part = what.plural.partition("/")
        attributes = ResourceAttributes(
            namespace=query.namespace, verb=verb, group=what.group, resource=plural, subresource=part, name=query.name
        )
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated"]
        spec = SubjectAccessReviewSpec(
            user=f"system:serviceaccount:{home}:{name}", groups=groups, resource_attributes=attributes
        )
        answer = await self._client.create(SubjectAccessReview(spec=spec))
        return ({"allowed": answer.status_or_empty.allowed},)


class GivenObjects:
    """Answers queries from a set of objects, of caches, a file or a test, as if it were the whole cluster.

    Args:
        objects: in wire form, each with apiVersion and kind.
        unreadable: plurals of resources (`nodes`, `pods/log`) that may not be read.
        unserved: API groups that the cluster does not have.
        logs: last lines by `<pod>/<container>`.
    """

    def __init__(
        self,
        objects: Iterable[Document],
        *,
        unreadable: Collection[str] = (),
        unserved: Collection[str] = (),
        logs: dict[str, list[str]] | None = None,
    ) -> None:
        self._by_kind: dict[tuple[str, str], list[Document]] = {}
        for obj in objects:
            group = str(obj.get("apiVersion", "")).rpartition("/")[0]
            self._by_kind.setdefault((group, str(obj.get("kind"))), []).append(obj)
        self._unreadable = frozenset(unreadable)
        self._unserved = frozenset(unserved)
        self._logs = logs or {}

    def picture(self, job: Document, now: datetime) -> Picture:
        return Picture(job, self.answer, now)

    def answer(self, query: Query) -> Answer:
        """The answer to a query; there always is one."""
        resource = query.resource
        if query.verb is Verb.LOG:
            return self._log(query)
        if resource.group in self._unserved:
            return NOT_SERVED
        if query.verb is Verb.SERVES:
            return ({},)
        if resource.plural in self._unreadable:
            return Unreadable(f'{resource.plural} is forbidden: cannot {query.verb.value} resource "{resource.plural}"')
        everywhere = query.verb is Verb.LIST and not query.namespace
        some = [
            obj
            for obj in self._by_kind.get((resource.group, resource.kind), ())
            if everywhere or namespace_of(obj) in (query.namespace, "")
        ]
        if query.verb is Verb.GET:
            return tuple(obj for obj in some if name_of(obj) == query.name)[:1]
        return tuple(obj for obj in some if _matches(obj, query))

    def _log(self, query: Query) -> Answer:
        if "pods/log" in self._unreadable:
            return Unreadable("pods/log is forbidden")
        lines = self._logs.get(f"{query.name}/{query.fields.partition(',')[0]}")
        return ({"lines": lines},) if lines is not None else ()


def _matches(obj: Document, query: Query) -> bool:
    return all(labels_of(obj).get(key) == value for key, value in _terms(query.labels)) and all(
        dig(obj, path) == value for path, value in _terms(query.fields)
    )


def _terms(selector: str) -> list[tuple[str, str]]:
    pairs = (term.partition("=") for term in selector.split(",") if term)
    return [(key, value) for key, _, value in pairs]
