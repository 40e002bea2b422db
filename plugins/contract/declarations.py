# SPDX-License-Identifier: Apache-2.0
"""What a plugin declares as plain data: the rights that it needs, and the objects whose changes wake TrainJobs.

The TrainJob controller turns watches into sources; the RBAC compiler turns rules into the shipped role.
"""

from dataclasses import dataclass
from enum import Enum

from trainwright.api.base import Object, Resource
from trainwright.api.rights import APPLY, READ, WATCH, Rule

__all__ = ["APPLY", "READ", "WATCH", "Enqueue", "Rule", "Watch"]


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
    """Events of one kind that wake TrainJobs. Two plugins may declare the same watch; it is opened once."""

    resource: Resource
    enqueue: Enqueue = Enqueue.OWNER
    metadata_only: bool = False
    """Cache only the metadata of the objects, without their content."""
    optional: bool = False
    """Start without the watch when the cluster does not serve the kind."""
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

    def __post_init__(self) -> None:
        """Raises ValueError for a combination that does not exist."""
        if self.name and (self.enqueue is not Enqueue.UNFINISHED or self.metadata_only):
            raise ValueError(
                f"watch of {self.resource.kind} {self.name}: use Enqueue.UNFINISHED, without metadata_only"
            )
        if self.counters and (self.model is None or self.metadata_only or self.enqueue is not Enqueue.OWNER):
            raise ValueError(f"watch of {self.resource.kind}: counters need a model, and Enqueue.OWNER")
