# SPDX-License-Identifier: Apache-2.0
"""Facts about the cluster: objects that are looked up before the pipeline runs and do not change while it runs.

A plugin never reads from the API server. It announces which objects it needs (`UsesFacts`), the controller looks them
up in its cache, and the plugin finds them here. So the pipeline is a function of its inputs, and admission, reconcile,
`render` and tests can all run it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import msgspec

from trainwright.api.base import Object, Resource
from trainwright.api.objects import AnyObject, controller_of, uid_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract.errors import FactUnavailable

T = TypeVar("T", bound=Object)

_TRAIN_JOB = (TrainJob.RESOURCE.kind, TrainJob.RESOURCE.group)


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


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The announced objects: each is the object, None if it does not exist, or Unreadable if the read failed."""

    objects: Mapping[Reference, AnyObject | Unreadable | None] = field(default_factory=dict)
    offline: bool = False
    """There is no cluster: every object counts as absent, and no job is refused because one is."""
    preview: bool = False
    """The objects are built to be shown, not applied, by a user who may not read all that the manager may."""

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

    def can_be_used(self, reference: Reference, job: TrainJob) -> bool:
        """Whether the job can use the object: it exists, and does not go away with an earlier TrainJob of that name.

        Raises like `find`.
        """
        found = self.find(reference)
        if found is None:
            return False
        controller = controller_of(found)
        return controller is None or (controller.kind, controller.group) != _TRAIN_JOB or controller.uid == uid_of(job)

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
