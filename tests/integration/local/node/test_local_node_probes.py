# SPDX-License-Identifier: Apache-2.0
"""Probes and lifecycle hooks of containers, in the statuses and events of pods."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.local.node.conftest import POD, Document, Pods, container, python, status
from tests.unit.local.node.modes import IN_ONE_MODE
from trainwright.api.kubernetes.events.v1 import Event
from trainwright.controller.runtime.testing.waiting import contains, equals, eventually

FOREVER = "import time; time.sleep(600)"


def main(code: str, **more: Any) -> list[Document]:
    """The container of a pod."""
    return [{"name": "main", "image": "python", "command": [*python(code)], **more}]


def asks(command: str) -> Document:
    """A probe that runs a shell command each second."""
    return {"exec": {"command": ["sh", "-c", command]}, "periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 30}


def conditions(pod: Document) -> dict[str, str]:
    return {one["type"]: one["status"] for one in status(pod).get("conditions") or ()}


async def flags_of(pods: Pods, name: str) -> tuple[bool, bool]:
    """Whether the container is started, and ready."""
    found = container(await pods.get(name))
    return found["started"], found["ready"]


async def notes(pods: Pods, name: str) -> list[str]:
    """Reason and note of the events about a pod."""
    listed = await pods.client.list(Event.RESOURCE, pods.namespace)
    return [f"{one['reason']}: {one['note']}" for one in listed.items if one["regarding"]["name"] == name]


async def test_a_container_is_started_and_ready_when_its_probes_say_so(pods: Pods, tmp_path: Path) -> None:
    probes = {
        "startupProbe": asks(f"test -e {tmp_path}/up") | {"failureThreshold": 1000},
        "readinessProbe": asks(f"test -e {tmp_path}/ready"),
    }
    await pods.create("probed", containers=main(FOREVER, **probes))
    pod = await pods.reach("probed", "Running")
    assert await flags_of(pods, "probed") == (False, False)
    assert conditions(pod)["Ready"] == "False"
    for file, flags in (("up", (True, False)), ("ready", (True, True))):
        (tmp_path / file).touch()
        await eventually(lambda: flags_of(pods, "probed"), equals(flags), seconds=60)
    pod = await pods.get("probed")
    assert conditions(pod)["Ready"] == "True"
    assert container(pod)["restartCount"] == 0
    await pods.client.delete(POD, "probed", pods.namespace, grace_period=0)


async def test_a_container_whose_probe_fails_is_started_again(pods: Pods, tmp_path: Path) -> None:
    code = f"import pathlib; pathlib.Path('{tmp_path}/alive').touch(); {FOREVER}"
    probe = asks(f"test -e {tmp_path}/alive") | {"terminationGracePeriodSeconds": 1, "failureThreshold": 3}
    await pods.create("dying", containers=main(code, livenessProbe=probe), restartPolicy="Always")
    await eventually((tmp_path / "alive").exists, equals(True))
    (tmp_path / "alive").unlink()
    pod = await eventually(
        lambda: pods.get("dying"), lambda one: "terminated" in container(one).get("lastState", {}), seconds=60
    )
    assert container(pod)["restartCount"] == 1
    assert container(pod)["lastState"]["terminated"]["exitCode"] == 143
    await eventually(
        lambda: notes(pods, "dying"), contains("Killing: Container main failed liveness probe, will be restarted")
    )
    assert any(one.startswith("Unhealthy: Liveness probe failed") for one in await notes(pods, "dying"))
    await pods.client.delete(POD, "dying", pods.namespace, grace_period=0)


@pytest.mark.parametrize(
    ("others", "note"),
    [([], "Stopping container main"), ([FOREVER], "Container main failed liveness probe")],
    ids=["alone", "beside another"],
)
async def test_a_container_whose_probe_fails_stays_down(pods: Pods, others: list[str], note: str) -> None:
    containers = main(FOREVER, livenessProbe=asks("false") | {"failureThreshold": 1, "initialDelaySeconds": 1})
    containers += [{**main(code)[0], "name": "other"} for code in others]
    await pods.create("stays", containers=containers, terminationGracePeriodSeconds=1)
    await eventually(lambda: notes(pods, "stays"), contains(f"Killing: {note}"), seconds=60)
    pod = await pods.get("stays")
    assert container(pod)["restartCount"] == 0
    await pods.client.delete(POD, "stays", pods.namespace, grace_period=0)


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


@IN_ONE_MODE
async def test_a_hook_that_fails_ends_the_container(pods: Pods) -> None:
    hooks = {"lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", "echo no; exit 1"]}}}}
    await pods.create("unhooked", containers=main(FOREVER, **hooks), terminationGracePeriodSeconds=1)
    pod = await pods.reach("unhooked", "Failed", seconds=60)
    assert container(pod)["state"]["terminated"]["exitCode"] == 143
    await eventually(lambda: notes(pods, "unhooked"), contains("FailedPostStartHook: PostStartHook failed: no"))
