# SPDX-License-Identifier: Apache-2.0
"""Examines an installation: reads what its checks ask for, and runs all of them."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime

import msgspec

from trainwright.api.objects import Document
from trainwright.api.times import wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.runtimes import Runtime
from trainwright.controller.runtime import Client, Forbidden
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.trainer.why.kinds import NAMESPACE
from trainwright.controller.trainer.why.reader import Reader
from trainwright.controller.trainer.why.site import cluster, runtimes
from trainwright.controller.trainer.why.site.survey import (
    TRAINER_GROUP,
    CannotTell,
    Needed,
    SiteSurvey,
    TriedRuntime,
)
from trainwright.plugins.contract import OFFLINE, FactUnavailable
from trainwright.plugins.contract.errors import PipelineError
from trainwright.plugins.contract.picture import Cause, Source
from trainwright.plugins.pipeline import Pipeline

Check = Callable[[SiteSurvey], Iterable[Cause]]

CHECKS: dict[str, Check] = {
    "Kubernetes": cluster.kubernetes,
    "JobSet is installed": cluster.jobset,
    "JobSet answers": cluster.jobset_answer,
    "definitions": cluster.definitions,
    "webhooks answer": cluster.answer,
    "webhooks lead somewhere": cluster.targets,
    "certificates of webhooks": cluster.certificates,
    "a manager works": cluster.leads,
    "one manager": cluster.one_manager,
    "rights of the manager": cluster.rights,
    "runtimes can be used": runtimes.usable,
    "classes of runtimes exist": runtimes.named,
    "gang schedulers": runtimes.gangs,
    "logs of failed pods": runtimes.evidence,
    "JobSets stay": runtimes.lifetimes,
    "devices": runtimes.devices,
    "Kueue": runtimes.queues,
    "quotas": runtimes.quotas,
    "finished jobs": runtimes.leftovers,
    "clock": cluster.clock,
}
"""The checks by title, in the order in which they are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    title: str
    findings: tuple[Cause, ...]
    unread: str = ""
    """What could not be read, so that there may be more to find; empty: nothing."""

    @property
    def is_sound(self) -> bool:
        """Whether it found nothing, and could be made."""
        return not self.findings and not self.unread


def examine(site: SiteSurvey) -> list[Examined]:
    """Every check, with its findings. Their reason is the title in CamelCase: `WebhooksAnswer`."""
    return [_run(title, check, site) for title, check in CHECKS.items()]


def _run(title: str, check: Check, site: SiteSurvey) -> Examined:
    reason = "".join(word[0].upper() + word[1:] for word in title.split())
    found: list[Cause] = []
    try:
        for one in check(site):
            found.append(replace(one, reason=reason))  # noqa: PERF401 - a check may find something before it fails
    except CannotTell as error:
        return Examined(title=title, findings=tuple(found), unread=str(error))
    return Examined(title=title, findings=tuple(found))


async def gather(
    client: Client,
    pipeline: Pipeline,
    needed: Needed,
    shipped: Mapping[str, Document],
    namespace: str | None,
    tell: Callable[[str], None] = lambda _: None,
) -> SiteSurvey:
    """Read everything. What cannot be read is noted in the survey.

    `needed` gives the rights that the manager needs, and `shipped` are the definitions of this version, by name.
    `namespace` is that of dry runs; None: the one that the manager is limited to, or else `default`. `tell` takes what
    is being read now, for a terminal.

    Raises TransportError: there is no answer at all; NotFound: the namespace for dry runs does not exist.
    """
    tell("API server")
    now, skew, version = await _api_server(client)
    if namespace is not None:
        # A user who may not read namespaces learns from the dry runs which right is missing.
        with suppress(Forbidden):
            await client.get(NAMESPACE, namespace)
    known: dict[tuple[str, str, str], TriedRuntime] = {}

    def try_once(runtime: Runtime, place: str) -> TriedRuntime:
        key = (runtime.RESOURCE.kind, runtime.namespace, runtime.name)
        if key not in known:
            known[key] = tried(pipeline, runtime, place)
        return known[key]

    def look(source: Source) -> SiteSurvey:
        site = SiteSurvey(
            source, now, skew=skew, version=version, shipped=shipped, tried=try_once, needed=needed, namespace=namespace
        )
        examine(site)
        tell(", ".join(sorted({query.resource.plural for query in site.wanted})[:3]))
        return site

    return await Reader(client).settle(look, keep_going=True)


async def _api_server(client: Client) -> tuple[dt.datetime, float | None, str]:
    """Its time, how far ours is ahead of it, and its version."""
    before = wall_clock()
    answer = await client.send(Request("GET", "/version"))
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
