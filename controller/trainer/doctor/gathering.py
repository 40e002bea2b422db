# SPDX-License-Identifier: Apache-2.0
"""Reads from a cluster what the checks need. It changes nothing: writes are dry runs."""

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import TypeVar

import msgspec

from trainwright.api.base import Resource
from trainwright.api.kubernetes.authorization.v1 import SubjectAccessReview
from trainwright.api.kubernetes.coordination.v1 import Lease
from trainwright.api.kubernetes.core.v1 import ConfigMap, Node, Service
from trainwright.api.kubernetes.node.v1 import RuntimeClass
from trainwright.api.kubernetes.scheduling.v1 import PriorityClass
from trainwright.api.manifest import ManifestError, load
from trainwright.api.objects import Document, name_of
from trainwright.api.rights import Rule
from trainwright.api.times import wall_clock
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob
from trainwright.api.trainer.v1alpha1.constants import LABEL_ANCESTOR_STEP, NODE, STEP_TRAINER
from trainwright.api.trainer.v1alpha1.runtimes import Runtime
from trainwright.controller.runtime import (
    ApiError,
    Client,
    DecodeError,
    Forbidden,
    KubernetesError,
    NotFound,
    Request,
    together,
)
from trainwright.controller.trainer.doctor.site import (
    JOBSET_DEFINITION,
    JOBSET_GROUP,
    TRAINER_GROUP,
    Probe,
    Rendered,
    Site,
    Unread,
    account_of,
)
from trainwright.plugins.contract import OFFLINE, FactUnavailable, PipelineError
from trainwright.plugins.pipeline import Pipeline

T = TypeVar("T")

LEASE = TRAINER_GROUP
CONFIGURATION = "kubeflow-trainer-config"
CONFIGURATION_KEY = "controller_manager_config.yaml"
KUEUE_NAMESPACE, KUEUE_CONFIGURATION, KUEUE_KEY = (
    "kueue-system",
    "kueue-manager-config",
    "controller_manager_config.yaml",
)
_NAME = "trainwright-doctor-dry-run"
_DEFAULT = "default"
_AT_ONCE = 8
"""Questions about rights that are asked at the same time: there are a hundred and more of them."""


def _resource(group: str, kind: str, plural: str, version: str = "v1", *, namespaced: bool = False) -> Resource:
    return Resource(group=group, version=version, kind=kind, plural=plural, namespaced=namespaced)


_DEFINITION = _resource("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions")
_NAMESPACE = _resource("", "Namespace", "namespaces")
_DEPLOYMENT = _resource("apps", "Deployment", "deployments", namespaced=True)
_VALIDATING = _resource(
    "admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"
)
_MUTATING = _resource("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations")
_QUOTA = _resource("", "ResourceQuota", "resourcequotas", namespaced=True)
_CLUSTER_QUEUE = _resource("kueue.x-k8s.io", "ClusterQueue", "clusterqueues", "v1beta1")
_JOBSET = _resource(JOBSET_GROUP, "JobSet", "jobsets", "v1alpha2", namespaced=True)


class Gatherer:
    """Reads one installation."""

    def __init__(
        self,
        client: Client,
        pipeline: Pipeline,
        needed: Callable[[Site], Iterable[tuple[str, Sequence[Rule]]]],
        shipped: Mapping[str, Document],
        namespace: str | None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """What to read with, and what to compare with.

        Args:
            client: to the cluster, with the rights of the user.
            pipeline: renders a job of each runtime.
            needed: the rights that the manager of a Site needs, by namespace (empty: everywhere); raises
                KubernetesError if its Configuration is wrong.
            shipped: the definitions of this version, by name.
            namespace: for dry runs; None for the one that the manager is limited to, or else `default`.
            tell: takes what is being read now, for a terminal.
        """
        self._client, self._pipeline, self._needed = client, pipeline, needed
        self._shipped, self._wanted, self._namespace, self._tell = shipped, namespace, namespace or _DEFAULT, tell

    async def gather(self) -> Site:
        """Read everything. What cannot be read is noted in the Site.

        Raises:
            TransportError: there is no answer at all.
            NotFound: the namespace for dry runs does not exist.
        """
        self._tell("API server")
        now, skew, version = await self._api_server()
        await self._check_namespace()
        groups = await self._known(self._groups())
        served = groups if not isinstance(groups, Unread) else {}
        site = Site(now=now, skew=skew, version=version, groups=groups, shipped=self._shipped)
        self._tell("installation")
        site.definitions = await self._known(self._definitions())
        site.deployments = await self._known(self._list(_DEPLOYMENT))
        site.webhooks = await self._known(self._webhooks())
        site.configuration = await self._known(self._configuration(site))
        site.leases = await self._known(self._leases(site))
        site.services = await self._known(self._services(site))
        self._tell("dry runs")
        if self._wanted is None:
            self._namespace = site.only or _DEFAULT
        site.tried_in = self._namespace
        site.jobset_probe = (
            await self._known(self._probe(_JOBSET, _a_jobset())) if JOBSET_GROUP in served else Unread("")
        )
        site.job_probe = (
            await self._known(self._probe(TrainJob.RESOURCE, _a_job())) if TRAINER_GROUP in served else Unread("")
        )
        self._tell("rights")
        await self._rights(site)
        self._tell("runtimes")
        site.rendered = await self._known(self._rendered()) if TRAINER_GROUP in served else ()
        site.jobs = await self._known(self._list(TrainJob.RESOURCE)) if TRAINER_GROUP in served else ()
        self._tell("cluster")
        site.priority_classes = await self._known(self._names(PriorityClass.RESOURCE))
        site.runtime_classes = await self._known(self._names(RuntimeClass.RESOURCE))
        site.nodes = await self._known(self._list(Node.RESOURCE))
        site.quotas = await self._known(self._list(_QUOTA))
        if _CLUSTER_QUEUE.group in served:
            site.kueue_configuration = await self._known(self._kueue())
            site.cluster_queues = await self._known(self._list(_CLUSTER_QUEUE))
        return site

    # ------------------------------------------------------------------ reading

    async def _known(self, reading: Awaitable[T]) -> "T | Unread":
        try:
            return await reading
        except KubernetesError as error:
            return Unread(str(error))

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

    async def _check_namespace(self) -> None:
        if self._wanted is not None:
            # Whoever may not look hears from the dry runs what they lack.
            with suppress(Forbidden):
                await self._client.get(_NAMESPACE, self._wanted)

    async def _groups(self) -> Mapping[str, Sequence[str]]:
        answer = await self._client.send(Request("GET", "/apis", headers={"Accept": "application/json"}))
        found = msgspec.json.decode(answer.body)
        return {group["name"]: tuple(version["version"] for version in group["versions"]) for group in found["groups"]}

    async def _list(self, resource: Resource, *, fields: str = "") -> Sequence[Document]:
        """All objects; none of a kind that the cluster does not serve."""
        try:
            found = await self._client.list(resource, field_selector=fields)
        except NotFound:
            return []
        kinds = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [{**kinds, **one} for one in found.items]

    async def _names(self, resource: Resource) -> Sequence[str]:
        return [name_of(one) for one in await self._list(resource)]

    async def _definitions(self) -> Mapping[str, Document]:
        found: dict[str, Document] = {}
        for name in (*self._shipped, JOBSET_DEFINITION):
            try:
                found[name] = await self._client.get(_DEFINITION, name)
            except NotFound:
                continue
        return found

    async def _webhooks(self) -> Sequence[Document]:
        found = [*await self._list(_MUTATING), *await self._list(_VALIDATING)]
        return [one for one in found if _concerns(one)]

    async def _services(self, site: Site) -> Mapping[tuple[str, str], Document | None]:
        if isinstance(site.webhooks, Unread):
            raise DecodeError(site.webhooks.why)
        found: dict[tuple[str, str], Document | None] = {}
        for configuration in site.webhooks:
            for hook in configuration.get("webhooks") or ():
                service = (hook.get("clientConfig") or {}).get("service")
                if service and (key := (service["namespace"], service["name"])) not in found:
                    try:
                        found[key] = await self._client.get(Service.RESOURCE, service["name"], service["namespace"])
                    except NotFound:
                        found[key] = None
        return found

    async def _configuration(self, site: Site) -> Document | None:
        """The manager's Configuration, from the ConfigMap beside its Deployment."""
        if isinstance(site.deployments, Unread):
            raise DecodeError(site.deployments.why)
        for deployment in site.managers:
            namespace, _ = account_of(deployment)
            for found in (await self._client.list(ConfigMap, namespace)).items:
                if found.name.startswith(CONFIGURATION):
                    text = (found.data or {}).get(CONFIGURATION_KEY, "")
                    try:
                        read = load(text)
                    except ManifestError as error:
                        raise DecodeError(f"ConfigMap {namespace}/{found.name}: {error}") from error
                    return read if isinstance(read, dict) else {}
        return None

    async def _leases(self, site: Site) -> Sequence[Document]:
        """The Leases of managers: with the name that is usual, and the one in the Configuration."""
        names = {LEASE}
        if isinstance(site.configuration, dict):
            names.add((site.configuration.get("leaderElection") or {}).get("resourceName") or LEASE)
        found: list[Document] = []
        for name in sorted(names):
            found += await self._list(Lease.RESOURCE, fields=f"metadata.name={name}")
        return found

    async def _kueue(self) -> str | None:
        try:
            found = await self._client.get(ConfigMap, KUEUE_CONFIGURATION, KUEUE_NAMESPACE)
        except NotFound:
            return None
        return (found.data or {}).get(KUEUE_KEY, "")

    # ------------------------------------------------------------------ dry runs

    async def _probe(self, resource: Resource, document: Document) -> Probe:
        document["metadata"]["namespace"] = self._namespace
        try:
            await self._client.create(document, kind=resource, dry_run=True)
        except ApiError as error:
            if isinstance(error, Forbidden) and f'cannot create resource "{resource.plural}"' in error.message:
                raise
            return Probe(code=error.code, message=error.message)
        return Probe(code=201)

    async def _rights(self, site: Site) -> None:
        """Ask for each right of the manager's service account."""
        if isinstance(site.deployments, Unread):
            site.denied = site.deployments
            return
        if not site.managers or not site.is_trainwright:
            return
        site.account = "/".join(account_of(site.managers[0]))
        limit = asyncio.Semaphore(_AT_ONCE)
        try:
            asked = [
                (place, replace(rule, names=(name,) if name else ()), verb)
                for place, rules in self._needed(site)
                for rule in rules
                for verb in rule.verbs
                for name in rule.names or ("",)
            ]
            allowed = await together(
                "doctor", *(self._may(site.account, rule, verb, place, limit) for place, rule, verb in asked)
            )
        except KubernetesError as error:
            site.denied = Unread(str(error))
            return
        denied: dict[str, list[tuple[Rule, str]]] = {}
        for (place, rule, verb), answer in zip(asked, allowed, strict=True):
            if not answer:
                denied.setdefault(place, []).append((rule, verb))
        # A manager of one namespace needs its rights on jobs there, and those without a namespace everywhere.
        site.denied = [*denied.pop("", ()), *denied.pop(site.only, ())]
        site.denied_in = denied

    async def _may(self, account: str, rule: Rule, verb: str, place: str, limit: asyncio.Semaphore) -> bool:
        """Whether the service account has a right in a namespace; `place` empty: in all of them."""
        home, _, name = account.partition("/")
        attributes = {
            "namespace": place if rule.namespaced else "",
            "verb": verb,
            "group": rule.group,
            "resource": rule.resource.partition("/")[0],
            "subresource": rule.resource.partition("/")[2],
            "name": rule.names[0] if rule.names else "",
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{home}:{name}",
                "groups": ["system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated"],
                "resourceAttributes": {key: value for key, value in attributes.items() if value},
            },
        }
        async with limit:
            answer = await self._client.create(review, kind=SubjectAccessReview.RESOURCE)
        return bool((answer.get("status") or {}).get("allowed"))

    # ------------------------------------------------------------------ runtimes

    async def _rendered(self) -> Sequence[Rendered]:
        runtimes: list[Runtime] = [
            *(await self._client.list(ClusterTrainingRuntime)).items,
            *(await self._client.list(TrainingRuntime)).items,
        ]
        return [self._render(runtime) for runtime in runtimes]

    def _render(self, runtime: Runtime) -> Rendered:
        runtime.set_defaults()
        reference = {"apiGroup": TRAINER_GROUP, "kind": runtime.RESOURCE.kind, "name": runtime.name}
        document = {
            "metadata": {"name": "job", "namespace": runtime.namespace or self._namespace, "uid": "dry-run"},
            "spec": {"runtimeRef": reference},
        }
        job = msgspec.convert(document, TrainJob)
        job.set_defaults()
        run = self._pipeline.begin(job, runtime)
        try:
            verdict = run.validate(OFFLINE)
            if verdict.allowed:
                run.render(OFFLINE)
        except (PipelineError, FactUnavailable) as error:
            return Rendered(runtime=runtime, verdict=None, problem=str(error))
        return Rendered(runtime=runtime, verdict=verdict)


def _concerns(configuration: Document) -> bool:
    groups = {
        group
        for hook in configuration.get("webhooks") or ()
        for rule in hook.get("rules") or ()
        for group in rule.get("apiGroups") or ()
    }
    return bool(groups & {TRAINER_GROUP, JOBSET_GROUP})


def _a_job() -> Document:
    return {
        "apiVersion": TrainJob.RESOURCE.api_version,
        "kind": "TrainJob",
        "metadata": {"name": _NAME},
        "spec": {"runtimeRef": {"name": f"{_NAME}-no-such-runtime"}},
    }


def _a_jobset() -> Document:
    pod = {"containers": [{"name": NODE, "image": "none"}], "restartPolicy": "Never"}
    job = {
        "name": NODE,
        "template": {"metadata": {"labels": {LABEL_ANCESTOR_STEP: STEP_TRAINER}}, "spec": {"template": {"spec": pod}}},
    }
    return {
        "apiVersion": _JOBSET.api_version,
        "kind": "JobSet",
        "metadata": {"name": _NAME},
        "spec": {"suspend": True, "replicatedJobs": [job]},
    }
