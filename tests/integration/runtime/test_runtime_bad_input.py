# SPDX-License-Identifier: Apache-2.0
"""Errors on a real cluster: one clear message each, without effect on the rest."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.runtime.conftest import quiet_manager
from trainwright.api.base import Resource
from trainwright.api.kubernetes.core.v1 import ConfigMap, Secret
from trainwright.controller.runtime import ClusterConfig, Done, Key, Manager, Result, load_config
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.objects import config_map
from trainwright.controller.runtime.testing.waiting import contains, eventually

WIDGET = Resource(group="late.runtime.test", version="v1", kind="Widget", plural="widgets", namespaced=True)


def crd(folder: Path) -> Path:
    schema = {"openAPIV3Schema": {"type": "object"}}
    document = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.late.runtime.test"},
        "spec": {
            "group": WIDGET.group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    path = folder / "crd.json"
    path.write_text(json.dumps(document))
    return path


async def ended(manager: Manager, task: "asyncio.Task[None]") -> None:
    manager.stop()
    await asyncio.wait({task})
    task.exception()


async def test_a_missing_crd_is_waited_for_while_others_work(
    control_plane: ControlPlane, config: ClusterConfig, namespace: str, tmp_path: Path
) -> None:
    manager = quiet_manager(config)
    seen: list[str] = []

    async def reconcile(key: Key) -> Result:
        seen.append(key.name)
        return Done()

    widgets = manager.controller().for_(WIDGET, namespace=namespace).reconcile(reconcile)
    manager.controller().for_(ConfigMap, namespace=namespace).reconcile(reconcile)
    task = asyncio.ensure_future(manager.run())
    await manager.client.create(config_map("works", namespace), kind=ConfigMap.RESOURCE)
    await eventually(lambda: seen, contains("works"))

    def missing() -> str:
        (kind,) = widgets.statistics().waiting_for
        return kind

    # The lists of the two kinds are answered in any order.
    told = await eventually(missing, lambda found: "404" in found or "could not find" in found)
    assert "widgets" in told
    assert not manager.ready
    await asyncio.to_thread(control_plane.install_crds, crd(tmp_path))
    await manager.client.create({"metadata": {"name": "w", "namespace": namespace}}, kind=WIDGET)
    await eventually(lambda: seen, contains("w"))
    await eventually(lambda: manager.ready)
    await ended(manager, task)


async def test_a_missing_permission_is_named(control_plane: ControlPlane, namespace: str) -> None:
    config = load_config(control_plane.add_user("limited", groups=[]))
    manager = quiet_manager(config)

    async def reconcile(key: Key) -> Result:
        return Done()

    manager.controller("limited").for_(Secret, namespace=namespace).reconcile(reconcile, sync_timeout=5.0)
    with pytest.raises(TimeoutError, match=r'"limited" cannot (list|watch) resource "secrets"') as caught:
        await manager.run()
    assert "controller limited: no first list after 5 s of secrets" in str(caught.value)


async def test_an_unreachable_server_is_named(config: ClusterConfig) -> None:
    manager = quiet_manager(replace(config, server="https://127.0.0.1:1"))

    async def reconcile(key: Key) -> Result:
        return Done()

    manager.controller("lost").for_(Secret).reconcile(reconcile, sync_timeout=0.5)
    with pytest.raises(TimeoutError, match=r"secrets .*cannot connect to 127\.0\.0\.1:1"):
        await manager.run()


async def test_an_expired_token_is_named_and_a_new_one_is_taken_up(
    config: ClusterConfig, namespace: str, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("expired")
    manager = quiet_manager(replace(config, token=None, token_file=str(token)))
    seen: list[str] = []

    async def reconcile(key: Key) -> Result:
        seen.append(key.name)
        return Done()

    controller = manager.controller("late").for_(ConfigMap, namespace=namespace).reconcile(reconcile)
    task = asyncio.ensure_future(manager.run())
    await eventually(lambda: "".join(controller.statistics().waiting_for), contains("Unauthorized"))
    assert controller.statistics().waiting_for[0].startswith("configmaps")
    assert not manager.ready
    token.write_text(config.token or "")
    await manager.client.create(config_map("a", namespace), kind=ConfigMap.RESOURCE)
    await eventually(lambda: seen, contains("a"))
    await eventually(lambda: manager.ready)
    await ended(manager, task)


async def test_a_reconciler_that_raises_hangs_or_babbles_holds_up_nobody(
    config: ClusterConfig, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    manager = quiet_manager(config)
    calls: dict[str, int] = {}

    async def reconcile(key: Key) -> Any:
        calls[key.name] = calls.get(key.name, 0) + 1
        if key.name == "raises":
            raise ValueError("cannot divide")
        if key.name == "hangs":
            await asyncio.Event().wait()
        return "ok" if key.name == "babbles" else Done()

    manager.controller("odd").for_(ConfigMap, namespace=namespace).reconcile(reconcile, workers=4, timeout=0.3)
    task = asyncio.ensure_future(manager.run())
    for name in ("raises", "hangs", "babbles", "fine"):
        await manager.client.create(config_map(name, namespace), kind=ConfigMap.RESOURCE)
    await eventually(
        lambda: calls,
        lambda seen: seen.get("fine") and all(seen.get(n, 0) >= 2 for n in ("raises", "hangs", "babbles")),
    )
    assert calls["fine"] == 1
    for message in ("cannot divide", "the reconcile was cancelled after 0.3 s", "reconcile returned 'ok'; return Done"):
        assert message in caplog.text
    await ended(manager, task)
