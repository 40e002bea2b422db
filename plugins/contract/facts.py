# SPDX-License-Identifier: Apache-2.0
"""What a plugin declares as plain data, the facts about the cluster that it gets, and the objects that it gives.

The TrainJob controller turns watches into sources; the RBAC compiler turns rules into the shipped role. A plugin never
reads from the API server: it announces which objects it needs (`UsesFacts`), the controller looks them up in its cache
before the pipeline runs, and the plugin finds them here. So the pipeline is a function of its inputs, and admission,
reconcile, `render` and tests can all run it.

A component is a server-side-apply document in wire form: a plain dictionary with apiVersion, kind, metadata (name,
namespace, the TrainJob as controller) and the fields that the plugin owns. It is a dictionary and not a model because
it holds part of an object only, and is compared, printed and sent as it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, NamedTuple, TypeVar

import msgspec

from trainwright.api.base import Object, Resource
from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.objects import AnyObject, Document, owner_reference
from trainwright.api.rights import APPLY, READ, WATCH, Rule
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract.errors import FactUnavailable


class Enqueue(Enum):
    """Which TrainJobs an event of a watched object wakes."""

    OWNER = "owner"
    """The TrainJob that controls the object."""
    SUSPENDED_IN_NAMESPACE = "suspended-in-namespace"
    """Every suspended TrainJob of the object's namespace."""
    SUSPENDED_OF_RUNTIME_CLASS = "suspended-of-runtime-class"
    """Every suspended TrainJob whose runtime has a replicated job with this object as its runtime class."""
    UNFINISHED = "unfinished"
    """Every TrainJob that is not Complete or Failed, spread over up to a minute: for changes that concern all jobs."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind that a plugin makes or looks at: what changes of its objects wakes TrainJobs.

    Two plugins may declare the same watch; it is opened once. Its rights follow: to list and watch the kind, and what
    `makes` and `deletes` say. What a plugin needs beside that, such as single reads, is in its `rules`.
    """

    resource: Resource
    enqueue: Enqueue = Enqueue.OWNER
    metadata_only: bool = False
    """Cache only the metadata of the objects, without their content."""
    optional: bool = False
    """Start without the watch when the cluster does not serve the kind."""
    makes: bool = field(default=False, compare=False)
    """The plugin builds objects of the kind, so the manager may apply them."""
    deletes: bool = field(default=False, compare=False)
    """The manager may delete them."""
    only_with: Resource | None = None
    """Start without the watch when the cluster does not serve this other kind, which the plugin watches as optional."""
    model: type[Object] | None = None
    """The model to decode objects as; None keeps dictionaries. A model decodes faster and takes less memory, which
    matters for a kind whose content every job reads."""
    remedy: str = ""
    """What to do when the cluster does not serve the kind, such as where to install it from."""
    name: str = ""
    """Watch the object of this name in `namespace` only; empty: all objects of the kind. Its content is cached, however
    the kind is watched otherwise. For `Enqueue.UNFINISHED` only."""
    namespace: str = ""
    """Namespace of the object with that name."""
    counters: tuple[str, ...] = ()
    """Attributes of `model`'s status that only count. A change of these alone decides nothing about a TrainJob: it may
    wait a moment for the next one."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rights that follow; none for a single object, whose namespace has a role of its own."""
        if self.name:
            return ()
        # The content of an object of which only the metadata is cached is read before it is applied.
        reads = READ if self.makes and self.metadata_only else WATCH
        return (Rule.on(self.resource, *reads, *(APPLY if self.makes else ()), *(("delete",) if self.deletes else ())),)

    def __post_init__(self) -> None:
        """Raises ValueError for a combination that does not exist."""
        if self.name and (self.enqueue is not Enqueue.UNFINISHED or self.metadata_only):
            raise ValueError(
                f"watch of {self.resource.kind} {self.name}: use Enqueue.UNFINISHED, without metadata_only"
            )
        if self.counters and (self.model is None or self.metadata_only or self.enqueue is not Enqueue.OWNER):
            raise ValueError(f"watch of {self.resource.kind}: counters need a model, and Enqueue.OWNER")


T = TypeVar("T", bound=Object)


class Reference(NamedTuple):
    """One object of the cluster, whether it exists or not."""

    resource: Resource
    namespace: str
    """Empty for kinds without namespaces."""
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.resource.kind} {where}{self.name}"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for an object whose read failed with another error than 404."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryFacts:
    """What the manager knows of the attempts of a job that recovers, for its next JobSet or resume."""

    attempts: int = 0
    """Attempts before it."""
    held: bool = False
    """Whether it is held back for now."""
    retries: int | None = None
    """Restarts that its JobSet has left; None: as many as the job declares."""
    avoided_nodes: tuple[str, ...] = ()
    """Names of nodes that its pods avoid."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The announced objects: each is the object, None if it does not exist, or Unreadable if the read failed."""

    objects: Mapping[Reference, AnyObject | Unreadable | None] = field(default_factory=dict)
    offline: bool = False
    """There is no cluster: every object counts as absent, and no job is refused because one is."""
    preview: bool = False
    """The objects are built to be shown, not applied, by a user who may not read all that the manager may."""
    recovery: RecoveryFacts | None = None
    """What is known of earlier attempts of the job; None: nothing, as for a new job."""

    def find(self, reference: Reference) -> AnyObject | None:
        """The object as the cache has it (a model, metadata only, or a dictionary); None if it does not exist.

        Raises FactUnavailable when the read failed, or when no plugin announced the reference.
        """
        if self.offline:
            return None
        try:
            found = self.objects[reference]
        except KeyError:
            raise FactUnavailable(f"{reference} was not announced by uses_facts, so it was not read") from None
        if isinstance(found, Unreadable):
            raise FactUnavailable(f"{reference} cannot be read: {found.message}")
        return found

    def exists(self, reference: Reference) -> bool:
        """Whether the object exists. Raises like `find`."""
        return self.find(reference) is not None

    def get(self, reference: Reference, model: type[T]) -> T | None:
        """The object as a model, decoded if the cache holds a dictionary. Raises like `find`."""
        found = self.find(reference)
        if found is None or isinstance(found, model):
            return found
        return msgspec.convert(msgspec.to_builtins(found), model)


OFFLINE = ClusterFacts(offline=True)
"""For `render` and for tests that need no facts."""


@dataclass(frozen=True, slots=True)
class Installation:
    """How pods reach the servers of the manager. The defaults are those of an installation as shipped.

    A plugin that declares `uses_installation = True` gets it in its constructor.
    """

    host: str = "kubeflow-trainer-controller-manager.kubeflow-system.svc"
    """Host name of the status server: that of the Service, or of this process where it runs outside of a cluster."""
    port: int = 10443
    """Port of the status server, at `host`."""
    namespace: str = "kubeflow-system"
    """Namespace of the manager."""
    secret: str = "kubeflow-trainer-webhook-cert"  # noqa: S105 - the name of a Secret
    """The Secret in `namespace` whose `ca.crt` verifies the certificate of the servers."""
    authority: str = ""
    """The CA certificates (PEM) of a process that makes its own; empty: they are in the Secret."""


PLACEHOLDER = "Z2VuZXJhdGVkIHdoZW4gdGhlIFNlY3JldCBpcyBjcmVhdGVk"
"""Stands for generated key material in the data of a Secret. Decoded from base64, it is a sentence that says so."""


@dataclass(frozen=True, slots=True, order=True)
class GeneratedSecret:
    """The Secrets that a plugin makes: one for each job that needs it, created once and never read or changed.

    A plugin lists them in its attribute `secrets`. The manager may create Secrets and do nothing else with them, and an
    admission policy lets it create only those that plugins list.
    """

    type: str
    """As the field `type` of the Secret."""
    suffix: str
    """Its name is that of the job and this."""

    def name(self, job: TrainJob) -> str:
        return job.name + self.suffix

    def component(
        self, job: TrainJob, content: Mapping[str, Any], generate: Callable[[Document], Document]
    ) -> "Component":
        """The object. The data in `content` has PLACEHOLDER where `generate` puts what it makes."""
        whole = {"type": self.type, **content}
        return Component.owned_by(job, Secret.RESOURCE, self.name(job), whole, stage=Stage.POD_INPUT, generate=generate)


class Stage(IntEnum):
    """When an object is applied, among those of one job: what pods need comes before the pods."""

    POD_INPUT = 0
    """Pods do not start without it: a ConfigMap or a Secret that they mount."""
    POD_GROUP = 1
    """A gang scheduler needs it before the first pod: a PodGroup."""
    OTHER = 2
    """Everything else."""
    WORKLOAD = 3
    """It creates the pods: a JobSet."""


@dataclass(frozen=True, slots=True)
class Component:
    """One object to apply."""

    resource: Resource
    """The kind of the document, as the plugin's watch declares it."""
    document: Document
    stage: Stage = Stage.OTHER
    plugin: str = ""
    """The plugin that built it; filled in by the pipeline."""
    generate: Callable[[Document], Document] | None = None
    """Set for objects with generated content: they are created if absent and never applied again. The function is
    called once, in a thread, with the document, and returns the document to create with every placeholder replaced."""
    fallback: Document | None = None
    """Applied to an existing object if the API server refuses `document`: the same object, with changes only in fields
    that may still change."""
    replaces: bool = False
    """The stored object cannot become this one. It is deleted with its pods, and this one is made once it is gone."""
    settled: bool = False
    """A build that sees this object as it was created gives the same objects. So the job is not built again when the
    object appears among the facts that its plugin alone has asked for."""

    @classmethod
    def owned_by(
        cls,
        job: TrainJob,
        resource: Resource,
        name: str,
        content: Mapping[str, Any],
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        stage: Stage = Stage.OTHER,
        generate: Callable[[Document], Document] | None = None,
    ) -> "Component":
        """An object in the job's namespace that goes away with the job.

        `content` is all of it but apiVersion, kind and metadata, in wire form: `{"data": {...}}`.
        """
        metadata = owned_metadata(job, name)
        for key, marks in (("labels", labels), ("annotations", annotations)):
            if marks:
                metadata[key] = dict(marks)
        document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}
        return cls(resource, document, stage=stage, generate=generate)

    @property
    def reference(self) -> Reference:
        metadata = self.document["metadata"]
        return Reference(self.resource, metadata.get("namespace", ""), metadata["name"])

    @property
    def order(self) -> tuple[int, str, str, str]:
        """Position in the output: by stage, then by kind and name."""
        return (self.stage, self.resource.kind, self.resource.api_version, self.document["metadata"]["name"])


def owned_metadata(job: TrainJob, name: str) -> Document:
    """Metadata of an object of this job. The uid of the reference is empty if the job was never stored."""
    metadata: Document = {"name": name}
    if job.namespace:
        metadata["namespace"] = job.namespace
    metadata["ownerReferences"] = [owner_reference(job, job.RESOURCE)]
    return metadata
