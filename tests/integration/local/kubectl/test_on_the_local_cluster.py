# SPDX-License-Identifier: Apache-2.0
"""kubectl against a local cluster with a running pod: exec, logs, tokens, questions of access."""

import asyncio
import base64
import json
import os
import pty
import re
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from trainwright.controller.local.cluster import local_cluster
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.waiting import eventually

pytestmark = pytest.mark.real_control_plane("kubectl")

SECONDS = 60.0
PROGRAM = "import time\nprint('first', flush=True)\ntime.sleep(600)"

ASKS = """
import json, os, ssl, sys, urllib.request
folder, host, port = sys.argv[1], os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
headers = {"Authorization": "Bearer " + open(folder + "/token").read(), "Content-Type": "application/json"}
url = f"https://{host}:{port}/apis/authentication.k8s.io/v1/selfsubjectreviews"
trusted = ssl.create_default_context(cafile=folder + "/ca.crt")
answer = urllib.request.urlopen(urllib.request.Request(url, b"{}", headers), context=trusted)
user = json.load(answer)["status"]["userInfo"]
print(open(folder + "/namespace").read(), user["username"], *user["extra"]["authentication.kubernetes.io/pod-name"])
"""


class Done(NamedTuple):
    """A finished command."""

    code: int
    out: str
    err: str


class Kubectl:
    """Runs kubectl without blocking the cluster, which is in this process."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._command = [str(provide(["kubectl"])["kubectl"]), f"--kubeconfig={kubeconfig}", f"--cache-dir={folder}"]
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("KUBE")}
        self._environment = inherited | {"KUBERC": "off"}

    async def __call__(self, *arguments: str, stdin: bytes = b"", terminal: int | None = None) -> Done:
        """Run it to its end. With a terminal, that is its standard input."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            *arguments,
            stdin=asyncio.subprocess.PIPE if terminal is None else terminal,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
        )
        try:
            async with asyncio.timeout(SECONDS):
                out, err = await process.communicate(stdin if terminal is None else None)
        except TimeoutError:
            process.kill()
            await process.communicate()
            raise
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())

    @asynccontextmanager
    async def running(self, *arguments: str) -> AsyncIterator["Running"]:
        """Run it for the length of the block."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*self._command, *arguments, stdout=pipe, env=self._environment)
        try:
            yield Running(process)
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.communicate()


class Running:
    """A command that runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> str:
        """The next line of its output."""
        assert self._process.stdout is not None
        return (await asyncio.wait_for(self._process.stdout.readline(), SECONDS)).decode()


def manifest(name: str, code: str, *arguments: str) -> bytes:
    container = {"name": "main", "image": "python", "command": ["python", "-c", code, *arguments]}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}).encode()


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """kubectl for a cluster in which a pod `p` runs."""
    settings = NodeSettings(name="laptop", folder=tmp_path / "state", isolation=Isolation.REWRITE)
    async with local_cluster(settings, memory=True) as cluster:
        made = Kubectl(cluster.api.kubeconfig, tmp_path / "kubectl")
        await made("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
        assert await made("create", "-f", "-", stdin=manifest("p", PROGRAM)) == (0, "pod/p created\n", "")
        ready = await made("wait", "--for=condition=Ready", "pod/p", "--timeout=30s")
        assert ready.code == 0, ready.err
        yield made


async def test_exec(kubectl: Kubectl) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    done = await kubectl("exec", "p", "--", "python", "-c", code)
    assert done == (3, "out\n", "err\ncommand terminated with exit code 3\n")
    # More than fits into pipes and sockets, and an end of the input that the process sees.
    big = os.urandom(500_000).hex().encode()
    done = await kubectl("exec", "-i", "p", "--", "cat", stdin=big)
    assert (done.code, done.out == big.decode(), done.err) == (0, True, "")
    done = await kubectl("exec", "p", "--", "no-such-program")
    assert done.code == 1
    assert "executable file not found" in done.err
    done = await kubectl("exec", "p", "-c", "other", "--", "ls")
    assert "container other is not valid for pod p" in done.err
    variable = await kubectl("exec", "p", "--", "sh", "-c", "env | grep ^KUBERNETES_SERVICE_HOST=")
    assert variable.out == "KUBERNETES_SERVICE_HOST=127.0.0.1\n"


async def test_exec_with_a_terminal(kubectl: Kubectl) -> None:
    ours, theirs = pty.openpty()
    try:
        done = await kubectl(
            "exec", "-i", "-t", "p", "--", "sh", "-c", "test -t 0 && test -t 1 && exit 7", terminal=theirs
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.code == 7, done


LISTENS = """
import http.server, pathlib
class Counts(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(sent[::-1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Counts)
print(server.server_port, flush=True)
server.serve_forever()
"""


def posted(port: str, data: bytes) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", data=data) as answer:
        found: bytes = answer.read()
    return found


async def test_port_forward(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=manifest("listens", LISTENS))
    await kubectl("wait", "--for=condition=Ready", "pod/listens", "--timeout=30s")
    listens = (await eventually(lambda: kubectl("logs", "listens"), lambda done: done.out.endswith("\n"))).out.strip()
    async with kubectl.running("port-forward", "--address=127.0.0.1", "pod/listens", f":{listens}", ":1") as forwarding:
        said = [await forwarding.line(), await forwarding.line()]
        ports = {to: said_port for said_port, to in (re.findall(r"\d+", one)[-2:] for one in said)}
        big = os.urandom(3_000_000)
        sent = [asyncio.to_thread(posted, ports[listens], data) for data in (b"abc", big, b"", big)]
        assert await asyncio.gather(*sent) == [b"cba", big[::-1], b"", big[::-1]]
        with pytest.raises(ConnectionError):
            await asyncio.to_thread(posted, ports["1"], b"")


async def test_logs_are_followed_to_the_end_of_the_pod(kubectl: Kubectl) -> None:
    code = "import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.2)"
    await kubectl("create", "-f", "-", stdin=manifest("short", code))
    await kubectl("wait", "--for=jsonpath={.status.startTime}", "pod/short", "--timeout=30s")
    await kubectl("wait", "--for=jsonpath={.status.containerStatuses[0].started}", "pod/short", "--timeout=30s")
    assert await kubectl("logs", "-f", "short") == (0, "0\n1\n2\n", "")
    assert (await kubectl("logs", "p")).out == "first\n"


async def test_who_and_what(kubectl: Kubectl) -> None:
    assert await kubectl("auth", "can-i", "create", "pods") == (0, "yes\n", "")
    assert "kubernetes-admin" in (await kubectl("auth", "whoami")).out
    token = (await kubectl("create", "token", "default", "--duration=20m")).out.strip()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert (claims["sub"], claims["exp"] - claims["iat"]) == ("system:serviceaccount:default:default", 1200)
    whoami = await kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", f"--token={token}")
    # The administrator's token of the kubeconfig yields to one that is given.
    assert whoami.out == "system:serviceaccount:default:default"
    done = await kubectl("create", "token", "default", "--duration=1m")
    assert "spec.expirationSeconds" in done.err


async def test_a_pod_asks_the_api_server_with_its_own_token(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=manifest("asks", ASKS, "/var/run/secrets/kubernetes.io/serviceaccount"))
    done = await kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/asks", "--timeout=30s")
    logs = await kubectl("logs", "asks")
    assert logs.out == "default system:serviceaccount:default:default asks\n", (done, logs)


async def test_what_get_prints_of_several_objects_can_be_applied(kubectl: Kubectl) -> None:
    """A `kind: List`, whose items kubectl would validate by the models of OpenAPI v2."""
    for name in ("a", "b"):
        assert (await kubectl("create", "configmap", name, "--from-literal=key=old")).code == 0
    shown = await kubectl("get", "configmap", "a", "b", "-o", "json")
    changed = shown.out.replace('"old"', '"new"').encode()
    assert await kubectl("replace", "-f", "-", stdin=changed) == (0, "configmap/a replaced\nconfigmap/b replaced\n", "")
    misspelled = shown.out.replace('"data"', '"dats"').encode()
    done = await kubectl("replace", "-f", "-", stdin=misspelled)
    assert done.code == 1
    assert 'unknown field "dats"' in done.err
    assert (await kubectl("get", "configmap", "a", "-o", "jsonpath={.data.key}")).out == "new"


async def test_what_there_is(kubectl: Kubectl) -> None:
    """Discovery and OpenAPI, as kubectl reads them."""
    explained = (await kubectl("explain", "job.spec.completions")).out
    assert "GROUP:      batch" in explained
    assert "FIELD: completions <integer>" in explained
    assert "fieldRef\t<ObjectFieldSelector>" in (await kubectl("explain", "pods.spec.containers.env.valueFrom")).out
    explained = (await kubectl("explain", "jobsets.spec.successPolicy", "--recursive")).out
    assert "operator\t<string>" in explained
    listed = (await kubectl("api-resources", "--no-headers", "-o", "name")).out
    assert {"pods", "jobs.batch", "jobsets.jobset.x-k8s.io"} <= set(listed.split())
    assert "jobs.batch" in (await kubectl("api-resources", "--no-headers", "-o", "name", "--categories=all")).out
