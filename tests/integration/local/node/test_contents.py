# SPDX-License-Identifier: Apache-2.0
"""What a process sees of its pod's document: variables, volumes, names; in the order of its containers."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.local.node.conftest import POD, Pods, container, processes_of, python, status
from tests.unit.local.node.modes import IN_ONE_MODE
from trainwright.api.kubernetes.core.v1 import ConfigMap, Secret, ServiceAccount
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


async def test_variables_come_from_all_sources(pods: Pods, client: Client, settings: NodeSettings) -> None:
    await make(client, ConfigMap, "settings", pods.namespace, data={"rate": "0.1", "steps": "5"})
    await make(client, Secret, "keys", pods.namespace, stringData={"token": "s3cret"})
    env = [
        {"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "rate"}}},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
        {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "no", "key": "token", "optional": True}}},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['index']"}}},
        {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        {"name": "SUM", "value": "$(POD)-$(INDEX)-$$(POD)-$(ABSENT)"},
    ]
    made = await pods.create(
        "variables",
        metadata={"labels": {"index": "3"}},
        containers=[
            {
                "name": "main",
                "image": "python",
                "command": ["python", "-c", DUMP, "$(SUM)"],
                "args": ["$(C_steps)"],
                "env": env,
                "envFrom": [{"prefix": "C_", "configMapRef": {"name": "settings"}}],
                "resources": {"limits": {"cpu": "1500m"}},
            }
        ],
    )
    await pods.reach("variables", "Succeeded")
    environ, argv, folder = json.loads((work(settings, made) / "dump").read_text())
    found = {name: environ.get(name) for name in ("RATE", "TOKEN", "NONE", "POD", "INDEX", "CPUS", "SUM", "C_rate")}
    assert found == {
        "RATE": "0.1",
        "TOKEN": "s3cret",
        "NONE": None,
        "POD": "variables",
        "INDEX": "3",
        "CPUS": "1500",
        "SUM": "variables-3-$(POD)-$(ABSENT)",
        "C_rate": "0.1",
    }
    assert argv[1:] == ["variables-3-$(POD)-$(ABSENT)", "5"]
    assert folder == str(work(settings, made))
    assert environ["HOSTNAME"] == "variables"
    assert environ["KUBERNETES_SERVICE_PORT"].isdigit()
    assert environ["PYTHONUNBUFFERED"] == "1"
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


async def test_volumes_hold_what_the_document_says(
    pods: Pods, client: Client, settings: NodeSettings, tmp_path: Path
) -> None:
    await make(client, ConfigMap, "files", pods.namespace, data={"a.txt": "one", "b.txt": "two"})
    await make(client, Secret, "hidden", pods.namespace, stringData={"key": "s3cret"})
    await make(client, ServiceAccount, "trainer", pods.namespace)
    host = tmp_path / "host"
    host.mkdir()
    (host / "data").write_text("rows")
    sources = [
        {"configMap": {"name": "files", "items": [{"key": "b.txt", "path": "deep/b", "mode": 0o600}]}},
        {"secret": {"name": "hidden"}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"serviceAccountToken": {"path": "token", "audience": "training", "expirationSeconds": 600}},
    ]
    volumes = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "files", "configMap": {"name": "files"}},
        {"name": "all", "projected": {"sources": sources}},
        {"name": "host", "hostPath": {"path": str(host)}},
    ]
    mounts = [
        {"name": "scratch", "mountPath": "/workspace", "subPath": "run"},
        {"name": "files", "mountPath": "/etc/train/"},
        {"name": "all", "mountPath": "/var/run/all"},
        {"name": "host", "mountPath": "/datasets"},
    ]
    script = (
        "cat /etc/train/a.txt /var/run/all/deep/b /var/run/all/key /var/run/all/labels /datasets/data >$OUT/all;"
        " cat /var/run/all/token > /workspace/token; ls /etc/train > /workspace/names"
    )
    first = {
        "name": "first",
        "image": "busybox",
        "command": ["sh", "-c", "mkdir /scratch/run; echo from init > /scratch/run/init"],
    }
    made = await pods.create(
        "volumes",
        metadata={"labels": {"app": "train"}},
        serviceAccountName="trainer",
        volumes=volumes,
        initContainers=[{**first, "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}],
        containers=[
            {
                "name": "main",
                "image": "busybox",
                "command": ["sh", "-c", script],
                "workingDir": "/workspace/sub",
                "env": [{"name": "OUT", "value": "/workspace"}],
                "volumeMounts": mounts,
            }
        ],
    )
    await pods.reach("volumes", "Succeeded")
    folder = settings.pods / uid_of(made) / "volumes" / "scratch" / "run"
    assert (folder / "init").read_text() == "from init\n"
    assert (folder / "all").read_text() == 'onetwos3cretapp="train"rows'
    assert (folder / "token").read_text().count(".") == 2
    assert (folder / "names").read_text() == "a.txt\nb.txt\n"
    assert (folder / "sub").is_dir()
    hidden = settings.pods / uid_of(made) / "volumes" / "all"
    assert (hidden / "deep" / "b").stat().st_mode & 0o777 == 0o600


async def test_mounted_files_follow_their_source(pods: Pods, client: Client, settings: NodeSettings) -> None:
    await make(client, ConfigMap, "live", pods.namespace, data={"a": "1"})
    code = "import time\nwhile open('/conf/a').read() != '2': time.sleep(0.05)"
    mount = {"name": "conf", "mountPath": "/conf"}
    main = {"name": "main", "image": "python", "command": list(python(code)), "volumeMounts": [mount]}
    await pods.create("follows", containers=[main], volumes=[{"name": "conf", "configMap": {"name": "live"}}])
    await pods.reach("follows", "Running")
    await client.patch(ConfigMap.RESOURCE, "live", pods.namespace, {"data": {"a": "2"}})
    await pods.reach("follows", "Succeeded")


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


@IN_ONE_MODE
async def test_a_failed_init_container_fails_the_pod(pods: Pods) -> None:
    init = {"name": "init", "image": "python", "command": [*python("raise SystemExit(4)")]}
    await pods.create("init", *python("pass"), initContainers=[init])
    pod = await pods.reach("init", "Failed")
    assert container(pod, "init")["state"]["terminated"]["exitCode"] == 4
    assert container(pod)["state"]["waiting"]["reason"] == "PodInitializing"


async def test_a_deadline_fails_the_pod(pods: Pods) -> None:
    await pods.create("slow", *python("import time; time.sleep(600)"))
    await pods.reach("slow", "Running")
    await pods.client.patch(POD, "slow", pods.namespace, {"spec": {"activeDeadlineSeconds": 1}})
    pod = await pods.reach("slow", "Failed")
    assert status(pod)["reason"] == "DeadlineExceeded"
    assert container(pod)["state"]["terminated"]["exitCode"] == 143


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


async def test_termination_messages(pods: Pods) -> None:
    await pods.create("message", "sh", "-c", "echo out of data > /dev/termination-log; exit 1")
    pod = await pods.reach("message", "Failed")
    assert container(pod)["state"]["terminated"]["message"] == "out of data\n"
    fallback = {"terminationMessagePolicy": "FallbackToLogsOnError", "image": "busybox", "name": "main"}
    await pods.create("fallback", containers=[{**fallback, "command": ["sh", "-c", "echo last words; exit 1"]}])
    pod = await pods.reach("fallback", "Failed")
    assert container(pod)["state"]["terminated"]["message"] == "last words\n"
