# SPDX-License-Identifier: Apache-2.0
"""The part that removes an obsolete finalizer from runtimes.

Earlier versions of Kubeflow Trainer set it to protect runtimes that are in use. Jobs have snapshots now, and no
controller removes the finalizer any more, so a runtime that still has it could not be deleted.
"""

import functools

from trainwright.api.objects import AnyObject, finalizers_of, resource_version_of
from trainwright.api.rights import WATCH, Rule
from trainwright.api.trainer.v1alpha1.constants import FINALIZER_RESOURCE_IN_USE
from trainwright.api.trainer.v1alpha1.runtimes import RUNTIMES, Runtime
from trainwright.controller.runtime import Done, Event, Key, Manager, Result
from trainwright.controller.trainer.assembly.parts import Assembly, Grants


def rights(grants: Grants) -> None:
    grants.on_jobs(*(Rule.on(runtime.RESOURCE, *WATCH, "patch") for runtime in RUNTIMES))


def declare(assembly: Assembly) -> None:
    manager = assembly.manager
    for kind in RUNTIMES:
        builder = manager.controller(f"{kind.RESOURCE.kind.lower()}_controller").for_(kind, predicates=[_has_it])
        builder.reconcile(functools.partial(_reconcile, manager, kind), workers=assembly.settings.workers_of(kind, 1))


async def _reconcile(manager: Manager, kind: type[Runtime], key: Key) -> Result:
    runtime: Runtime | None = manager.cache.get(kind, key.name, key.namespace)
    if runtime is not None and FINALIZER_RESOURCE_IN_USE in finalizers_of(runtime):
        kept = [name for name in finalizers_of(runtime) if name != FINALIZER_RESOURCE_IN_USE]
        # With the version, so that a finalizer that another client adds meanwhile is not lost.
        metadata = {"finalizers": kept, "resourceVersion": resource_version_of(runtime)}
        await manager.client.patch(kind, key.name, key.namespace, {"metadata": metadata}, type="merge")
    return Done()


def _has_it(event: Event[AnyObject]) -> bool:
    return event.new is not None and FINALIZER_RESOURCE_IN_USE in finalizers_of(event.new)
