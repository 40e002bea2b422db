# SPDX-License-Identifier: Apache-2.0
"""The sample plugins of docs/samples, installed beside a whole manager over the local API server (progress P-95)."""

import importlib
import json
import shutil
import threading
import tomllib
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import kubernetes.config
import pytest

from tests.builders import RUNNING, condition
from tests.integration.trainer.conftest import TEMPLATE
from tests.integration.trainer.reporting import SPACE, World, running
from tests.reports import TIME
from tests.repository import ROOT
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.times import format_time, wall_clock
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainJob
from trainwright.controller.runtime import NotFound
from trainwright.controller.runtime.testing.waiting import eventually

SAMPLES = ROOT / "docs" / "samples" / "plugins"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The distribution, as pip would leave it."""
    project = tomllib.loads((SAMPLES / "pyproject.toml").read_text())["project"]
    folder = tmp_path / "site-packages"
    information = folder / f"samples-{project['version']}.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["trainwright.plugins"].items()
    lines = ["[trainwright.plugins]", *(f"{name} = {target}" for name, target in points)]
    (information / "entry_points.txt").write_text("\n".join(lines))
    for path in SAMPLES.glob("*.py"):
        shutil.copy(path, folder)
    monkeypatch.syspath_prepend(folder)


@pytest.fixture
def received() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The URL of a server, and what was posted to it."""
    posted: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", posted
    server.shutdown()
    thread.join()
    server.server_close()
    # What was posted is known before the plugin has read the answer and closed its connection.
    for one in threading.enumerate():
        if one.name.startswith("plugin "):
            one.join()


@pytest.fixture
def connections(installed: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Closes the connections of the plugin's client. It lives as long as the manager's process, as its thread does."""
    module, made = importlib.import_module("plateau_plugin"), list[Any]()
    requesting, over = threading.Lock(), threading.Event()

    class Closed(module.KubernetesJobs):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            made.append(self._api.api_client.rest_client.pool_manager)

        def get(self, namespace: str, name: str) -> Any:
            with requesting:
                return None if over.is_set() else super().get(namespace, name)

        def suspend(self, namespace: str, name: str, version: str) -> bool:
            with requesting:
                return not over.is_set() and bool(super().suspend(namespace, name, version))

    monkeypatch.setattr(module, "KubernetesJobs", Closed)
    yield
    with requesting:
        over.set()
        for manager in made:
            # clear() alone leaves the closing to the collector: an error that was logged refers to its connection.
            for key in manager.pools.keys():  # noqa: SIM118 - it is no mapping that one can iterate over
                manager.pools[key].close()
            manager.clear()


@pytest.mark.usefixtures("connections")
async def test_one_posts_to_a_url_and_one_suspends_on_a_plateau(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, received: tuple[str, list[dict[str, Any]]]
) -> None:
    url, posted = received
    settings = {"Post": {"url": url, "states": ["Running", "Suspended", "Complete"]}, "Plateau": {"interval": 0.05}}
    plugins = {"enabled": ["Post", "Plateau"], "settings": settings}
    async with running(tmp_path, plugins=plugins, featureGates={}) as world:
        monkeypatch.setattr(kubernetes.config.kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(world.api.kubeconfig))
        runtime = {"mlPolicy": {"numNodes": 1}, "template": TEMPLATE}
        await create(world, "ClusterTrainingRuntime", {"name": "plain"}, runtime)
        for name, annotations in (("flat", {"samples.trainwright.dev/plateau": "2"}), ("other", {})):
            metadata = {"name": world.own(name), "namespace": SPACE, "annotations": annotations}
            await create(world, "TrainJob", metadata, {"runtimeRef": {"name": "plain"}})
            await eventually(lambda name=name: set_jobset_status(world, name, replicatedJobsStatus=[RUNNING]))  # type: ignore[misc]
        running_jobs = {(world.own(name), "Running") for name in ("flat", "other")}
        await eventually(lambda: {(one["name"], one["to"]) for one in posted}, lambda found: found >= running_jobs)

        async def suspended(name: str) -> bool:
            found = await world.client.get(TrainJob, world.own(name), SPACE)
            return found.spec is not None and bool(found.spec.suspend)

        async def report_again() -> bool:
            """Each report has a later time and the same loss."""
            told["lastUpdatedTime"] = format_time(wall_clock() + timedelta(minutes=next(minutes)))
            for name in ("flat", "other"):
                await world.set_status(name, trainerStatus=told)
            return await suspended("flat")

        minutes, metrics = count(), [{"name": "loss", "value": "0.5"}]
        told = {"progressPercentage": 30, "metrics": metrics}
        await eventually(report_again)
        assert next(minutes) >= 3  # the best one, and two that are not better
        assert not await suspended("other")
        await eventually(lambda: posted, lambda found: any(one["to"] == "Suspended" for one in found))
        ended = condition("Completed", reason="Done", message="so", at=TIME)
        await set_jobset_status(world, "other", conditions=[ended], terminalState="Completed")
        await eventually(lambda: posted[-1], lambda one: one["to"] == "Complete")
        wanted = {"name": world.own("other"), "from": "Running", "reason": "Done", "progressPercentage": 30}
        assert wanted.items() <= posted[-1].items()


async def create(world: World, kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> None:
    resource = {one.kind: one for one in (TrainJob.RESOURCE, ClusterTrainingRuntime.RESOURCE)}[kind]
    document = {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata, "spec": spec}
    await world.client.create(document, kind=resource)


async def set_jobset_status(world: World, name: str, **status: Any) -> bool:
    """In the place of JobSet's controller. Returns whether the JobSet is there."""
    try:
        await world.client.patch(JobSet.RESOURCE, world.own(name), SPACE, {"status": status}, subresource="status")
    except NotFound:
        return False
    return True
