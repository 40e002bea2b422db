# SPDX-License-Identifier: Apache-2.0
"""Laying the TrainJob's resources over those of a container."""

from trainwright.api.kubernetes.core.v1 import ResourceRequirements


def merge_resources(base: ResourceRequirements | None, over: ResourceRequirements) -> ResourceRequirements:
    """Limits and requests per resource, the second one's amounts winning.

    Claims of either side are left out: the containers of existing jobs have none, and a JobSet cannot be changed.
    """
    return ResourceRequirements(
        limits=_merged(base.limits if base is not None else None, over.limits),
        requests=_merged(base.requests if base is not None else None, over.requests),
    )


def _merged(
    base: dict[str, int | float | str] | None, over: dict[str, int | float | str] | None
) -> dict[str, int | float | str] | None:
    merged = {**(base or {}), **(over or {})}
    return merged or None
