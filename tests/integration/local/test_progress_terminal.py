# SPDX-License-Identifier: Apache-2.0
"""`trainwright progress` under tmux, and on the objects of a cluster with Kubeflow Trainer's definitions."""

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.builders import train_job
from tests.repository import ROOT
from trainwright.api.kubernetes.core.v1 import Namespace
from trainwright.api.manifest import load
from trainwright.api.objects import wire
from trainwright.api.times import format_time, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.local.cluster import RunningServer, api_server, install
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.errors import NotFound
from trainwright.controller.runtime.testing.waiting import equals, eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.parity]
STRUCTURE = ROOT / "tests" / "unit" / "codegen" / "crd-structure" / "trainjobs.json"
CASES = ROOT / "tests" / "conformance" / "cases"
COMMAND = [sys.executable, "-m", "trainwright.controller.cli.main", "progress"]
JOBS = 200
READY = [{"name": "node", "active": 1, "ready": 1, "succeeded": 0, "failed": 0, "suspended": 0}]


def definition(*, trainer_status: bool = True) -> dict[str, Any]:
    """The CustomResourceDefinition of Kubeflow Trainer: its structure, as recorded.

    `trainer_status`: without it, that of releases before TrainJobs could report progress.
    """
    spec = _without_rules(json.loads(STRUCTURE.read_text()))
    for version in spec["versions"]:
        version.setdefault("served", True)
        version.setdefault("storage", True)
        version.setdefault("subresources", {"status": {}})
        if not trainer_status:
            del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["trainerStatus"]
    metadata = {"name": f"{spec['names']['plural']}.{spec['group']}"}
    api = "apiextensions.k8s.io/v1"
    return {"apiVersion": api, "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec}


def _without_rules(node: Any) -> Any:
    """The recording has the number of rules in place of their texts."""
    if isinstance(node, dict):
        return {key: _without_rules(value) for key, value in node.items() if key != "x-kubernetes-validations"}
    return [_without_rules(item) for item in node] if isinstance(node, list) else node


async def install_kind(client: Client, *, trainer_status: bool = True) -> None:
    """Install the definition, and wait until its kind is served."""
    await install(client, [definition(trainer_status=trainer_status)], owner="test")
    await eventually(lambda: client.list(TrainJob, "default"), lambda _: True, ignore=(NotFound,))


def with_times(node: Any) -> Any:
    """The recordings have a mark in place of each time."""
    if isinstance(node, dict):
        return {key: with_times(value) for key, value in node.items()}
    if isinstance(node, list):
        return [with_times(item) for item in node]
    return "2026-11-22T12:00:00Z" if node == "<time>" else node


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    async with api_server(tmp_path_factory.mktemp("server"), memory=True) as api:
        client = Client(api.transport())
        await install_kind(client)
        yield api
        await client.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def old_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    async with api_server(tmp_path_factory.mktemp("old"), memory=True) as api:
        client = Client(api.transport())
        await install_kind(client, trainer_status=False)
        yield api
        await client.close()


async def create(client: Client, space: str, name: str, status: dict[str, Any]) -> None:
    await client.create(wire(train_job(name, space, uid="")), kind=TrainJob.RESOURCE)
    await client.patch(TrainJob.RESOURCE, name, space, {"status": status}, subresource="status")


def progress(percent: int) -> dict[str, Any]:
    """The status of a job that reports."""
    told = {
        "progressPercentage": percent,
        "lastUpdatedTime": format_time(wall_clock()),
        "metrics": [{"name": "loss", "value": f"{1 / (1 + percent):.4f}"}],
    }
    return {"jobsStatus": READY, "trainerStatus": told}


@pytest_asyncio.fixture(loop_scope="module")
async def space(server: RunningServer) -> AsyncIterator[str]:
    """A namespace of its own."""
    client = Client(server.transport())
    made = await client.create({"metadata": {"generateName": "test-"}}, kind=Namespace.RESOURCE)
    yield made["metadata"]["name"]
    await client.close()


async def command(server: RunningServer, *arguments: str) -> str:
    """The output of the command, which must succeed and say nothing else."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        f"--kubeconfig={server.kubeconfig}",
        *arguments,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
    return out.decode()


class Tmux:
    """A shell in a tmux of its own."""

    def __init__(self, socket: Path) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        home, path = str(socket.parent), os.environ["PATH"]
        variables = {"PATH": path, "HOME": home, "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT), "TERM": "tmux-256color"}
        shell = shlex.join(["env", "-i", *(f"{key}={value}" for key, value in variables.items()), "PS1=$ ", "sh"])
        self("new-session", "-d", "-x", "120", "-y", "40", shell)
        self("set-option", "-g", "window-size", "manual")

    def __call__(self, *arguments: str) -> str:
        return subprocess.run([*self._tmux, *arguments], check=True, capture_output=True, text=True, timeout=60).stdout

    def type(self, line: str) -> None:
        self("send-keys", "-l", line)
        self("send-keys", "Enter")

    def lines(self) -> list[str]:
        """What is on the screen, without empty lines at its end."""
        return self("capture-pane", "-p").rstrip("\n").split("\n")

    def value(self, name: str) -> str:
        return self("display-message", "-p", f"#{{{name}}}").strip()

    def close(self) -> None:
        """End the shell and what runs in it."""
        self("kill-server")


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    made = Tmux(tmp_path / "socket")
    yield made
    made.close()


async def test_two_hundred_jobs_a_resize_and_a_whole_terminal_after_control_c(
    server: RunningServer, space: str, tmux: Tmux, tmp_path: Path
) -> None:
    client = Client(server.transport())
    for number in range(JOBS):
        await create(client, space, f"job-{number:03}", progress(number % 100))

    def look() -> list[str]:
        return tmux.lines()

    def shows(text: str) -> Callable[[list[str]], bool]:
        return lambda lines: any(text in line for line in lines)

    def fits(rows: int) -> Callable[[list[str]], bool]:
        return lambda lines: any("more jobs" in line for line in lines) and len(lines) <= rows

    tmux.type(f"stty -a > {tmp_path}/before; echo ready")
    await eventually(look, lambda lines: "ready" in lines)
    watch = shlex.join([*COMMAND, f"--kubeconfig={server.kubeconfig}", f"--namespace={space}", "--watch"])
    tmux.type(watch)
    lines = await eventually(look, shows("more jobs do not fit"))
    assert len(lines) <= 40
    shown = sum(bool(re.match(r"job-\d{3} ", line)) for line in lines)
    assert shown > 30
    assert any(f"{JOBS - shown} more jobs do not fit" in line for line in lines)
    assert tmux.value("cursor_flag") == "0"

    # Changes are drawn in place.
    first = next(line.split()[0] for line in lines if line.startswith("job-"))
    await client.patch(TrainJob.RESOURCE, first, space, {"status": progress(77)}, subresource="status")
    await eventually(look, lambda lines: any(re.match(rf"{first} .* 77% ", line) for line in lines))

    for columns, rows in ((60, 12), (30, 6), (200, 50), (120, 40)):
        tmux("resize-window", "-x", str(columns), "-y", str(rows))
        lines = await eventually(look, fits(rows))
        assert all(len(line) <= columns for line in lines)
        # One table is on the screen, without what is left of a drawing before.
        await eventually(look, lambda lines: sum(line.startswith("JOB ") for line in lines) == 1)

    # Ctrl-Z gives the terminal to the shell; the picture goes on below what the shell wrote.
    tmux("send-keys", "C-z")
    await eventually(lambda: tmux.value("cursor_flag"), equals("1"))
    tmux.type("fg")
    await eventually(lambda: tmux.value("cursor_flag"), equals("0"))
    assert "\n$ fg\n" in tmux("capture-pane", "-p", "-S", "-400")
    await client.patch(TrainJob.RESOURCE, first, space, {"status": progress(99)}, subresource="status")
    await eventually(look, lambda lines: any(re.match(rf"{first} .* 99% ", line) for line in lines))

    tmux("send-keys", "C-c")
    await eventually(lambda: tmux.value("cursor_flag"), equals("1"))
    # The shell may still be waiting for the command, so what it says can follow its prompt on the same line.
    tmux.type(f"echo $? > {tmp_path}/code; stty -a > {tmp_path}/after; echo done")
    lines = await eventually(look, lambda lines: any(re.fullmatch(r"(\$ )?done", line) for line in lines))
    assert (tmp_path / "code").read_text() == "130\n"
    assert not any("Traceback" in line for line in lines)
    before, after = ((tmp_path / name).read_text() for name in ("before", "after"))
    assert (before, "-echo " in before) == (after, False)
    assert tmux.value("alternate_on") == "0"

    # SIGTERM gives the terminal back, too.
    tmux.type(f"sh -c {shlex.quote(f'echo $$ > {tmp_path}/pid; exec {watch}')}; echo over")
    await eventually(lambda: tmux.value("cursor_flag"), equals("0"))
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)
    await eventually(lambda: tmux.value("cursor_flag"), equals("1"))
    # Not the word in the command, which is there before it has ended.
    await eventually(look, lambda lines: any(re.fullmatch(r"(\$ )?over", line) for line in lines))
    await client.close()


async def test_every_recorded_trainjob_of_kubeflow_trainer_is_shown(server: RunningServer, space: str) -> None:
    client, shown = Client(server.transport()), {}
    for folder in sorted(CASES.iterdir()):
        recorded = [load((folder / name).read_text()) for name in ("trainjob.yaml", "expected.yaml")]
        status = with_times((recorded[1].get("trainJob") or {}).get("status")) if recorded[1] else None
        if status and recorded[0]:
            name = f"case-{folder.name[:3]}"
            await create(client, space, name, status)
            conditions = {one["type"] for one in status.get("conditions", ()) if one["status"] == "True"}
            shown[name] = next((one for one in ("Complete", "Failed", "Suspended") if one in conditions), "")
    assert len(shown) > 30
    out = await command(server, f"--namespace={space}", "--output=json")
    states = {one["name"]: one["state"] for one in json.loads(out)["jobs"]}
    assert states.keys() == shown.keys()
    for name, wanted in shown.items():
        assert states[name] == wanted if wanted else states[name] in {"Pending", "Running"}, name
    await client.close()


async def test_a_release_whose_trainjobs_have_no_progress(old_server: RunningServer) -> None:
    client = Client(old_server.transport())
    await create(client, "default", "bert", progress(50))
    head, bert = (await command(old_server)).splitlines()
    assert head.split() == ["JOB", "STATE", "PROGRESS", "ETA", "REPORTED", "LOSS"]
    assert bert.split() == ["bert", "Running", "-", "-", "-", "-"]
    assert "reported  never" in await command(old_server, "bert")
    one = json.loads(await command(old_server, "bert", "--output=json"))
    assert (one["state"], one["progressPercentage"], one["metrics"]) == ("Running", None, {})
    await client.close()
