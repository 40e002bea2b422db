# SPDX-License-Identifier: Apache-2.0
"""The sample plugins of docs/samples keep the contract and do what they say."""

import importlib.util
import json
import logging
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.repository import ROOT
from trainwright.plugins.contract import JobState
from trainwright.plugins.registry import PluginCandidate, Registry, Selection
from trainwright.plugins.testing import train_job, transition

FOLDER = ROOT / "docs" / "samples" / "plugins"


def load(name: str) -> ModuleType:
    """A module of the samples."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


POST, PLATEAU = load("post_plugin"), load("plateau_plugin")


class Hook:
    """A server that keeps what is sent to it."""

    def __init__(self) -> None:
        self.received: list[tuple[dict[str, Any], str | None]] = []
        self.code = 200
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.received.append((body, self.headers["Authorization"]))
                self.send_response(hook.code)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/train"


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_the_end_of_a_job_is_posted(hook: Hook, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    plugin = POST.PostPlugin(POST.Settings(url=hook.url, token_file=str(token)))
    transition(plugin, JobState.PENDING, JobState.RUNNING)
    transition(plugin, JobState.RUNNING, JobState.FAILED, reason="DeadlineExceeded")
    (received,) = hook.received
    wanted = {"namespace": "team", "name": "job", "uid": "u-1", "from": "Running", "to": "Failed"}
    more = {"reason": "DeadlineExceeded", "message": "so", "progressPercentage": None}
    assert received == ({**wanted, **more}, "Bearer secret")
    hook.code = 500
    with pytest.raises(OSError, match="500"):
        transition(plugin, JobState.RUNNING, JobState.COMPLETE)


def test_they_load_with_their_settings_where_they_are_enabled() -> None:
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    points: dict[str, str] = project["entry-points"]["trainwright.plugins"]
    candidates = [PluginCandidate(name, target, project["name"], project["version"]) for name, target in points.items()]
    assert [entry.name for entry in Registry.load(Selection(), candidates)] == []
    settings = {"Post": {"url": "https://example.com", "states": ["Failed"]}, "Plateau": {"betterBy": 0.1}}
    loaded = Registry.load(Selection(enabled=frozenset(points), settings=settings), candidates)
    assert {entry.name: entry.hooks for entry in loaded} == dict.fromkeys(("Plateau", "Post"), ("on_transition",))
    with pytest.raises(Exception, match="must begin with http"):
        Registry.load(Selection(enabled=frozenset({"Post"}), settings={"Post": {"url": "file:///etc"}}), candidates)


class Jobs:
    """One job of a cluster."""

    def __init__(self) -> None:
        self.metrics: list[dict[str, str]] = []
        self.reports = 0
        self.suspended: list[tuple[str, str, str]] = []
        self.looks = 0
        self.is_deleted = False
        self.changes_meanwhile = False

    def report(self, **metrics: str) -> None:
        self.reports += 1
        self.metrics = [{"name": name, "value": value} for name, value in metrics.items()]

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:
        self.looks += 1
        if self.is_deleted:
            return None
        status = {"lastUpdatedTime": str(self.reports), "metrics": self.metrics}
        metadata = {"namespace": namespace, "name": name, "resourceVersion": str(self.reports)}
        return {"metadata": metadata, "status": {"trainerStatus": status} if self.reports else {}}

    def suspend(self, namespace: str, name: str, version: str) -> bool:
        if not self.changes_meanwhile:
            self.suspended.append((namespace, name, version))
        return not self.changes_meanwhile


def test_a_job_on_a_plateau_is_suspended() -> None:
    plugin, jobs = PLATEAU.PlateauPlugin(PLATEAU.Settings(better_by=0.01, interval=3600)), Jobs()
    plugin._jobs = jobs
    asks = train_job(metadata={"annotations": {PLATEAU.ANNOTATION: "3"}})
    transition(plugin, JobState.PENDING, JobState.RUNNING, job=train_job(metadata={"name": "other"}))
    transition(plugin, JobState.PENDING, JobState.RUNNING, job=asks)
    plugin._look()  # it has not reported yet
    for loss in ("1.0", "0.5", "0.499", "0.4", "nan", "0.395", "x"):
        assert jobs.suspended == []
        jobs.report(loss=loss, other="0")
        plugin._look()
        plugin._look()  # the same report again
    assert jobs.suspended[0] == ("team", "job", "7")
    transition(plugin, JobState.RUNNING, JobState.SUSPENDED, job=asks)
    jobs.suspended.clear()
    plugin._look()
    transition(plugin, JobState.SUSPENDED, JobState.RUNNING, job=asks)
    plugin._look()  # begins anew
    assert jobs.suspended == []


def test_a_job_that_changes_meanwhile_is_suspended_by_the_next_look(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    plugin, jobs = PLATEAU.PlateauPlugin(PLATEAU.Settings(interval=3600)), Jobs()
    plugin._jobs = jobs
    asks = train_job(metadata={"annotations": {PLATEAU.ANNOTATION: "1"}})
    transition(plugin, JobState.PENDING, JobState.RUNNING, job=asks)
    for _ in range(2):
        jobs.report(loss="1.0")
        plugin._look()
        jobs.changes_meanwhile = True
    assert jobs.suspended == []
    assert caplog.messages == []
    jobs.changes_meanwhile = False
    plugin._look()
    assert jobs.suspended == [("team", "job", "2")]
    assert "is suspended" in caplog.text


def test_a_job_that_is_deleted_is_followed_no_more() -> None:
    plugin, jobs = PLATEAU.PlateauPlugin(PLATEAU.Settings(interval=3600)), Jobs()
    plugin._jobs = jobs
    asks = train_job(metadata={"annotations": {PLATEAU.ANNOTATION: "3"}})
    transition(plugin, JobState.PENDING, JobState.RUNNING, job=asks)
    jobs.is_deleted = True
    plugin._look()
    plugin._look()
    assert jobs.looks == 1
