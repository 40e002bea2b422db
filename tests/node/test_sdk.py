# SPDX-License-Identifier: Apache-2.0
"""The Kubeflow SDK trains in real containers, from a pod as in a notebook and from a machine outside."""

import os
import subprocess
from pathlib import Path
from typing import Any

from hack.node import images
from tests.e2e.trainings import installed
from tests.node.conftest import SECONDS, Containers
from trainwright.controller.runtime.testing.waiting import eventually_sync

SCRIPT = """
import sys
from kubeflow.trainer import CustomTrainer, KubernetesBackendConfig, TrainerClient


def train():
    import torch.distributed as dist

    dist.init_process_group("gloo")
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}", flush=True)
    dist.destroy_process_group()


client = TrainerClient(backend_config=KubernetesBackendConfig(namespace=sys.argv[1]))
print("runtimes", *sorted(one.name for one in client.list_runtimes()))
trainer = CustomTrainer(func=train, num_nodes=2, resources_per_node={"cpu": "300m", "memory": "512Mi"})
name = client.train(runtime=client.get_runtime("torch-distributed"), trainer=trainer)
job = client.wait_for_job_status(name, status={"Complete", "Failed"}, timeout=170, polling_interval=1)
print("ended", job.status, *sorted(f"{step.name}:{step.status}" for step in job.steps))
for step in job.steps:
    for line in client.get_job_logs(name, step=step.name):
        print(step.name, line)
client.delete_job(name)
print("left", *(one.name for one in client.list_jobs()))
"""


def must_have_trained(printed: str) -> None:
    lines = printed.splitlines()
    assert any(line.startswith("runtimes ") and "torch-distributed" in line.split() for line in lines), printed
    assert "ended Complete node-0:Succeeded node-1:Succeeded" in lines, printed
    ranks = {line.rpartition("rank ")[2] for line in lines if "rank " in line}
    assert ranks == {"0 of 2", "1 of 2"}, printed
    assert lines[-1].split() == ["left"], printed


def test_the_sdk_in_a_pod(containers: Containers) -> None:
    """It finds the API server by itself, and has the rights that an admin gives to those who train."""
    namespace = containers.namespace

    def make(version: str, kind: str, name: str, **fields: Any) -> None:
        metadata = {"name": name, "namespace": namespace}
        containers.cluster.stored.create({"apiVersion": version, "kind": kind, "metadata": metadata, **fields})

    make("v1", "ServiceAccount", "notebook")
    for role in ("edit", "kubeflow-trainer-edit"):
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        subjects = [{"kind": "ServiceAccount", "name": "notebook", "namespace": namespace}]
        make("rbac.authorization.k8s.io/v1", "RoleBinding", role, roleRef=reference, subjects=subjects)
    make("v1", "ConfigMap", "script", data={"sdk.py": SCRIPT})
    container = {
        "name": "notebook",
        "image": images.TRAINING,
        "command": ["python", "/script/sdk.py", namespace],
        "volumeMounts": [{"name": "script", "mountPath": "/script"}],
    }
    volumes = [{"name": "script", "configMap": {"name": "script"}}]
    spec = {"restartPolicy": "Never", "serviceAccountName": "notebook", "containers": [container], "volumes": volumes}
    make("v1", "Pod", "notebook", spec=spec)

    def phase() -> str:
        found = containers.get("pod", "notebook") or {}
        return str(found.get("status", {}).get("phase"))

    eventually_sync(phase, lambda now: now in ("Succeeded", "Failed"), seconds=SECONDS + 60)
    must_have_trained(containers.kubectl("logs", "notebook", "--tail=-1"))


def test_the_sdk_outside(containers: Containers, tmp_path: Path) -> None:
    clients = installed("--for-clients", "clients")
    # A file: the SDK reads the source of the function.
    (script := tmp_path / "sdk.py").write_text(SCRIPT)
    environment = {**os.environ, "KUBECONFIG": str(containers.cluster.folder / "admin.kubeconfig")}
    command = [f"{clients}/bin/python", str(script), containers.namespace]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS + 60)
    assert done.returncode == 0, done.stderr
    must_have_trained(done.stdout)
