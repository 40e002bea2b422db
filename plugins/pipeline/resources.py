# SPDX-License-Identifier: Apache-2.0
"""Merges the TrainJob's resources into those of a container."""

from trainwright.api.kubernetes.core.v1 import ResourceRequirements


def merge_resources(base: ResourceRequirements | None, over: ResourceRequirements) -> ResourceRequirements:
    """Limits and requests, merged by resource; the amounts of `over` take precedence.

    Claims are left out, as in Kubeflow Trainer: the JobSets of existing jobs have none, and cannot be changed.
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
