# SPDX-License-Identifier: Apache-2.0
"""Probes and lifecycle hooks of containers, in the statuses and events of pods."""

from pathlib import Path
from typing import Any

from tests.integration.local.node.conftest import POD, Document, Pods, container, python
from trainwright.api.kubernetes.events.v1 import Event
from trainwright.controller.local.node.node import LocalNode
from trainwright.controller.runtime.testing.waiting import contains, equals, eventually, is_empty

FOREVER = "import time; time.sleep(600)"
GRACE = {"terminationGracePeriodSeconds": 600}


def main(code: str, **more: Any) -> list[Document]:
    """The container of a pod."""
    return [{"name": "main", "image": "python", "command": [*python(code)], **more}]


def asks(command: str) -> Document:
    """A probe that runs a shell command each second."""
    return {"exec": {"command": ["sh", "-c", command]}, "periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 30}


async def flags_of(pods: Pods, name: str) -> tuple[bool, bool]:
    """Whether the container is started, and ready."""
    found = container(await pods.get(name))
    return found.get("started", False), found.get("ready", False)


async def notes(pods: Pods, name: str) -> list[str]:
    """Reason and note of the events about a pod."""
    listed = await pods.client.list(Event.RESOURCE, pods.namespace)
    return [f"{one['reason']}: {one['note']}" for one in listed.items if one["regarding"]["name"] == name]


async def test_a_container_whose_probe_fails_is_started_again(pods: Pods, node: LocalNode, tmp_path: Path) -> None:
    """With the grace of the probe, not that of the pod: it ignores SIGTERM."""
    deaf = "import pathlib, signal; signal.signal(15, signal.SIG_IGN)"
    code = f"{deaf}; pathlib.Path('{tmp_path}/alive').touch(); {FOREVER}"
    probe = asks(f"test -e {tmp_path}/alive") | {"terminationGracePeriodSeconds": 1, "failureThreshold": 3}
    await pods.create("dying", containers=main(code, livenessProbe=probe), restartPolicy="Always", **GRACE)
    await eventually((tmp_path / "alive").exists, equals(True))
    (tmp_path / "alive").unlink()
    pod = await eventually(
        lambda: pods.get("dying"), lambda one: "terminated" in container(one).get("lastState", {}), seconds=60
    )
    assert container(pod)["restartCount"] == 1
    assert container(pod)["lastState"]["terminated"]["exitCode"] == 137
    await eventually(
        lambda: notes(pods, "dying"), contains("Killing: Container main failed liveness probe, will be restarted")
    )
    assert any(one.startswith("Unhealthy: Liveness probe failed") for one in await notes(pods, "dying"))
    await pods.client.delete(POD, "dying", pods.namespace, grace_period=0)
    await eventually(node.pods, is_empty)  # a node that ends first would wait for its grace


async def test_hooks_run_after_the_start_and_before_the_end(pods: Pods, tmp_path: Path) -> None:
    code = f"""
import pathlib, signal, time
def end(*_):
    raise SystemExit(0 if pathlib.Path('{tmp_path}/before').exists() else 9)
signal.signal(signal.SIGTERM, end)
pathlib.Path('{tmp_path}/running').touch()
while True:
    time.sleep(0.05)
"""
    shell = {name: {"exec": {"command": ["touch", f"{tmp_path}/{name}"]}} for name in ("after", "before")}
    hooks = {"lifecycle": {"postStart": shell["after"], "preStop": shell["before"]}}
    await pods.create("hooked", containers=main(code, **hooks), terminationGracePeriodSeconds=30)
    await eventually(lambda: (tmp_path / "after").exists() and (tmp_path / "running").exists())
    await eventually(lambda: flags_of(pods, "hooked"), equals((True, True)))
    assert not (tmp_path / "before").exists()
    # Held by a finalizer, so that its end can be seen.
    held = {"metadata": {"finalizers": ["example.com/seen"]}}
    await pods.client.patch(POD, "hooked", pods.namespace, held)
    await pods.client.delete(POD, "hooked", pods.namespace)
    pod = await pods.reach("hooked", "Succeeded", seconds=60)
    assert container(pod)["state"]["terminated"]["exitCode"] == 0
    await pods.client.patch(POD, "hooked", pods.namespace, {"metadata": {"finalizers": None}})
    await pods.gone("hooked")
