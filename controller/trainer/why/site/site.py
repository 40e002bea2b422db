# SPDX-License-Identifier: Apache-2.0
"""Everything that was read of an installation. What could not be read raises when a check asks for it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from trainwright.api.nodes import is_local
from trainwright.api.objects import Document, dig, name_of, namespace_of
from trainwright.api.rights import Rule
from trainwright.api.trainer.v1alpha1.runtimes import Runtime
from trainwright.plugins.contract import Verdict

T = TypeVar("T")

TRAINER_GROUP = "trainer.kubeflow.org"
JOBSET_GROUP = "jobset.x-k8s.io"
DEFAULT_HOME = "kubeflow-system"
"""Where the manager is installed unless somebody chooses another namespace."""
JOBSET_DEFINITION = f"jobsets.{JOBSET_GROUP}"


class CannotTell(Exception):  # noqa: N818 - it is no error of the check
    """A check needs something that could not be read; the text says what, and why."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Stands for what could not be read."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The answer to a dry run."""

    code: int
    """HTTP status; 201: it would be created."""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
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


@dataclass(slots=True, kw_only=True)
class Site:
    """One installation at one moment."""

    now: datetime
    """The time of the API server, or of this machine if it tells none."""
    skew: float | None = None
    """Seconds that the clock of this machine is ahead of the API server's."""
    version: str = ""
    """Of Kubernetes, such as v1.36.3; empty if the API server tells none."""
    groups: "Mapping[str, Sequence[str]] | Unread" = field(default_factory=dict)
    """Versions of each API group that is served."""
    definitions: "Mapping[str, Document] | Unread" = field(default_factory=dict)
    """CustomResourceDefinitions of Kubeflow Trainer and JobSet, by name."""
    shipped: Mapping[str, Document] = field(default_factory=dict)
    """The definitions of this version, by name."""
    leases: "Sequence[Document] | Unread" = ()
    """The Leases with the name of the manager's election, in all namespaces."""
    deployments: "Sequence[Document] | Unread" = ()
    webhooks: "Sequence[Document] | Unread" = ()
    """All webhook configurations that concern TrainJobs, runtimes or JobSets."""
    services: "Mapping[tuple[str, str], Document | None] | Unread" = field(default_factory=dict)
    """The Services that they name; None for one that does not exist."""
    jobset_probe: "Probe | Unread" = Unread("it was not tried")
    job_probe: "Probe | Unread" = Unread("it was not tried")
    """The answer to a TrainJob whose runtime does not exist: working webhooks refuse it."""
    tried_in: str = "default"
    """The namespace of the dry runs."""
    denied: "Sequence[tuple[Rule, str]] | Unread" = ()
    """The rights on jobs that the manager's service account lacks: each rule with one verb, and one of its names."""
    denied_in: Mapping[str, Sequence[tuple[Rule, str]]] = field(default_factory=dict)
    """Those that it lacks in other namespaces, such as its own, by namespace."""
    account: str = ""
    """Namespace and name of the manager's service account."""
    configuration: "Document | Unread | None" = None
    """The manager's Configuration; None if it has none."""
    rendered: "Sequence[Rendered] | Unread" = ()
    priority_classes: "Sequence[str] | Unread" = ()
    runtime_classes: "Sequence[str] | Unread" = ()
    nodes: "Sequence[Document] | Unread" = ()
    kueue_configuration: "str | Unread | None" = None
    """The text of Kueue's Configuration; None if there is none."""
    cluster_queues: "Sequence[Document] | Unread" = ()
    jobs: "Sequence[Document] | Unread" = ()
    quotas: "Sequence[Document] | Unread" = ()

    @property
    def is_trainwright(self) -> bool:
        """Whether the manager is Trainwright: its Deployment runs the command `manager`. Else Kubeflow Trainer's."""
        return any(
            "trainwright" in (container.get("image") or "") or "manager" in (container.get("args") or ())
            for deployment in self.managers
            for container in _containers(deployment)
        )

    @property
    def managers(self) -> list[Document]:
        """The Deployments of managers of TrainJobs."""
        found = []
        for one in self.known(self.deployments):
            labels = dig(one, "metadata.labels") or {}
            # Kubeflow Trainer's Helm chart gives the second name.
            is_trainer = labels.get("app.kubernetes.io/name") in {"trainer", "kubeflow-trainer"}
            if is_trainer and labels.get("app.kubernetes.io/component") == "manager":
                found.append(one)
        return found

    @property
    def only(self) -> str:
        """The only namespace whose TrainJobs are managed; empty for all, and if one manager alone cannot be seen."""
        if isinstance(self.deployments, Unread) or len(self.managers) != 1:
            return ""
        arguments = [str(one) for container in _containers(self.managers[0]) for one in container.get("args") or ()]
        return _option(arguments, "--namespace")

    @property
    def feature_gates(self) -> str:
        """The gates on the command line of the manager, which take precedence over those of its Configuration."""
        containers = _containers(self.managers[0]) if self.managers else ()
        return _option([str(one) for container in containers for one in container.get("args") or ()], "--feature-gates")

    @property
    def is_local(self) -> bool:
        """Whether the cluster is one of `trainwright local`, whose node is this machine."""
        if isinstance(self.nodes, Unread) or not self.nodes:
            return False
        return all(map(is_local, self.nodes))

    @property
    def home(self) -> str:
        """The namespace of the manager, by its Deployment, its webhooks' Service, or its Lease; empty: unknown."""
        if not isinstance(self.deployments, Unread) and self.managers:
            return namespace_of(self.managers[0])
        webhooks = () if isinstance(self.webhooks, Unread) else self.webhooks
        found = [name for one in webhooks if name_of(one).endswith(TRAINER_GROUP) for name in _namespaces(one)]
        found += [namespace_of(one) for one in (() if isinstance(self.leases, Unread) else self.leases)]
        return found[0] if found else ""

    @property
    def pods(self) -> str:
        """The command that shows the pods of the manager."""
        where = f"-n {self.home}" if self.home else "-A -l app.kubernetes.io/component=manager"
        return f"kubectl get pods {where}"

    @property
    def jobset_pods(self) -> str:
        """The command that shows the pods of JobSet's controller."""
        deployments = () if isinstance(self.deployments, Unread) else self.jobset_managers
        webhooks = () if isinstance(self.webhooks, Unread) else self.webhooks
        found = [namespace_of(one) for one in deployments]
        found += [name for one in webhooks if "jobset" in name_of(one) for name in _namespaces(one)]
        return f"kubectl get pods -n {found[0] if found else 'jobset-system'}"

    @property
    def jobset_managers(self) -> list[Document]:
        """The Deployments of JobSet's controller, by label or image."""
        return [
            one
            for one in self.known(self.deployments)
            if (dig(one, "metadata.labels") or {}).get("app.kubernetes.io/part-of") == "jobset"
            or any("/jobset:" in (container.get("image") or "") for container in _containers(one))
        ]

    def known(self, value: "T | Unread") -> T:
        """The value. Raises CannotTell if it could not be read."""
        if isinstance(value, Unread):
            raise CannotTell(value.why)
        return value

    def serves(self, group: str) -> bool:
        """Whether the cluster has the API group."""
        return group in self.known(self.groups)


def _option(arguments: Sequence[str], name: str) -> str:
    """The value of an option of a command line; empty without it. The last one counts, as for the command."""
    found = ""
    for option, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if option == name:
            found = following
        elif option.startswith(f"{name}="):
            found = option.partition("=")[2]
    return found


def _namespaces(configuration: Document) -> list[str]:
    """The namespaces of the Services that a webhook configuration leads to."""
    hooks = configuration.get("webhooks") or ()
    services = [dig(hook, "clientConfig.service") or {} for hook in hooks]
    return [service["namespace"] for service in services if service.get("namespace")]


def _containers(deployment: Document) -> Iterable[Document]:
    spec = dig(deployment, "spec.template.spec") or {}
    containers: Iterable[Document] = spec.get("containers") or ()
    return containers


def images_of(deployment: Document) -> list[str]:
    """The images of a Deployment."""
    return [container.get("image") or "" for container in _containers(deployment)]


def account_of(deployment: Document) -> tuple[str, str]:
    """Namespace and name of the service account of a Deployment."""
    spec = dig(deployment, "spec.template.spec") or {}
    return (dig(deployment, "metadata.namespace") or ""), spec.get("serviceAccountName") or "default"


def shown(objects: Iterable[Document]) -> str:
    """The names of objects."""
    return ", ".join(sorted(name_of(one) for one in objects))
