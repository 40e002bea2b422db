# SPDX-License-Identifier: Apache-2.0
"""Soak of the tokens of progress reports: random Authorization headers and changed tokens, 10,000 in a round.

A manager serves reports beside a real API server. Clients send headers that must be refused, over TLS connections that
they keep, and in between reports with a real token that is bound to a pod, which must be accepted. Printed per round:
answers by code, and the memory of the manager. Exit code 1 if a wrong header was answered with anything but 403, or 400
where it is no HTTP, if a right one was not answered with 200, or if the memory grew.
"""

import argparse
import asyncio
import json
import random
import ssl
from collections import Counter
from pathlib import Path
from typing import Any, Self

from tests.managers import start_manager
from tests.unit.trainer.headers import changed, random_header
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET_UID
from trainwright.api.trainer.v1alpha1.progress import report_audience
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.waiting import eventually_sync

CRDS = Path(__file__).parents[2] / "config" / "crd"
HEADERS = 10_000
CLIENTS = 8
RIGHT = 100
"""Of so many reports one has the right token."""
GROWTH_MB = 8.0
"""The most by which the memory may grow after the second round."""
NAME = "job"


class Connection:
    """A kept connection to the status server, which is opened again after it was closed."""

    def __init__(self, port: int, namespace: str) -> None:
        self._port = port
        self._path = f"/apis/{report_audience(namespace, NAME)}"
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def report(self, authorization: str) -> int:
        """The code of the answer to an empty report; 0: the connection was closed without one."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls)
        reader, writer = self._streams
        head = f"POST {self._path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nAuthorization: {authorization}\r\n\r\n"
        try:
            writer.write(head.encode(errors="surrogateescape") + b"{}")
            await writer.drain()
            answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            await reader.readexactly(int(answer.split("content-length:")[1].split()[0]))
        except (OSError, asyncio.IncompleteReadError):
            await self._close()
            return 0
        if "connection: close" in answer or answer.startswith("http/1.0"):
            await self._close()
        return int(answer.split()[1])

    async def _close(self) -> None:
        if self._streams is not None:
            (_, writer), self._streams = self._streams, None
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def one_round(port: int, namespace: str, valid: str, others: list[str], seed: int) -> tuple[Counter[int], int]:
    """Send the headers; returns the answers to the wrong ones by code, and how many were wrong, right ones included."""
    chance = random.Random(seed)
    codes: Counter[int] = Counter()
    wrong = 0

    async def client() -> None:
        nonlocal wrong
        async with Connection(port, namespace) as connection:
            for number in range(HEADERS // CLIENTS):
                if number % RIGHT == 0:
                    code = await connection.report(f"Bearer {valid}")
                    if code != 200:
                        wrong += 1
                        print(f"  the right token: {code}", flush=True)
                header = random_header(chance) if chance.random() < 0.5 else f"Bearer {changed(chance, valid, others)}"
                if header.split()[1:] == [valid]:
                    continue  # the change changed nothing
                code = await connection.report(header)
                codes[code] += 1
                if code not in {400, 403} and not (code == 0 and not header.isprintable()):
                    wrong += 1
                    print(f"  {code}: {header[:200]!r}", flush=True)

    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(client())
    return codes, wrong


class Setting:
    """A TrainJob that no manager touches, its JobSet and its pod."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.namespace = plane.create_namespace("soak")
        self._create("v1", "ServiceAccount", "training")
        spec = {"runtimeRef": {"name": "none"}, "managedBy": "kueue.x-k8s.io/multikueue"}
        job = self._create("trainer.kubeflow.org/v1alpha1", "TrainJob", NAME, spec=spec)
        owner = {"apiVersion": job["apiVersion"], "kind": "TrainJob", "name": NAME, "controller": True}
        owners = [{**owner, "uid": job["metadata"]["uid"]}]
        jobset = self._create(
            "jobset.x-k8s.io/v1alpha2", "JobSet", NAME, {"ownerReferences": owners}, spec={"replicatedJobs": []}
        )
        labels = {LABEL_JOBSET_UID: jobset["metadata"]["uid"]}
        pod = {"serviceAccountName": "training", "containers": [{"name": "node", "image": "example.com/none"}]}
        self._create("v1", "Pod", "pod", {"labels": labels}, spec=pod)

    def token(self, name: str = NAME) -> str:
        """A new token of the pod, for reports of a TrainJob."""
        bound = [
            "--bound-object-kind=Pod",
            "--bound-object-name=pod",
            f"--audience={report_audience(self.namespace, name)}",
        ]
        return self._plane.kubectl("create", "token", "training", f"--namespace={self.namespace}", *bound).strip()

    def _create(
        self, version: str, kind: str, name: str, metadata: dict[str, Any] | None = None, **fields: Any
    ) -> dict[str, Any]:
        about = {"name": name, "namespace": self.namespace, **(metadata or {})}
        document = {"apiVersion": version, "kind": kind, "metadata": about, **fields}
        made: dict[str, Any] = json.loads(
            self._plane.kubectl("create", "--filename=-", "--output=json", stdin=json.dumps(document))
        )
        return made


def soak(rounds: int, seed: int) -> int:
    """So many rounds on one control plane; returns the exit code."""
    wrong, memory = 0, []
    crds = [CRDS, provide(["jobset-manager"]).manifests["jobset-crd.yaml"]]
    with ControlPlane(crds=crds) as plane:
        port, setting = free_port(), Setting(plane)
        gates, server, webhook = {"TrainJobStatus": True}, {"port": port}, {"host": "127.0.0.1"}
        manager = start_manager(plane, featureGates=gates, statusServer=server, webhook=webhook)
        eventually_sync(lambda: asyncio.run(_accepts(port, setting)), seconds=60)
        for number in range(rounds):
            valid, others = setting.token(), [setting.token("other"), setting.token()]
            codes, found = asyncio.run(one_round(port, setting.namespace, valid, others, seed + number))
            wrong += found
            memory.append(_memory_mb(manager.program_pid))
            told = "  ".join(f"{code}: {count}" for code, count in sorted(codes.items()))
            print(f"after round {number + 1:3}: {told}  wrong {wrong}  memory {memory[-1]:.1f} MB", flush=True)
    growth = memory[-1] - memory[min(1, len(memory) - 1)]
    print(f"headers: {rounds * HEADERS}; wrong: {wrong}; memory grew by {growth:.1f} MB")
    return 1 if wrong or growth > GROWTH_MB else 0


async def _accepts(port: int, setting: Setting) -> bool:
    async with Connection(port, setting.namespace) as connection:
        return await connection.report(f"Bearer {setting.token()}") == 200


def _memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help=f"rounds of {HEADERS} headers (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="of the first round, to see it again (default: a random one)")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(10**9)
    print(f"seed {seed}", flush=True)
    return soak(arguments.rounds, seed)


if __name__ == "__main__":
    raise SystemExit(main())
