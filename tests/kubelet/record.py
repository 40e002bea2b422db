# SPDX-License-Identifier: Apache-2.0
"""Records what pods do on a real node: `python -m tests.kubelet.record [AREA ...]`.

Needs root on Linux, and builds what is not in the cache. A case that cannot be run keeps its recording, and fails the
program. tests/node/test_recorded_pods.py compares the recordings with the node again.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

from hack.node.cluster import NodeCluster
from tests.kubelet import answers, model
from tests.kubelet.answers import Document
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request


async def recorded_on(cluster: NodeCluster, cases: Sequence[model.Case]) -> dict[str, list[Document] | Exception]:
    """The answers of cases by their names, or what ended them."""
    client = _client(cluster)
    try:
        return await answers.run_all(client, cluster.create_namespace, cases)
    finally:
        await client.close()


async def _version(cluster: NodeCluster) -> str:
    client = _client(cluster)
    try:
        answer = await client.send(Request("GET", "/version"))
    finally:
        await client.close()
    return str(json.loads(answer.body)["gitVersion"])


def _client(cluster: NodeCluster) -> Client:
    return Client(HTTPTransport(load_config(cluster.folder / "admin.kubeconfig")), user_agent="recorder")


def _keep(area: str, version: str, found: dict[str, list[Document] | Exception]) -> int:
    """Write the recordings of an area; returns how many cases failed."""
    before, made = answers.read(area), {}
    for name, result in found.items():
        if isinstance(result, Exception):
            print(f"{area}: {name}: {result}", file=sys.stderr)
            if name in before:
                made[name] = before[name]
        else:
            made[name] = result
    answers.write(area, version, made)
    failed = sum(isinstance(result, Exception) for result in found.values())
    print(f"{area}: {len(found) - failed} of {len(found)} recorded", file=sys.stderr, flush=True)
    return failed


def main() -> int:
    """Run the program; returns its exit code."""
    cases = model.load_all()
    areas = sorted({case.area for case in cases})
    parser = argparse.ArgumentParser(description="Record what pods do on a real node.")
    parser.add_argument("areas", nargs="*", help=f"default: all of {', '.join(areas)}")
    options = parser.parse_args()
    if unknown := set(options.areas) - set(areas):
        parser.error(f"no such areas: {', '.join(sorted(unknown))}")
    failed = 0
    with NodeCluster(jobset=False) as cluster:
        version = asyncio.run(_version(cluster))
        for area in options.areas or areas:
            found = asyncio.run(recorded_on(cluster, [case for case in cases if case.area == area]))
            failed += _keep(area, version, found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
