# SPDX-License-Identifier: Apache-2.0
"""Progress files under the real controllers, installed with the overlay.

The manager has the rights of its role, and the admission policy fences them. A node of ours runs the pods as processes.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.installation import CONFIG, forbidden, install
from tests.program_versions import WEBSOCKETS_TO_NODES
from tests.served_node import served_node
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.runtime import load_config
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.programs import Authority
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.plugins.testing import replicated_job, runtime_document

PROGRAM = """
import json, os, time
path = os.environ["TRAINWRIGHT_PROGRESS_FILE"]
with open(path + ".new", "w") as file:
    json.dump({"progressPercentage": 40, "step": 4, "totalSteps": 10}, file)
os.replace(path + ".new", path)
while not os.path.exists(os.path.dirname(path) + "/go"):
    time.sleep(0.05)
with open(os.environ["TRAINWRIGHT_PROGRESS_FINAL"], "w") as file:
    file.write('{"progressPercentage": 100}')
"""
API = "trainer.kubeflow.org/v1alpha1"

pytestmark = [
    pytest.mark.parity,
    pytest.mark.only_where(WEBSOCKETS_TO_NODES, "the node of this test speaks websockets, and not SPDY"),
]


def documents() -> list[dict[str, Any]]:
    """A runtime whose pods go to our node, and a job of it."""
    container = {"name": "node", "image": "python", "command": [sys.executable, "-c", PROGRAM]}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    pod |= {"nodeSelector": {"kubernetes.io/hostname": "served"}}
    runtime = runtime_document("r", replicated_job(pod=pod))["spec"]
    marks = {"trainwright.dev/progress": "file"}
    job = {"runtimeRef": {"kind": "TrainingRuntime", "name": "r"}}
    return [
        {"apiVersion": API, "kind": "TrainingRuntime", "metadata": {"name": "r"}, "spec": runtime},
        {"apiVersion": API, "kind": "TrainJob", "metadata": {"name": "j", "annotations": marks}, "spec": job},
    ]


async def test_a_training_under_the_real_controllers(tmp_path: Path) -> None:
    """Scenarios 41, 53, 56 and 58 of the page on progress."""
    with ControlPlane.complete(crds=[CONFIG / "crd"], audit=True) as control_plane:
        await asyncio.to_thread(start_two, control_plane)
        namespace = control_plane.create_namespace()
        kubectl = Kubectl(control_plane, namespace)
        settings = NodeSettings(name="served", folder=tmp_path / "state")
        config = load_config(control_plane.kubeconfig)
        async with served_node(config, settings, Authority(tmp_path)) as kubelet:
            await kubectl.create(*documents())
            assert await eventually(kubectl.percentage, lambda found: found == 40, seconds=60) == 40
            # Nothing but the fence's commands was run, and KWOK, whose pods have no processes, left the pod alone.
            assert {command[0] for command in kubelet.commands} == {"tail"}
            assert kubelet.node.pods()
            # The other replica reads on. What the first one may ask for until it is dead is not counted.
            control_plane.stop_program("one", kill=True)
            read = len(kubelet.commands)
            await eventually(lambda: len(kubelet.commands) > read, seconds=90)
            pod = (await kubectl.get("pods"))["items"][0]["metadata"]["name"]
            await kubectl("exec", pod, "--", "touch", "/var/run/trainwright/go")
            assert await eventually(kubectl.percentage, lambda found: found == 100, seconds=60) == 100
            condition = await eventually(kubectl.ended, seconds=60)
            assert condition == "Complete"
        execs = [call for call in control_plane.audit_log.calls() if call.subresource == "exec"]
        assert execs
        assert forbidden(control_plane) == []


def start_two(control_plane: ControlPlane) -> None:
    """Two replicas, of which the first leads. What a dead leader held is soon free."""
    installation = install(control_plane, "overlays/progress-pull")
    election = {"leaderElect": True, "leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}
    installation.start("one", leaderElection=election)
    webhook = {"host": "127.0.0.1", "port": free_port()}
    installation.start("two", leaderElection=election, webhook=webhook)


class Kubectl:
    """kubectl in one namespace, beside what runs here."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self._control_plane = control_plane
        self._namespace = f"--namespace={namespace}"

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        return await asyncio.to_thread(self._control_plane.kubectl, self._namespace, *arguments, stdin=stdin)

    async def create(self, *made: dict[str, Any]) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": made}
        await self("create", "--filename=-", stdin=json.dumps(items))

    async def get(self, *what: str) -> Any:
        return json.loads(await self("get", *what, "--output=json"))

    async def percentage(self) -> int | None:
        status = (await self.get("trainjob", "j")).get("status") or {}
        found: int | None = (status.get("trainerStatus") or {}).get("progressPercentage")
        return found

    async def ended(self) -> str:
        """The condition that is True."""
        conditions = ((await self.get("trainjob", "j")).get("status") or {}).get("conditions") or ()
        return next((one["type"] for one in conditions if one["status"] == "True"), "")
