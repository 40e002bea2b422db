# SPDX-License-Identifier: Apache-2.0
"""Clients of others, unchanged: huggingface_hub on the hub of the tests, and the SDK that asks for models and data.

They are installed in an environment of their own. So what our tests prove on this hub holds for the protocol that it
speaks, and the initializers for what the SDK asks of them.
"""

import asyncio
import os
import sys
from pathlib import Path

import pytest
import yaml

from tests.e2e.shell import NAMESPACES, Shell
from tests.e2e.test_local_initializers import DATA, MODEL, SAMPLE
from tests.e2e.test_local_initializers import TOKEN as HUB_TOKEN
from tests.e2e.trainings import installed
from tests.unit.initialize.hub import Hub, Repository, serving
from tests.unit.initialize.runs import tree
from trainwright.api.kubernetes.core.v1 import PersistentVolumeClaim
from trainwright.api.trainer.v1alpha1 import TrainingRuntime
from trainwright.controller.runtime import Client, HTTPTransport, load_config

pytestmark = [pytest.mark.parity, pytest.mark.timeout(600)]
SNAPSHOT = """
import sys
from huggingface_hub import snapshot_download
kind, name, target = sys.argv[1:]
patterns = ["*.json", "*.safetensors", "*.model", "*.txt", "*.gguf"] if kind == "model" else None
snapshot_download(name, repo_type=kind, local_dir=target, allow_patterns=patterns)
"""
SDK = """
import sys
from kubeflow.trainer import (
    CustomTrainer, HuggingFaceDatasetInitializer, HuggingFaceModelInitializer, Initializer, TrainerClient,
)

def train():
    import os
    for folder in ("dataset", "model"):
        walk = os.walk(f"/workspace/{folder}")
        print(folder, *sorted(name for at, _, names in walk for name in names if ".trainwright" not in at), flush=True)

client = TrainerClient()
name = client.train(
    runtime="models-and-data",
    initializer=Initializer(
        dataset=HuggingFaceDatasetInitializer("hf://scikit-learn/iris", ignore_patterns=["*.md"]),
        model=HuggingFaceModelInitializer("hf://o/private", access_token=sys.argv[1]),
    ),
    trainer=CustomTrainer(func=train),
)
job = client.wait_for_job_status(name, timeout=300, polling_interval=1)
print("steps", *[f"{step.name}:{step.status}" for step in job.steps])
for step in ("dataset-initializer", "model-initializer", "node-0"):
    for line in client.get_job_logs(name, step=step):
        print(step, line)
"""
FILES = {
    **{f"part/{number}.json": b"%d" % number for number in range(30)},
    "model.safetensors": os.urandom(2**20),
    "model.bin": b"pickle",
    "odd name+ü.txt": b"x",
}
TOKEN = "hf_token_of_the_test"


async def run(*command: str, hub: Hub, target: Path) -> None:
    quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(target.parent / "home")}
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, **quiet},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


@pytest.mark.parametrize("kind", ["model", "dataset"])
async def test_both_leave_the_same_files_and_adopt_those_of_each_other(tmp_path: Path, kind: str) -> None:
    clients = await asyncio.to_thread(installed, "--for-clients", "clients")
    repository = Repository(FILES, large=("model.safetensors",), token=TOKEN)
    ours = (sys.executable, "-m", "trainwright.controller.cli.main", "initialize", kind, "--storage-uri=hf://o/n")
    theirs = (f"{clients}/bin/python", "-c", SNAPSHOT, kind, "o/n")
    async with serving(Hub({f"{kind}s/o/n": repository}, tokens=(TOKEN,), page=10)) as hub:
        await run(*theirs, str(tmp_path / "theirs"), hub=hub, target=tmp_path / "theirs")
        asked = len(hub.requests)
        await run(*ours, f"--output={tmp_path}/ours", hub=hub, target=tmp_path / "ours")
        assert len(hub.requests) - asked < asked
        left = {name: data for name, data in tree(tmp_path / "theirs").items() if not name.startswith(".cache/")}
        assert tree(tmp_path / "ours") == left
        # A volume that the original's library has filled is adopted: no file comes again.
        hub.requests.clear()
        await run(*ours, f"--output={tmp_path}/theirs", hub=hub, target=tmp_path / "theirs")
        assert [one for one in hub.requests if "/resolve/" in one] == []
        await run(*theirs, str(tmp_path / "ours"), hub=hub, target=tmp_path / "ours")
        kept = {name: data for name, data in tree(tmp_path / "ours").items() if not name.startswith(".cache/")}
        assert kept == left


@NAMESPACES
async def test_the_sdk_trains_with_its_initializer_classes(tmp_path: Path) -> None:
    """Scenario 55: steps, logs of each of them, its own patterns, and a token that no log shows."""
    clients = await asyncio.to_thread(installed, "--for-clients", "clients")
    repositories = {
        "datasets/scikit-learn/iris": Repository(DATA),
        "models/o/private": Repository(MODEL, large=("model.safetensors",), token=HUB_TOKEN),
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "models-and-data", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    runtime = next(yaml.safe_load_all(SAMPLE.read_text()))
    runtime["metadata"]["namespace"] = "default"
    # A file: the SDK reads the source of the function.
    (script := tmp_path / "sdk.py").write_text(SDK)
    async with serving(Hub(repositories, tokens=(HUB_TOKEN,))) as hub:
        shell = Shell(tmp_path, HF_ENDPOINT=hub.url)
        up = await asyncio.to_thread(shell.local, "up", f"--dir={tmp_path}/cluster")
        assert up.returncode == 0, up.stderr
        client = Client(HTTPTransport(load_config(tmp_path / "cluster" / "kubeconfig")))
        try:
            await client.create(claim, kind=PersistentVolumeClaim.RESOURCE)
            await client.create(runtime, kind=TrainingRuntime.RESOURCE)
            process = await asyncio.create_subprocess_exec(
                *(f"{clients}/bin/python", str(script), HUB_TOKEN),
                env={**os.environ, "KUBECONFIG": str(tmp_path / "cluster" / "kubeconfig")},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            output, errors = (text.decode() for text in await process.communicate())
        finally:
            await client.close()
            down = await asyncio.to_thread(shell.local, "down", f"--dir={tmp_path}/cluster", "--delete")
    assert down.returncode == 0, down.stderr
    assert process.returncode == 0, errors
    lines = output.splitlines()
    assert "steps dataset-initializer:Succeeded model-initializer:Succeeded node-0:Succeeded" in lines
    assert "node-0 dataset a.csv b.csv" in lines
    assert "node-0 model config.json model.safetensors" in lines
    assert any(line.startswith("dataset-initializer ") and "2 of 2 files" in line for line in lines)
    assert any(line.startswith("model-initializer ") and "is complete" in line for line in lines)
    assert HUB_TOKEN not in output + errors
