# SPDX-License-Identifier: Apache-2.0
"""Models and data on a local cluster: a hub of this machine, the steps as processes, and a training."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from tests.e2e.shell import NAMESPACES, Shell
from tests.repository import ROOT
from tests.unit.initialize.hub import Hub, Repository, serving
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.initialize.folder import PARTS
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.testing.waiting import at_least, eventually

TOKEN = "hf_token_of_a_secret"
DATA = {"data/a.csv": b"1,2\n", "data/b.csv": b"3,4\n", "README.md": b"numbers"}
MODEL = {"config.json": b"{}", "model.safetensors": b"weights" * 10_000, "model.bin": b"pickle"}
IN_MEMORY = 2 * 2**20
"""More of a file than an initializer keeps in memory."""
HALF = "loading model 50 %, 1 of 2 files"
SAMPLE = ROOT / "config" / "samples" / "14-models-and-data.yaml"


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    repositories = {
        "datasets/scikit-learn/iris": Repository(DATA),
        "models/hf-internal-testing/tiny-random-bert": Repository(MODEL, large=("model.safetensors",)),
        "models/o/gated": Repository(MODEL, gated_for=("", TOKEN)),
        "models/o/private": Repository(MODEL, token=TOKEN),
    }
    async with serving(Hub(repositories, tokens=(TOKEN,))) as it:
        yield it


@pytest.fixture
async def shell(hub: Hub, tmp_path: Path) -> AsyncIterator[Shell]:
    made = Shell(tmp_path, HF_ENDPOINT=hub.url)
    yield made
    assert (await asyncio.to_thread(made.local, "down", "--delete")).returncode == 0


def sample(shell: Shell, name: str = "models-and-data", **model: Any) -> str:
    """The sample with its claim, as a job of that name."""
    text = SAMPLE.read_text()
    # Its head has the claim as comments.
    claim = "\n".join(line.removeprefix("#   ") for line in text.splitlines() if line.startswith("#   ")).partition(
        "kubectl"
    )
    documents = [yaml.safe_load(claim[0]), *yaml.safe_load_all(text)]
    documents[-1]["metadata"]["name"] = name
    documents[-1]["spec"]["initializer"]["model"].update(model)
    file = shell.folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return str(file)


async def local(shell: Shell, *arguments: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(shell.local, *arguments, seconds=seconds)


@pytest.mark.parametrize("isolation", [pytest.param("namespaces", marks=NAMESPACES), "rewrite"])
async def test_a_job_trains_with_both_and_a_second_one_fetches_nothing(shell: Shell, hub: Hub, isolation: str) -> None:
    assert (await local(shell, "up", f"--isolation={isolation}")).returncode == 0
    first = await local(shell, "run", "--file", sample(shell))
    assert first.returncode == 0, first.stdout + first.stderr
    said = [line.partition("] ")[2] for line in first.stdout.splitlines() if line.startswith("[rank 0]")]
    assert said == ["trains with 3 files of dataset", "trains with 2 files of model"]
    files = {one.rpartition("/")[2] for one in hub.requests if "/resolve/" in one}
    assert files == {"a.csv", "b.csv", "README.md", "config.json", "model.safetensors"}
    hub.requests.clear()
    second = await local(shell, "run", "--file", sample(shell, "second"))
    assert second.returncode == 0, second.stdout + second.stderr
    assert sorted(one.rpartition("/")[2] for one in hub.requests) == ["main", "main"]
    assert second.stdout.count("is complete: nothing to fetch") == 2


@pytest.mark.parametrize(
    ("uri", "secret", "sentence"),
    [
        (
            "hf://o/gated",
            True,
            "o/gated is gated and this token's user has no access yet: ask for it on its page",
        ),
        (
            "hf://o/private",
            False,
            (
                "model o/private is private or does not exist: if it is private, it needs a token: put ACCESS_TOKEN "
                "into a Secret and name it in spec.initializer.model.secretRef"
            ),
        ),
        (
            "hf://hf-internal-testing/tiny-random-bert@v3",
            False,
            "hf-internal-testing/tiny-random-bert has no revision v3",
        ),
    ],
)
async def test_a_download_that_fails_is_the_cause(shell: Shell, uri: str, secret: bool, sentence: str) -> None:
    assert (await local(shell, "up")).returncode == 0
    done = await local(shell, "run", "--keep", "--file", failing(shell, uri, secret=secret))
    assert done.returncode == 1, done.stdout + done.stderr
    shown = await local(shell, "show", "models-and-data")
    assert f"model-initializer failed: {sentence}" in " ".join(shown.stdout.split()), shown.stdout
    assert TOKEN not in done.stdout + done.stderr + shown.stdout


def failing(shell: Shell, uri: str, *, secret: bool) -> str:
    """The sample with another model, whose steps are not tried again; it has a Secret with the token."""
    model: dict[str, Any] = {"storageUri": uri} | ({"secretRef": {"name": "hugging-face"}} if secret else {})
    file = Path(sample(shell, **model))
    documents = list(yaml.safe_load_all(file.read_text()))
    for step in documents[1]["spec"]["template"]["spec"]["replicatedJobs"]:
        step["template"]["spec"]["backoffLimit"] = 0
        step["template"]["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    token = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "hugging-face"},
        "stringData": {"ACCESS_TOKEN": TOKEN},
    }
    file.write_text(yaml.safe_dump_all([token, *documents]))
    return str(file)


async def test_what_is_fetched_shows_as_bytes_and_files_and_not_as_a_percentage(shell: Shell, hub: Hub) -> None:
    weights = bytes(8 * 2**20)
    hub.repositories["models/hf-internal-testing/tiny-random-bert"].files["model.safetensors"] = weights
    seen = asyncio.Event()

    async def half(request: web.Request) -> web.StreamResponse | None:
        if not request.path.startswith("/cdn/"):
            return None
        answer = web.StreamResponse(headers={"Content-Length": str(len(weights))})
        await answer.prepare(request)
        await answer.write(weights[: len(weights) // 2])
        await seen.wait()
        await answer.write(weights[len(weights) // 2 :])
        return answer

    hub.faults.append(half)
    file = sample(shell)
    text = await asyncio.to_thread(Path(file).read_text)
    job = text.replace("  name: models-and-data\nspec:\n  initializer:", _ASKING)
    assert _ASKING in job
    await asyncio.to_thread(Path(file).write_text, job)
    assert (await local(shell, "up")).returncode == 0
    # Each read of the progress comes ten seconds after the one before, which alone takes most of a minute.
    running = asyncio.create_task(local(shell, "run", "--keep", "--file", file, seconds=250))
    try:
        async with asyncio.timeout(200):
            shown = await shown_while(running, shell)
    finally:
        seen.set()
    done = await running
    assert done.returncode == 0, done.stdout + done.stderr
    assert HALF in shown, shown


async def test_a_download_goes_on_after_the_job_was_suspended(shell: Shell, hub: Hub) -> None:
    """Scenario 50: what a suspended job has fetched is not fetched again."""
    weights = bytes(number % 251 for number in range(6 * 2**20))
    hub.repositories["models/hf-internal-testing/tiny-random-bert"].files["model.safetensors"] = weights
    half = len(weights) // 2
    is_half, is_over, begun_at = asyncio.Event(), asyncio.Event(), list[int]()

    async def halt(request: web.Request) -> web.StreamResponse | None:
        if not request.path.startswith("/cdn/"):
            return None
        begun_at.append(int(request.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0]))
        if len(begun_at) > 1:
            return None
        answer = web.StreamResponse(headers={"Content-Length": str(len(weights))})
        await answer.prepare(request)
        await answer.write(weights[:half])
        is_half.set()
        # The pod is stopped meanwhile, which closes the connection.
        await is_over.wait()
        return answer

    hub.faults.append(halt)
    assert (await local(shell, "up")).returncode == 0
    running = asyncio.create_task(local(shell, "run", "--keep", "--file", sample(shell)))
    try:
        async with asyncio.timeout(100):
            await is_half.wait()
            # What was sent may be on its way.
            await eventually(lambda: asyncio.to_thread(largest_part, shell), at_least(half - IN_MEMORY))
            assert (await local(shell, "stop", "models-and-data")).returncode == 0
            assert (await local(shell, "resume", "models-and-data")).returncode == 0
            # The command that started the job follows it through both.
            done = await running
    finally:
        is_over.set()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trains with 2 files of model" in done.stdout
    # At most what was in memory as the pod ended is fetched twice.
    assert len(begun_at) == 2
    assert half - IN_MEMORY <= begun_at[1] <= half


def largest_part(shell: Shell) -> int:
    """The bytes of the largest file that is not whole yet; 0 if one became whole meanwhile, and is gone."""
    try:
        return max((path.stat().st_size for path in shell.folder.rglob(f"{PARTS}/*")), default=0)
    except FileNotFoundError:
        return 0


async def test_variables_of_a_step_win_over_its_secret(shell: Shell, hub: Hub) -> None:
    """Scenario 53: all keys of the Secret are variables, and those that the job or the plugin sets win."""
    text = await asyncio.to_thread(Path(failing(shell, "hf://o/private", secret=True)).read_text)
    token, *documents = yaml.safe_load_all(text)
    token["stringData"] |= {"STORAGE_URI": "hf://o/gated", "IGNORE_PATTERNS": "*.json"}
    token["stringData"] |= {f"OTHER_{number}": str(number) for number in range(7)}
    documents[-1]["spec"]["initializer"]["model"]["env"] = [{"name": "IGNORE_PATTERNS", "value": "*.md"}]
    file = shell.folder / "ten-keys.yaml"
    await asyncio.to_thread(file.write_text, yaml.safe_dump_all([token, *documents]))
    assert (await local(shell, "up")).returncode == 0
    done = await local(shell, "run", "--file", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trains with 2 files of model" in done.stdout
    assert not any("o/gated" in one for one in hub.requests)
    assert TOKEN not in done.stdout + done.stderr


async def shown_while(running: "asyncio.Task[subprocess.CompletedProcess[str]]", shell: Shell) -> str:
    """What `local jobs` and `local show` print as soon as something is half fetched, or the job has ended."""
    shown, version = "", ""
    # A look is two processes, and the cluster reads the progress only every ten seconds.
    client = Client(HTTPTransport(load_config(shell.kubeconfig)))
    try:
        while HALF not in shown and not running.done():
            seen = await client.list(TrainJob.RESOURCE, "default")
            if seen.items and version != (version := seen.items[0]["metadata"]["resourceVersion"]):
                listed, one = await local(shell, "jobs"), await local(shell, "show", "models-and-data")
                shown = listed.stdout + one.stdout
            await asyncio.sleep(0.5)
    finally:
        await client.close()
    return shown


_ASKING = "  annotations: {trainwright.dev/progress: file}\n  name: models-and-data\nspec:\n  initializer:"
