# SPDX-License-Identifier: Apache-2.0
"""A manager that looks after one namespace, with the rights that it needs for that and no others."""

import asyncio

from tests.integration.trainer.conftest import User, conditions
from trainwright.api.config.v1alpha1 import Configuration, ControllerHealth
from trainwright.controller.cli.rbac import bindings, roles
from trainwright.controller.runtime import load_config
from trainwright.controller.runtime.manager.manager import ProcessSettings
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.trainer.assembly.manager import make_manager
from trainwright.controller.trainer.assembly.parts import rights
from trainwright.controller.trainer.assembly.settings import settings_of
from trainwright.plugins.registry import Registry


async def test_jobs_of_other_namespaces_are_left_alone(with_jobsets: ControlPlane, namespace: str) -> None:
    configuration = Configuration(health=ControllerHealth(health_probe_bind_address="0"))
    needed = rights(settings_of(configuration), Registry.load(), namespace)
    name = f"only-{namespace}"
    subject = {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    granted = [
        *roles(needed, namespace),
        *({**b, "subjects": [subject]} for b in bindings(needed, namespace, namespace)),
    ]
    for document in granted:
        if "Cluster" in document["kind"]:  # the same names in other tests
            document["metadata"]["name"] = name
        if document.get("roleRef", {}).get("kind") == "ClusterRole":
            document["roleRef"] = {**document["roleRef"], "name": name}
    with_jobsets.apply(*granted)

    elsewhere = with_jobsets.create_namespace()
    cluster = load_config(with_jobsets.add_user(name))
    manager = await make_manager(
        cluster,
        settings_of(configuration),
        user_agent="test",
        namespace=namespace,
        process=ProcessSettings(detect_mutation=True),
    )
    here, there = User(with_jobsets, namespace, manager), User(with_jobsets, elsewhere, manager)
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run(), name="manager")
        await manager.wait_ready()
        for user in (there, here):
            await user.runtime()
            await user.job("job", suspend=True)
        await here.until("trainjob", "job", lambda job: "Suspended" in conditions(job))
        # The condition may be older: it is also written while the manager has not heard of the runtime.
        await here.until("jobset", "job", bool)
        manager.stop()
    assert await there.get("jobset", "job") is None
    assert conditions(await there.get("trainjob", "job") or {}) == {}
