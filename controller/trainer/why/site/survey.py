# SPDX-License-Identifier: Apache-2.0
"""What is known of an installation. What could not be read raises when a check asks for it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any, TypeAlias

import msgspec

from trainwright.api.base import Resource
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.manifest import ManifestError, load
from trainwright.api.nodes import is_local
from trainwright.api.objects import Document, dig, labels_of, name_of, namespace_of
from trainwright.api.rights import Rule
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob
from trainwright.api.trainer.v1alpha1.constants import LABEL_ANCESTOR_STEP, NODE, STEP_TRAINER
from trainwright.api.trainer.v1alpha1.runtimes import Runtime
from trainwright.controller.runtime import KubernetesError
from trainwright.controller.trainer.why import kinds
from trainwright.plugins.contract.errors import Verdict
from trainwright.plugins.contract.facts import Unreadable
from trainwright.plugins.contract.picture import Cause, Query, Severity, Source, Survey, Verb

TRAINER_GROUP = TrainJob.RESOURCE.group
JOBSET_GROUP = JobSet.RESOURCE.group
JOBSET_DEFINITION = f"jobsets.{JOBSET_GROUP}"
CONFIGURATION = "kubeflow-trainer-config"
CONFIGURATION_KEY = "controller_manager_config.yaml"
KUEUE_NAMESPACE, KUEUE_CONFIGURATION = "kueue-system", "kueue-manager-config"
_TRIED = "trainwright-doctor-dry-run"
_DEFAULT = "default"


PROBLEM, WARNING, NOTE = Severity.STUCK, Severity.TEMPORARY, Severity.WAITS
"""Jobs cannot run, or some of them; they run, and something will go wrong with some; nothing has to be done."""


def _found(severity: Severity, message: str, remedy: str) -> Cause:
    """A finding of a check; `examine` gives it the reason, which is that of its check."""
    return Cause(reason="", message=message, remedy=remedy, severity=severity)


problem, warning, note = (partial(_found, severity) for severity in (PROBLEM, WARNING, NOTE))


class CannotTell(Exception):  # noqa: N818 - it is no error of the check
    """A check needs something that could not be read; the text says what, and why."""


@dataclass(frozen=True, slots=True)
class Probe:
    code: int
    """HTTP status; 201: it would be created."""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedRuntime:
    """What our pipeline says of a one-node job of a runtime."""

    runtime: Runtime
    verdict: Verdict | None
    problem: str = ""
    """Why it cannot be built; empty if it can."""

    @property
    def title(self) -> str:
        """Kind and name, with the namespace if there is one."""
        where = f"{self.runtime.namespace}/" if self.runtime.namespace else ""
        return f"{self.runtime.RESOURCE.kind} {where}{self.runtime.name}"


Needed: TypeAlias = "Callable[[SiteSurvey], Iterable[tuple[str, Sequence[Rule]]]]"
"""The rights that the manager of a site needs, by namespace (empty: everywhere). Raises KubernetesError if its
Configuration is wrong."""


class SiteSurvey(Survey):
    """One installation at one moment. Each property raises CannotTell if it could not be read."""

    def __init__(
        self,
        source: Source,
        now: datetime,
        *,
        skew: float | None,
        version: str,
        shipped: Mapping[str, Document],
        tried: Callable[[Runtime, str], TriedRuntime],
        needed: Needed,
        namespace: str | None,
    ) -> None:
        """Ask nothing yet; `source` has what was read so far.

        `now`, `skew` and `version` are as `examination._api_server` tells them. `tried` makes a one-node job of a
        runtime, in that namespace if the runtime has none. The other arguments are those of `examination.gather`.
        """
        super().__init__(source, now)
        self.skew, self.version, self.shipped = skew, version, shipped
        self._tried, self._needed, self._wanted_namespace = tried, needed, namespace

    # ------------------------------------------------------------------ asking

    def all_of(self, resource: Resource, *, fields: str = "", namespace: str = "") -> list[Document]:
        """All objects; none of a kind that the cluster does not serve."""
        return list(self._told(Query(Verb.LIST, resource, namespace, fields=fields)))

    def one(self, resource: Resource, name: str, namespace: str = "") -> Document | None:
        """The object; None if it does not exist."""
        found = self._told(Query(Verb.GET, resource, namespace, name))
        return found[0] if found else None

    def _told(self, query: Query) -> tuple[Document, ...]:
        answer = self.ask(query)
        if isinstance(answer, Unreadable):
            raise CannotTell(answer.message)
        return answer if isinstance(answer, tuple) else ()

    def is_awaited(self, *resources: Resource) -> bool:
        """Whether a question about one of these kinds has no answer yet."""
        return any(query.resource in resources for query in self.wanted)

    def if_read(self, name: str) -> Any:
        """The property; None if it could not be read."""
        try:
            return getattr(self, name)
        except CannotTell:
            return None

    # ------------------------------------------------------------------ the cluster

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """Versions of each API group that is served."""
        found = self._told(Query(Verb.LIST, kinds.API_GROUP))
        return {group["name"]: tuple(version["version"] for version in group["versions"]) for group in found}

    def has_group(self, group: str) -> bool:
        return group in self.groups

    @property
    def definitions(self) -> Mapping[str, Document]:
        """The CustomResourceDefinitions of Kubeflow Trainer and JobSet that exist, by name."""
        found = {name: self.one(kinds.DEFINITION, name) for name in (*self.shipped, JOBSET_DEFINITION)}
        return {name: one for name, one in found.items() if one is not None}

    @cached_property
    def webhooks(self) -> list[Document]:
        """The webhook configurations that concern TrainJobs, runtimes or JobSets, with their kind."""
        return [
            {"kind": resource.kind, **one}
            for resource in (kinds.MUTATING_WEBHOOKS, kinds.VALIDATING_WEBHOOKS)
            for one in self.all_of(resource)
            if groups_of(one.get("webhooks") or ()) & {TRAINER_GROUP, JOBSET_GROUP}
        ]

    @property
    def is_local(self) -> bool:
        """Whether the cluster is one of `trainwright local`, whose node is this machine."""
        nodes = self.if_read("nodes")
        return bool(nodes) and all(map(is_local, nodes))

    @property
    def nodes(self) -> list[Document]:
        return self.all_of(kinds.NODE)

    @property
    def kueue_configuration(self) -> str | None:
        found = self.one(kinds.CONFIG_MAP, KUEUE_CONFIGURATION, KUEUE_NAMESPACE)
        return None if found is None else str((dig(found, "data") or {}).get(CONFIGURATION_KEY) or "")

    @cached_property
    def rendered(self) -> list[TriedRuntime]:
        found: list[TriedRuntime] = []
        runtimes: tuple[type[Runtime], ...] = (ClusterTrainingRuntime, TrainingRuntime)
        for kind in runtimes:
            for one in self.all_of(kind.RESOURCE):
                try:
                    runtime = msgspec.convert(one, kind)
                except msgspec.ValidationError as error:
                    raise CannotTell(f"{kind.RESOURCE.kind} {name_of(one)} does not fit the API: {error}") from error
                found.append(self._tried(runtime, self._wanted_namespace or _DEFAULT))
        return found

    # ------------------------------------------------------------------ the manager

    @cached_property
    def managers(self) -> list[Document]:
        return [one for one in self.all_of(kinds.DEPLOYMENT) if kinds.is_manager(one)]

    @property
    def is_trainwright(self) -> bool:
        """Whether the manager is Trainwright: its Deployment runs the command `manager`. Else Kubeflow Trainer's."""
        return any(
            "trainwright" in (container.get("image") or "") or "manager" in (container.get("args") or ())
            for deployment in self.managers
            for container in containers_of(deployment)
        )

    @property
    def configuration(self) -> Document | None:
        """The manager's Configuration, from the ConfigMap beside its Deployment; None if it has none."""
        for place in map(namespace_of, self.managers):
            for found in self.all_of(kinds.CONFIG_MAP, namespace=place):
                if name_of(found).startswith(CONFIGURATION):
                    try:
                        read = load((dig(found, "data") or {}).get(CONFIGURATION_KEY, ""))
                    except ManifestError as error:
                        raise CannotTell(f"ConfigMap {place}/{name_of(found)}: {error}") from error
                    return read if isinstance(read, dict) else {}
        return None

    @property
    def leases(self) -> list[Document]:
        """The Leases of managers in all namespaces: with the name that is usual, and the one in the Configuration."""
        names = {
            kinds.LEASE_NAME,
            dig(self.if_read("configuration"), "leaderElection.resourceName") or kinds.LEASE_NAME,
        }
        return [one for name in sorted(names) for one in self.all_of(kinds.LEASE, fields=f"metadata.name={name}")]

    @property
    def only(self) -> str:
        """The only namespace whose TrainJobs are managed; empty for all, and if one manager alone cannot be seen."""
        return self._option("--namespace") if len(self.if_read("managers") or ()) == 1 else ""

    @property
    def feature_gates(self) -> str:
        """The gates on the command line of the manager, which take precedence over those of its Configuration."""
        return self._option("--feature-gates") if self.managers else ""

    def _option(self, name: str) -> str:
        """The value of an option of the manager's command line; empty without it. The last one counts, as for it."""
        containers = containers_of(self.managers[0])
        arguments = [str(one) for container in containers for one in container.get("args") or ()]
        found = ""
        for option, following in zip(arguments, [*arguments[1:], ""], strict=True):
            if option == name:
                found = following
            elif option.startswith(f"{name}="):
                found = option.partition("=")[2]
        return found

    @property
    def home(self) -> str:
        """The namespace of the manager, by its Deployment, its webhooks' Service, or its Lease; empty: unknown."""
        hooks = [one for one in self.if_read("webhooks") or () if name_of(one).endswith(TRAINER_GROUP)]
        found = [*map(namespace_of, self.if_read("managers") or ()), *_homes(hooks)]
        return next(iter(found), "") or next(map(namespace_of, self.if_read("leases") or ()), "")

    @property
    def pods(self) -> str:
        """The command that shows the pods of the manager."""
        where = f"-n {self.home}" if self.home else "-A -l app.kubernetes.io/component=manager"
        return f"kubectl get pods {where}"

    @property
    def jobset_pods(self) -> str:
        """The command that shows the pods of JobSet's controller."""
        hooks = [one for one in self.if_read("webhooks") or () if "jobset" in name_of(one)]
        found = [*map(namespace_of, self.if_read("jobset_managers") or ()), *_homes(hooks)]
        return f"kubectl get pods -n {found[0] if found else 'jobset-system'}"

    @property
    def jobset_managers(self) -> list[Document]:
        """The Deployments of JobSet's controller, by label or image."""
        return [
            one
            for one in self.all_of(kinds.DEPLOYMENT)
            if labels_of(one).get("app.kubernetes.io/part-of") == "jobset"
            or any("/jobset:" in (container.get("image") or "") for container in containers_of(one))
        ]

    # ------------------------------------------------------------------ dry runs and rights

    @property
    def tried_in(self) -> str:
        return self._wanted_namespace or self.only or _DEFAULT

    @property
    def job_probe(self) -> Probe:
        """The answer to a TrainJob whose runtime does not exist: working webhooks refuse it."""
        return self._probe(TrainJob.RESOURCE, {"runtimeRef": {"name": f"{_TRIED}-no-such-runtime"}})

    @property
    def jobset_probe(self) -> Probe:
        pod = {"containers": [{"name": NODE, "image": "none"}], "restartPolicy": "Never"}
        labels = {LABEL_ANCESTOR_STEP: STEP_TRAINER}
        template = {"metadata": {"labels": labels}, "spec": {"template": {"spec": pod}}}
        return self._probe(JobSet.RESOURCE, {"suspend": True, "replicatedJobs": [{"name": NODE, "template": template}]})

    def _probe(self, resource: Resource, spec: Document) -> Probe:
        place = self.tried_in
        if not self.has_group(resource.group) or self.is_awaited(kinds.DEPLOYMENT):
            raise CannotTell("it was not tried")
        metadata = {"name": _TRIED, "namespace": place}
        document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
        found = self._told(Query(Verb.TRY, resource, place, _TRIED, fields=msgspec.json.encode(document).decode()))
        return Probe(**found[0]) if found else Probe(201)

    @property
    def account(self) -> str:
        """Namespace and name of the manager's service account; empty without a manager."""
        found = next(iter(self.managers), None)
        account = dig(found, "spec.template.spec.serviceAccountName") or "default"
        return f"{namespace_of(found)}/{account}" if found is not None else ""

    @property
    def denied(self) -> list[tuple[Rule, str]]:
        """The rights on jobs that the manager's service account lacks: each rule with one verb, and one of its names.

        A manager of one namespace needs its rights on jobs there, and those without a namespace everywhere.
        """
        return [one for place in dict.fromkeys(("", self.only)) for one in self._lacking.get(place, ())]

    @property
    def denied_in(self) -> Mapping[str, Sequence[tuple[Rule, str]]]:
        """Those that it lacks in other namespaces, such as its own, by namespace."""
        return {place: lacking for place, lacking in self._lacking.items() if place not in ("", self.only)}

    @cached_property
    def _lacking(self) -> dict[str, list[tuple[Rule, str]]]:
        if not self.is_trainwright:
            return {}
        self.if_read("configuration")
        if self.is_awaited(kinds.DEPLOYMENT, kinds.CONFIG_MAP):
            return {}
        try:
            asked = [
                (place, replace(rule, names=(name,) if name else ()), verb)
                for place, rules in self._needed(self)
                for rule in rules
                for verb in rule.verbs
                for name in rule.names or ("",)
            ]
        except KubernetesError as error:
            raise CannotTell(str(error)) from error
        queries = [self._right(rule, verb, place) for place, rule, verb in asked]
        for query in queries:
            self.ask(query)
        lacking: dict[str, list[tuple[Rule, str]]] = {}
        for (place, rule, verb), query in zip(asked, queries, strict=True):
            if any(not one["allowed"] for one in self._told(query)):
                lacking.setdefault(place, []).append((rule, verb))
        return lacking

    def _right(self, rule: Rule, verb: str, place: str) -> Query:
        resource = Resource(group=rule.group, version="", kind="", plural=rule.resource, namespaced=rule.namespaced)
        name = rule.names[0] if rule.names else ""
        return Query(Verb.MAY, resource, place if rule.namespaced else "", name, fields=f"{self.account},{verb}")


def groups_of(hooks: Iterable[Document]) -> set[str]:
    return {group for hook in hooks for rule in hook.get("rules") or () for group in rule.get("apiGroups") or ()}


def services_of(configuration: Document) -> list[tuple[str, str]]:
    """Namespace and name of each Service that a webhook configuration leads to."""
    services = [dig(hook, "clientConfig.service") for hook in configuration.get("webhooks") or ()]
    return [(one["namespace"], one.get("name", "")) for one in services if one and one.get("namespace")]


def _homes(configurations: Iterable[Document]) -> list[str]:
    return [namespace for one in configurations for namespace, _ in services_of(one)]


def containers_of(deployment: Document) -> Iterable[Document]:
    found: Iterable[Document] = dig(deployment, "spec.template.spec.containers") or ()
    return found
