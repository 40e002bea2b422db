# SPDX-License-Identifier: Apache-2.0
"""The parts that a Configuration turns on.

The manager and the roles both iterate over `parts_of`, so a new capability is one `Part` in the `PARTS` of its group:
`jobs`, `evidence`, `progress` or `searches`. The roles are made from the rights of parts and plugins alone.
"""

import inspect

from trainwright.api.rights import merged
from trainwright.controller.trainer.assembly import jobs
from trainwright.controller.trainer.assembly.features import EXPLAIN, OPTIMIZATION_JOB, RECOVERY
from trainwright.controller.trainer.assembly.part import Assembly, Grants, Part, Rights
from trainwright.controller.trainer.assembly.settings import ManagerSettings
from trainwright.plugins.registry import Registry


def parts_of(settings: ManagerSettings) -> list[Part]:
    """The parts that are on, in the order in which they are declared."""
    # Imported where they are on, because they cost memory.
    found: list[Part] = []
    if OPTIMIZATION_JOB in settings.features:
        from trainwright.controller.trainer.assembly import searches  # noqa: PLC0415

        found += searches.PARTS
    found += jobs.PARTS
    if settings.features & {EXPLAIN, RECOVERY}:
        from trainwright.controller.trainer.assembly import evidence  # noqa: PLC0415

        found += evidence.PARTS
    if settings.takes_progress:
        from trainwright.controller.trainer.assembly import progress  # noqa: PLC0415

        found += progress.PARTS
    return [part for part in (*found, jobs.PROCESS) if part.is_on(settings)]


async def declare_parts(assembly: Assembly) -> None:
    for part in parts_of(assembly.settings):
        declared = part.declare(assembly)
        if inspect.isawaitable(declared):
            await declared


def rights(settings: ManagerSettings, registry: Registry, namespace: str) -> Rights:
    """The rights of a manager that runs in this namespace, with the plugins that its Configuration enables."""
    grants = Grants(settings, registry, namespace)
    on_jobs = merged(rule for part in parts_of(settings) for rule in part.rights(grants))
    return Rights(on_jobs, grants.by_namespace)
