# SPDX-License-Identifier: Apache-2.0
"""A bound on the number of managers that update one object: the oldest melt into one entry per version."""

from trainwright.controller.local.apiserver.merge.apply import fieldset
from trainwright.controller.local.apiserver.merge.apply.owners import UPDATE, Managed, ManagerIdentity, seconds_of

MAXIMUM = 10
BUCKET = "ancient-changes"


def cap(managed: Managed) -> None:
    """Merge the oldest entries of updates until there are at most ten; entries of applies do not count.

    The oldest entry of a version becomes the bucket when the second oldest is merged into it. As in Kubernetes, an
    existing bucket that is not the oldest entry of its version is dropped together with its fields.
    """
    owners, times = managed.owners, managed.times
    updaters = [manager for manager, owned in owners.items() if not owned.applied]
    left = len(updaters)
    if left <= MAXIMUM:
        return
    updaters.sort(key=lambda manager: (seconds_of(times.get(manager)), manager.identifier))
    oldest: dict[str, ManagerIdentity] = {}
    for manager in updaters:
        if left <= MAXIMUM:
            break
        owned = owners[manager]
        first = oldest.setdefault(owned.version, manager)
        if first == manager:
            continue
        bucket = ManagerIdentity(BUCKET, UPDATE, owned.version)
        if bucket not in owners:
            owners[bucket] = owners.pop(first)
        owners[bucket] = owned.with_fields(fieldset.union(owned.fields, owners[bucket].fields))
        del owners[manager]
        left -= 1
        if (moment := times.get(manager)) is not None:
            times[bucket] = moment
        else:
            times.pop(bucket, None)
