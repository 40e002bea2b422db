# SPDX-License-Identifier: Apache-2.0
"""What a process sees of its pod's document: variables, volumes, names; in the order of its containers."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.local.node.conftest import POD, Pods, container, processes_of, python, status
from tests.unit.local.node.modes import IN_ONE_MODE
from trainwright.api.kubernetes.core.v1 import ConfigMap, Secret
from trainwright.api.objects import uid_of
from trainwright.controller.local.node import container as runs
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.testing.waiting import eventually, is_empty

Document = dict[str, Any]

DUMP = "import json,os,sys; json.dump([dict(os.environ), sys.argv, os.getcwd()], open('dump', 'w'))"


async def make(client: Client, kind: Any, name: str, namespace: str, **content: Any) -> None:
    metadata = {"name": name, "namespace": namespace}
    await client.create({"metadata": metadata, **content}, kind=kind.RESOURCE)


def work(settings: NodeSettings, pod: Document, name: str = "main") -> Path:
    return settings.pods / uid_of(pod) / "containers" / name / "work"


async def test_the_surroundings_of_a_process(pods: Pods, client: Client, settings: NodeSettings) -> None:
    await make(client, Secret, "keys", pods.namespace, stringData={"token": "s3cret"})
    main = {
        "name": "main",
        "image": "python",
        "command": ["python", "-c", DUMP, "$(POD)-$$(POD)"],
        "args": ["$(C_token)"],
        "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "envFrom": [{"prefix": "C_", "secretRef": {"name": "keys"}}],
    }
    made = await pods.create("variables", containers=[main])
    await pods.reach("variables", "Succeeded")
    environ, argv, folder = json.loads((work(settings, made) / "dump").read_text())
    assert argv[1:] == ["variables-$(POD)", "s3cret"]
    assert folder == str(work(settings, made))
    assert (environ["HOSTNAME"], environ["PYTHONUNBUFFERED"]) == ("variables", "1")
    assert environ["KUBERNETES_SERVICE_PORT"].isdigit()
    # Sockets of multiprocessing lie in it, and their paths are limited.
    assert len(environ["TMPDIR"]) < 60
    await eventually(Path(environ["TMPDIR"]).exists, is_empty)


@IN_ONE_MODE
async def test_a_missing_object_is_waited_for(pods: Pods, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    # The object itself ends the wait, and not the next try.
    monkeypatch.setattr(runs, "RETRY_SECONDS", 3600.0)
    reference = {"configMapRef": {"name": "late"}}
    main = {"name": "main", "image": "python", "command": list(python("pass")), "envFrom": [reference]}
    await pods.create("waits", containers=[main])
    pod = await eventually(lambda: pods.get("waits"), lambda pod: "waiting" in container(pod).get("state", {}))
    pod = await eventually(
        lambda: pods.get("waits"),
        lambda pod: container(pod)["state"]["waiting"]["reason"] == "CreateContainerConfigError",
    )
    assert container(pod)["state"]["waiting"]["message"] == 'configmap "late" not found'
    assert status(pod)["phase"] == "Pending"
    await make(client, ConfigMap, "late", pods.namespace, data={"a": "b"})
    await pods.reach("waits", "Succeeded")


@IN_ONE_MODE
async def test_an_image_without_a_command_says_what_to_add(pods: Pods) -> None:
    await pods.create("image", containers=[{"name": "main", "image": "docker.io/org/trainer:1"}])
    pod = await eventually(
        lambda: pods.get("image"),
        lambda pod: container(pod).get("state", {}).get("waiting", {}).get("reason") == "CreateContainerError",
    )
    assert '{image: "docker.io/org/trainer:1", command: [...]}' in container(pod)["state"]["waiting"]["message"]


async def test_volumes_are_at_their_paths(pods: Pods, client: Client, settings: NodeSettings, tmp_path: Path) -> None:
    """In commands, variables and the working folder; recordings show what they hold."""
    await make(client, ConfigMap, "files", pods.namespace, data={"a.txt": "one", "b.txt": "two"})
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "data").write_text("rows")
    volumes = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "files", "configMap": {"name": "files"}},
        {"name": "host", "hostPath": {"path": str(tmp_path / "host")}},
    ]
    main = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", "cat /etc/train/a.txt /datasets/data >$OUT/all; ls /etc/train >/workspace/names"],
        "workingDir": "/workspace/sub",
        "env": [{"name": "OUT", "value": "/workspace"}],
        "volumeMounts": [
            {"name": "scratch", "mountPath": "/workspace", "subPath": "run"},
            {"name": "files", "mountPath": "/etc/train/"},
            {"name": "host", "mountPath": "/datasets"},
        ],
    }
    made = await pods.create("volumes", volumes=volumes, containers=[main])
    await pods.reach("volumes", "Succeeded")
    folder = settings.pods / uid_of(made) / "volumes" / "scratch" / "run"
    assert (folder / "all").read_text() == "onerows"
    assert (folder / "names").read_text() == "a.txt\nb.txt\n"
    assert (folder / "sub").is_dir()


async def test_pods_of_a_job_find_each_other_by_name(pods: Pods) -> None:
    """As JobSet makes them: host name, subdomain and labels. The worker starts before its peer exists."""
    labels = {"jobset.sigs.k8s.io/jobset-name": "mnist", "jobset.sigs.k8s.io/replicatedjob-name": "node"}
    worker = (
        "import socket,sys,time\nwhile socket.socket().connect_ex((sys.argv[1], int(sys.argv[2]))): time.sleep(0.05)"
    )
    chief = "import socket,sys; s = socket.create_server(('', int(sys.argv[1]))); s.accept()"
    port = str(_free_port())
    address = f"mnist-node-0-0.mnist.{pods.namespace}.svc"
    for index, command in enumerate([["python", "-c", chief, port], ["python", "-c", worker, address, port]][::-1]):
        await pods.create(
            f"mnist-node-0-{1 - index}-abcde",
            *command,
            metadata={"labels": labels},
            hostname=f"mnist-node-0-{1 - index}",
            subdomain="mnist",
        )
    for index in (0, 1):
        await pods.reach(f"mnist-node-0-{index}-abcde", "Succeeded")


def _free_port() -> int:
    import socket  # noqa: PLC0415 - for this one test

    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


async def test_sidecars_start_first_and_stop_last(pods: Pods, settings: NodeSettings) -> None:
    say = "import signal,sys,time; log=open('/log/all','a',1)\n"
    say += "def end(*_): log.write('%s ends\\n'); sys.exit(0)\nsignal.signal(15, end); log.write('%s\\n')\n"
    mount = {"volumeMounts": [{"name": "log", "mountPath": "/log"}], "image": "python"}
    wait = "\nwhile True: time.sleep(0.05)"
    # Each waits for the sidecar before it: what runs may not hear a signal yet.
    after = "while '%s\\n' not in open('/log/all').readlines(): time.sleep(0.05)"
    side = {"restartPolicy": "Always", **mount}
    made = await pods.create(
        "sidecars",
        volumes=[{"name": "log", "emptyDir": {}}],
        initContainers=[
            {"name": "a", "command": [*python((say % ("a", "a")) + wait)], **side},
            {"name": "init", "command": [*python((say % ("init", "init")) + after % "a")], **mount},
            {"name": "b", "command": [*python((say % ("b", "b")) + wait)], **side},
        ],
        containers=[{"name": "main", "command": [*python((say % ("main", "main")) + after % "b")], **mount}],
    )
    pod = await pods.reach("sidecars", "Succeeded")
    lines = (settings.pods / uid_of(made) / "volumes" / "log" / "all").read_text().split("\n")
    assert [line for line in lines if line in {"init", "main"}] == ["init", "main"]
    assert lines.index("a") < lines.index("main")
    assert lines[-3:] == ["b ends", "a ends", ""]
    assert container(pod, "a")["state"]["terminated"]["exitCode"] == 0
    assert container(pod, "init")["ready"]


WITH_A_CHILD = """
import signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
def stop(*_):
    time.sleep(0.3)
    sys.exit(0 if child.poll() is None else 9)
signal.signal(signal.SIGTERM, stop)
open("ready", "w").close()
while True:
    time.sleep(0.05)
"""


async def test_the_end_is_told_to_the_program_alone(pods: Pods, settings: NodeSettings) -> None:
    """As a kubelet does it: workers that load data live until the training has saved its last checkpoint."""
    made = await pods.create("parent", *python(WITH_A_CHILD))
    await eventually((work(settings, made) / "ready").exists)
    await pods.client.patch(POD, "parent", pods.namespace, {"spec": {"activeDeadlineSeconds": 1}})
    pod = await pods.reach("parent", "Failed")
    assert container(pod)["state"]["terminated"]["exitCode"] == 0


async def test_a_stubborn_pod_is_killed_after_its_grace(pods: Pods) -> None:
    code = "import signal,time; signal.signal(15, signal.SIG_IGN); print('up')\nwhile True: time.sleep(1)"
    await pods.create("stubborn", *python(code), terminationGracePeriodSeconds=1)
    await pods.reach("stubborn", "Running")
    await pods.client.delete(POD, "stubborn", pods.namespace)
    await pods.gone("stubborn")


async def test_a_forced_deletion_leaves_no_process(pods: Pods, settings: NodeSettings) -> None:
    code = "import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    made = await pods.create("forced", *python(code))
    await pods.reach("forced", "Running")
    assert processes_of(settings, made)
    await pods.client.delete(POD, "forced", pods.namespace, grace_period=0)
    await eventually(lambda: processes_of(settings, made), lambda left: not left)
