# SPDX-License-Identifier: Apache-2.0
"""What a plugin declares about itself as plain data: the rights it needs and what it wants to be woken by.

The TrainJob controller turns watches into sources; the RBAC compiler turns rules into the shipped role.
"""

from dataclasses import dataclass
from enum import Enum

from trainwright.api.base import Resource
from trainwright.controller.runtime.rights import APPLY, READ, WATCH, Rule

__all__ = ["APPLY", "READ", "WATCH", "Enqueue", "Rule", "Watch"]


class Enqueue(Enum):
    """Which TrainJobs an event of a watched object wakes."""

    OWNER = "owner"
    """The TrainJob that controls the object."""
    SUSPENDED_IN_NAMESPACE = "suspended-in-namespace"
    """Every suspended TrainJob of the object's namespace."""
    SUSPENDED_OF_RUNTIME_CLASS = "suspended-of-runtime-class"
    """Every suspended TrainJob whose runtime has a replicated job with the object's name as runtimeClassName."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Events of one kind that wake TrainJobs. Two plugins may declare the same watch; it is opened once."""

    resource: Resource
    enqueue: Enqueue = Enqueue.OWNER
    metadata_only: bool = False
    """Only metadata is needed: the cache keeps no content."""
    optional: bool = False
    """Do without when the cluster does not serve the kind."""
    only_with: Resource | None = None
    """Do without when the cluster does not serve this other kind, which an optional watch of the plugin names."""
