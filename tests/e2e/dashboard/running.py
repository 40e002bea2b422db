# SPDX-License-Identifier: Apache-2.0
"""`trainwright dashboard` as a process, a way to the API server that can be shut, and a local cluster."""

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.shell import TRAINWRIGHT, Shell

_GATE = """
import asyncio, sys

async def main():
    writers, way = set(), {"open": True}

    async def pump(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()

    async def connected(reader, writer):
        if not way["open"]:
            writer.transport.abort()
            return
        to_server, from_server = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
        if not way["open"]:  # it was shut meanwhile
            writer.transport.abort()
            from_server.transport.abort()
            return
        both = {writer, from_server}
        writers.update(both)
        await asyncio.gather(pump(reader, from_server), pump(to_server, writer))
        writers.difference_update(both)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    while word := (await asyncio.to_thread(sys.stdin.readline)).strip():
        way["open"] = word == "open"
        if word == "shut":
            for writer in list(writers):
                writer.transport.abort()
        print(word, flush=True)

asyncio.run(main())
"""
_RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: once, namespace: default}
spec:
  mlPolicy: {numNodes: 1}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            backoffLimit: 0
            template:
              spec:
                restartPolicy: Never
                containers: [{name: node, image: python}]
"""


@contextmanager
def dashboard(kubeconfig: Path, *arguments: str) -> Iterator[str]:
    """Serve a dashboard; yields its address, with the token."""
    command = [*TRAINWRIGHT, "dashboard", "--no-browser", f"--kubeconfig={kubeconfig}", *arguments]
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        yield found[0]
    finally:
        process.terminate()
        process.stdout.close()
        try:
            assert process.wait(30) == 0
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # says where it hangs
            process.wait()
            raise


class Gate:
    """A way to a port of this machine that can be shut: connections break, and new ones are refused.

    It is a process: a test must not leave connections behind, and the dashboard keeps its own.
    """

    def __init__(self, target: int) -> None:
        command = [sys.executable, "-c", _GATE, str(target)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._answer())

    def shut(self) -> None:
        """Break what is open, and refuse what comes."""
        self._tell("shut")

    def reopen(self) -> None:
        """Let everything through again."""
        self._tell("open")

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=30)

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        assert self._answer() == word

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


class LocalCluster(Shell):
    """A local cluster with the manager, as `trainwright local up` starts it."""

    def __init__(self, folder: Path, *, memory: bool = True) -> None:
        """`memory`: nothing of it outlives its process."""
        super().__init__(folder)
        self._memory = ("--memory",) if memory else ()
        self.up()
        config = yaml.safe_load(self.kubeconfig.read_text())
        self._server: str = config["clusters"][0]["cluster"]["server"]
        self._token: str = config["users"][0]["user"]["token"]
        self.port = int(self._server.rpartition(":")[2])

    def up(self, *arguments: str) -> str:
        """Start it; returns the address of its own dashboard."""
        done = self.local("up", *self._memory, *arguments)
        found = re.search(r"dashboard: (http://\S+)", done.stdout)
        assert found, done.stdout + done.stderr
        return found[1]

    def crash(self) -> None:
        """Kill its process."""
        os.kill(json.loads((self.cluster / "run.json").read_text())["pid"], signal.SIGKILL)

    def add_runtime(self) -> None:
        """Create the runtime `once`, whose jobs fail with their first pod: others try again for minutes."""
        runtimes = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainingruntimes"
        self.send("POST", runtimes, yaml.safe_load(_RUNTIME))

    def train(self, name: str, program: str, *, nodes: int = 1, once: bool = False) -> None:
        """Submit a job whose ranks run a program. `once`: of the runtime of that name."""
        file = Path(self.job(program, name, nodes=nodes, runtime="torch-distributed"))
        if once:
            file.write_text(
                file.read_text().replace("name: torch-distributed", "kind: TrainingRuntime\n    name: once")
            )
        done = self.local("run", "--detach", f"--file={file}")
        assert done.returncode == 0, done.stderr

    def kubeconfig_through(self, gate: Gate) -> Path:
        """A kubeconfig whose way to the cluster can be shut."""
        file = self.folder / "gate.kubeconfig"
        file.write_text(self.kubeconfig.read_text().replace(f":{self.port}", f":{gate.port}"))
        return file

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, kind: str = "json") -> Any:
        """Send a request to the API server."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": f"application/{kind}"}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self._server + path, data, headers, method=method)
        # The certificate is not what is tested here.
        context = ssl._create_unverified_context()
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return json.loads(answer.read())
