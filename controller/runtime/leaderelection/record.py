# SPDX-License-Identifier: Apache-2.0
"""The content of a Lease: what is read from it and written to it.

Only the owned fields are written, as a merge patch, so labels and other additions on the Lease stay.
"""

import math
from dataclasses import dataclass
from datetime import datetime

from trainwright.api.kubernetes.coordination.v1 import Lease
from trainwright.api.objects import Document, resource_version_of
from trainwright.api.times import format_micro_time


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease as it was read. Two records are equal only if the Lease did not change in between."""

    version: str
    holder: str = ""
    """Empty: the lease is free."""
    seconds: float = 0.0
    """Lease duration of the holder."""
    acquired: str | None = None
    renewed: str | None = None
    transitions: int = 0


def record_of(lease: Lease) -> LeaseRecord:
    version, spec = resource_version_of(lease), lease.spec
    if spec is None:
        return LeaseRecord(version)
    return LeaseRecord(
        version,
        spec.holder_identity or "",
        float(spec.lease_duration_seconds or 0),
        spec.acquire_time,
        spec.renew_time,
        spec.lease_transitions or 0,
    )


def held_by(identity: str, now: datetime, lease: float, before: LeaseRecord | None) -> Document:
    """The `spec` of a Lease that `identity` takes or renews."""
    moment = format_micro_time(now)
    taken = before is None or before.holder != identity
    transitions = 0 if before is None else before.transitions + (1 if taken else 0)
    return {
        "holderIdentity": identity,
        "leaseDurationSeconds": math.ceil(lease),
        "acquireTime": moment if taken or before is None or not before.acquired else before.acquired,
        "renewTime": moment,
        "leaseTransitions": transitions,
    }


def released(now: datetime, before: LeaseRecord) -> Document:
    """The `spec` of a Lease that is released."""
    moment = format_micro_time(now)
    return {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": moment,
        "renewTime": moment,
        "leaseTransitions": before.transitions,
    }
