# SPDX-License-Identifier: Apache-2.0
"""A program for the election tests: a replica whose leader-elected work writes without pause.

It ignores every error on purpose: only the runtime must stop a replica that does not lead from writing.
"""

import argparse
import asyncio
import logging
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.controller.runtime import NO_SERVERS, Manager, ProcessSettings, load_config, run
from trainwright.controller.runtime.errors import AlreadyExists, KubernetesError
from trainwright.controller.runtime.leaderelection.elector import LeaderElector
from trainwright.controller.runtime.leaderelection.fence import Timing
from trainwright.controller.runtime.manager.supervisor import Group

log = logging.getLogger(__name__)

WRITERS = 4
PAUSE_SECONDS = 0.01
TARGET = "written"


class Writer:
    """Writes to one object as fast as the server lets it."""

    def __init__(self, manager: Manager, namespace: str, name: str) -> None:
        self._client = manager.client
        self._namespace = namespace
        self._name = name

    async def run(self) -> None:
        """Write until cancelled."""
        for number in count():
            try:
                await self._write(number)
            except KubernetesError as error:
                log.debug("%s", error)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _write(self, number: int) -> None:
        patch = {"data": {self._name: str(number)}}
        if number == 0:
            metadata = {"name": TARGET, "namespace": self._namespace}
            with suppress(AlreadyExists):
                await self._client.create({"metadata": metadata}, kind=ConfigMap.RESOURCE)
        await self._client.patch(ConfigMap, TARGET, self._namespace, patch)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--timing", required=True, help="lease,renew,retry in seconds")
    arguments = parser.parse_args()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    lease, renew, retry = map(float, arguments.timing.split(","))

    def make() -> Manager:
        config = load_config(arguments.kubeconfig)
        elector = LeaderElector(
            config,
            "replicas",
            arguments.namespace,
            identity=arguments.name,
            timing=Timing(lease=lease, renew=renew, retry=retry),
            user_agent=arguments.name,
        )
        manager = Manager(
            config,
            user_agent=arguments.name,
            servers=NO_SERVERS,
            process=ProcessSettings(grace=5.0),
            elector=elector,
        )
        for index in range(WRITERS):
            manager.add(Writer(manager, arguments.namespace, f"{arguments.name}-{index}"), Group.LEADER)
        return manager

    return run(make)


if __name__ == "__main__":
    raise SystemExit(main())
