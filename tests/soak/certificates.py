# SPDX-License-Identifier: Apache-2.0
"""Soak of admission while its certificates are replaced, with counts.

Each round begins with an empty namespace and two replicas that start at once, and must end with one authority. Then
the authority is replaced again and again, with two seconds where ten minutes would be, and once the Secret is deleted,
while requests pass through both replicas without pause. Meanwhile clients connect to both replicas that loaded the
authorities at their start only, as training does: one of each bundle that there was in the round. Printed per round:
requests and connections, how many of them failed, authorities, certificates served, and writes of the Secret. Exit
code 1 if a request or a connection failed, or two replicas began with two authorities.
"""

import argparse
import asyncio
import logging
import ssl
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.serialization import Encoding

from tests.integration.runtime.admissions import (
    QUICK_ROTATION,
    VALIDATING,
    Trainings,
    asked,
    config_map,
    configuration,
    create,
    existing,
    hooks,
    keeper_of,
    serving,
)
from trainwright.api.kubernetes.core.v1 import ConfigMap, Secret
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.errors import KubernetesError
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.runtime.webhook.admission import validate_path
from trainwright.controller.runtime.webhook.webhooks import SharedCertificates, Webhooks

AT_ONCE = 8
AUTHORITIES = 5
"""Of a round, the first one included."""


@dataclass
class Count:
    """What happened so far."""

    requests: int = 0
    failed: int = 0
    connections: int = 0
    lost: int = 0
    """Connections that failed."""
    writes: int = 0
    two_at_once: int = 0
    """Rounds in which replicas that started at once did not agree."""
    authorities: set[bytes] = field(default_factory=set)
    served: set[str] = field(default_factory=set)

    def look(self, replicas: tuple[Webhooks, ...]) -> None:
        """Note what the replicas serve now."""
        for replica in replicas:
            self.served.add(replica.serving.fingerprint)
            if (material := keeper_of(replica).material) is not None:
                self.authorities.add(material.signing.certificate.public_bytes(Encoding.PEM))

    def line(self) -> str:
        """One line of the report."""
        return (
            f"requests {self.requests:6}  failed {self.failed}"
            f"  connections {self.connections:6}  failed {self.lost}  authorities {len(self.authorities):3}"
            f"  certificates {len(self.served):3}  writes {self.writes:3}  disagreed {self.two_at_once}"
        )


async def one_round(client: Client, namespace: str, count: Count) -> None:
    """Two replicas from nothing to the last authority."""
    ports = free_port(), free_port()
    urls = [{"url": f"https://127.0.0.1:{port}{validate_path(ConfigMap)}"} for port in ports]
    shared = SharedCertificates(secret="cert", namespace=namespace, hosts=["127.0.0.1"], policy=QUICK_ROTATION)
    before = len(count.authorities)
    trainings = Trainings()

    async def train(replicas: tuple[Webhooks, ...]) -> None:
        while len(count.authorities) < before + AUTHORITIES:
            for replica in replicas:
                if (material := keeper_of(replica).material) is not None:
                    trainings.start(material.bundle)
            try:
                count.connections += await trainings.connect(*ports)
            except (ssl.SSLError, OSError) as error:
                count.lost += 1
                print(f"failed: {error}", flush=True)

    async def ask(replicas: tuple[Webhooks, ...]) -> None:
        while len(count.authorities) < before + AUTHORITIES:
            count.requests += 1
            try:
                await create(client, config_map(namespace, f"r-{count.requests}"), dry_run=True)
            except KubernetesError as error:
                count.failed += 1
                print(f"failed: {error}", flush=True)
            count.look(replicas)

    async with existing(client, configuration(VALIDATING.kind, namespace, *urls)) as document:
        replicas = tuple(hooks(client, [document], shared, port) for port in ports)
        async with serving(*replicas):
            count.look(replicas)
            count.two_at_once += len(count.authorities) != before + 1
            await asked(client, namespace, bool)
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(ask(replicas))
                group.create_task(train(replicas))
                await eventually(lambda: count.authorities, lambda seen: len(seen) >= before + 2, seconds=600)
                await client.delete(Secret, "cert", namespace)
        count.writes += sum(keeper_of(replica).statistics.writes for replica in replicas)


async def soak(rounds: int) -> int:
    """So many rounds on one control plane."""
    count = Count()
    with ControlPlane() as plane:
        client = Client(HTTPTransport(load_config(plane.kubeconfig)), user_agent="soak")
        try:
            for number in range(1, rounds + 1):
                await one_round(client, plane.create_namespace("soak"), count)
                print(f"after round {number:3}: {count.line()}", flush=True)
        finally:
            await client.close()
    return 1 if count.failed or count.lost or count.two_at_once else 0


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="rounds (default: 10)")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)  # the webhook warns in each answer
    return asyncio.run(soak(arguments.rounds))


if __name__ == "__main__":
    raise SystemExit(main())
