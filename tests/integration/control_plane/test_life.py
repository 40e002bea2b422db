# SPDX-License-Identifier: Apache-2.0
"""Starting and stopping control planes: side by side, failed starts, crashes, restarts, refusals."""

import contextlib
import http.server
import itertools
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import heeding
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.waiting import equals, eventually_sync

pytestmark = pytest.mark.real_control_plane("starts and stops it")

# A test process of its own: starts a control plane, says where, and waits to be killed.
VICTIM = """
import time
from trainwright.controller.runtime.testing import ControlPlane
with ControlPlane() as control_plane:
    print(control_plane.folder, flush=True)
    time.sleep(600)
"""


def processes_of(folder: Path) -> list[str]:
    """Command lines that name the folder, except those of tests like these."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(folder) in command:
            found.append(command)
    return found


def wait_until_gone(folder: Path) -> None:
    eventually_sync(lambda: (folder.exists(), processes_of(folder)), equals((False, [])), seconds=30)


def test_two_run_side_by_side_and_leave_nothing() -> None:
    with ControlPlane() as one, ControlPlane() as two:
        assert one.url != two.url
        one.kubectl("create", "namespace", "only-in-one")
        assert "only-in-one" not in two.kubectl("get", "namespaces")
        folders = [one.folder, two.folder]
        assert all(processes_of(folder) for folder in folders)
    for folder in folders:
        assert not folder.exists()
        assert processes_of(folder) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_outlives_the_test_process(number: signal.Signals) -> None:
    with subprocess.Popen(
        heeding(sys.executable, "-c", VICTIM), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as victim:
        assert victim.stdout is not None
        folder = Path(victim.stdout.readline().decode().strip())
        assert processes_of(folder)
        victim.send_signal(number)
        victim.wait()
    wait_until_gone(folder)


def test_a_start_that_fails_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    control_plane = ControlPlane(crds=[tmp_path / "missing.yaml"])
    with pytest.raises(ControlPlaneError, match=r"missing\.yaml"):
        control_plane.start()
    assert list(tmp_path.iterdir()) == []
    assert processes_of(tmp_path) == []
    with pytest.raises(ControlPlaneError, match="is not running"):
        _ = control_plane.url
    control_plane.stop()


@pytest.mark.parametrize("lasts", [{}, {"etcd": 1}, {"kube-apiserver": 1}], ids=["both", "etcd", "kube-apiserver"])
def test_a_program_that_cannot_start_is_named_with_its_last_words(tmp_path: Path, lasts: dict[str, int]) -> None:
    """It is etcd, which was started first, however late its end is seen: the API server ends without it."""
    for name in ("etcd", "kube-apiserver", "kubectl"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\nsleep {lasts.get(name, 0)}\necho I cannot go on >&2\nexit 7\n")
        program.chmod(0o755)
    with pytest.raises(ControlPlaneError, match=r"(?s)^etcd ended with code 7 while starting.*I cannot go on"):
        ControlPlane(assets=tmp_path).start()


def test_a_program_that_ends_beside_a_healthy_one_is_named(tmp_path: Path, control_plane: ControlPlane) -> None:
    healthy = control_plane.provide()
    for name in ("etcd", "kubectl"):
        (tmp_path / name).symlink_to(healthy[name])
    program = tmp_path / "kube-apiserver"
    program.write_text("#!/bin/sh\necho I cannot go on >&2\nexit 7\n")
    program.chmod(0o755)
    with pytest.raises(ControlPlaneError, match=r"(?s)^kube-apiserver ended with code 7.*I cannot go on"):
        ControlPlane(assets=tmp_path).start()


def test_a_port_that_is_taken_is_refused_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(ControlPlaneError, match=f"port {port} on 127.0.0.1 is in use"):
            ControlPlane(port=port).start()


class Impostor(http.server.BaseHTTPRequestHandler):
    """Answers as any program that is asked for its health would."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Keep quiet."""


@contextlib.contextmanager
def impostor() -> Iterator[int]:
    """The port of a server that is none of ours and says that it is well."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Impostor) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_a_port_that_another_takes_meanwhile_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = itertools.count()
    # In the order in which ports are looked for: API server, etcd (taken), its peers; again, all free; controller
    # manager, scheduler, JobSet's webhooks (all taken) and health; then those that are started anew.
    taken = {1, 6, 7, 8}
    with impostor() as port:
        monkeypatch.setattr(
            "trainwright.controller.runtime.testing.control_plane.free_port",
            lambda: port if next(asked) in taken else free_port(),
        )
        with ControlPlane(controller_manager=True, scheduler=True, jobset=True) as control_plane:
            commands = [" ".join(component.command) for component in control_plane.components.values()]
            webhooks = json.loads(control_plane.kubectl("get", "validatingwebhookconfigurations", "--output=json"))
            urls = [webhook["clientConfig"]["url"] for item in webhooks["items"] for webhook in item["webhooks"]]
            assert list(control_plane.components)[:2] == ["etcd", "kube-apiserver"]
            assert len(commands) == 5
            assert urls
            assert not any(str(port) in text for text in [*commands, *urls])
            assert "default" in control_plane.kubectl("get", "namespaces")
    assert next(asked) > max(taken)


def test_pretend_nodes_may_have_company_when_kwok_is_started_again() -> None:
    with ControlPlane(kwok_nodes=1) as control_plane:
        metadata = {"name": "another", "annotations": {"kwok.x-k8s.io/node": "fake"}}
        control_plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        control_plane.kubectl("wait", "node/another", "--for=condition=Ready", "--timeout=60s")
        control_plane.restart("kwok")
        assert control_plane.components["kwok"].running


def test_a_program_of_the_tests_own_has_a_name_of_its_own() -> None:
    with ControlPlane() as control_plane:
        with pytest.raises(ControlPlaneError, match="a program named etcd is already running"):
            control_plane.launch("etcd", ["sleep", "600"])
        with pytest.raises(ControlPlaneError, match="no program named mine; running are etcd, kube-apiserver"):
            control_plane.stop_program("mine")
        with pytest.raises(ControlPlaneError, match=r"(?s)mine ended with code 3.*not today"):
            control_plane.launch("mine", ["sh", "-c", "echo not today; exit 3"], ready=lambda: False)
        # One that did not start leaves its name free.
        assert control_plane.launch("mine", ["sleep", "600"]).running


def test_a_crashed_api_server_comes_back_with_its_data() -> None:
    with ControlPlane() as control_plane:
        namespace = control_plane.create_namespace()
        url = control_plane.url
        control_plane.restart("kube-apiserver", kill=True)
        assert control_plane.url == url
        assert namespace in control_plane.kubectl("get", "namespaces")


def test_it_starts_once_and_stops_as_often_as_you_like() -> None:
    control_plane = ControlPlane()
    control_plane.start()
    try:
        with pytest.raises(ControlPlaneError, match="is already running"):
            control_plane.start()
        with pytest.raises(ControlPlaneError, match="audit=True"):
            _ = control_plane.audit_log
    finally:
        control_plane.stop()
    control_plane.stop()
