# SPDX-License-Identifier: Apache-2.0
"""Soak of the local API server's store: killed with SIGKILL in the middle of writes, again and again.

Several clients create, replace and delete ConfigMaps. After each kill the server starts again from its file: every
write that was answered is there, no object is there that nobody wrote, and a watch from the last version that was seen
goes on without a gap. Printed for each round: writes, and what is wrong. Exit code 1 if anything is.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import Document
from trainwright.controller.cli import state
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import KubernetesError

CLIENTS = 4
LONGEST_SECONDS = 0.6
COMMAND = (sys.executable, "-m", "trainwright.controller.cli.main", "local", "up", "--foreground", "--only=apiserver")


@dataclass
class Ledger:
    """What one client knows of its object."""

    answered: str | None = None
    """Content that the server said to have stored; None if it said that the object is gone, or never existed."""
    attempted: list[str | None] = field(default_factory=list)
    """Contents of writes that were sent after that, and not answered."""

    def allows(self, found: str | None) -> bool:
        """Whether the server may hold this content now."""
        return found == self.answered or found in self.attempted


async def write(client: Client, name: str, ledger: Ledger) -> int:
    """Write until the server is gone; gives the number of answered writes."""
    count = 0
    while True:
        number = f"{name}-{random.getrandbits(40)}"
        gone = ledger.answered is not None and random.random() < 0.2
        ledger.attempted.append(None if gone else number)
        try:
            if gone:
                await client.delete(ConfigMap, name, "default")
            else:
                body: Document = {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": name, "namespace": "default"},
                    "data": {"number": number},
                }
                if ledger.answered is None:
                    await client.create(body, kind=ConfigMap.RESOURCE)
                else:
                    await client.update(body, kind=ConfigMap.RESOURCE)
        except KubernetesError:
            return count
        ledger.answered = None if gone else number
        ledger.attempted.clear()
        count += 1


def start(folder: Path) -> "subprocess.Popen[bytes]":
    """Start the server; returns when it is ready."""
    process = subprocess.Popen([*COMMAND, f"--dir={folder}"], stdout=subprocess.DEVNULL)
    while (run := state.running(folder)) is None or run.pid != process.pid:
        if process.poll() is not None:
            raise SystemExit(f"the server did not start again: exit code {process.returncode}")
        time.sleep(0.01)
    return process


async def round_(folder: Path, ledgers: dict[str, Ledger], since: str) -> tuple[int, list[str], str]:
    """Start, look, write, kill. Gives the number of writes, what is wrong, and the last version that was seen."""
    process = await asyncio.to_thread(start, folder)
    transport = HTTPTransport(load_config(folder / "kubeconfig"))
    client = Client(transport, user_agent="durability")
    try:
        wrong, version = await check(client, transport, ledgers, since)
        writing = [asyncio.create_task(write(client, name, ledger)) for name, ledger in ledgers.items()]
        await asyncio.sleep(random.random() * LONGEST_SECONDS)
        os.kill(process.pid, signal.SIGKILL)
        counts = await asyncio.gather(*writing)
        return sum(counts), wrong, version
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await asyncio.to_thread(process.wait)
        await client.close()


async def check(
    client: Client, transport: HTTPTransport, ledgers: dict[str, Ledger], since: str
) -> tuple[list[str], str]:
    """Compare what the server holds with what it answered; go on with what it holds."""
    wrong: list[str] = []
    listed = await client.list(ConfigMap.RESOURCE, "default")
    held = {
        one["metadata"]["name"]: one["data"]["number"] for one in listed.items if "number" in (one.get("data") or {})
    }
    for name, ledger in ledgers.items():
        found = held.pop(name, None)
        if not ledger.allows(found):
            wrong.append(f"{name} is {found}, answered was {ledger.answered}, attempted {ledger.attempted}")
        ledger.answered, ledger.attempted = found, []
    wrong += [f"{name} was written by nobody" for name in held]
    if since:
        wrong += await gaps(transport, since, {name: ledger.answered for name, ledger in ledgers.items()})
    return wrong, listed.resource_version


async def gaps(transport: HTTPTransport, since: str, now: dict[str, str | None]) -> list[str]:
    """What a watch from an earlier version does not tell."""
    query = {"watch": "true", "resourceVersion": since, "timeoutSeconds": "1"}
    told: dict[str, str | None] = {}
    rest = b""
    async with (
        transport.open(Request("GET", "/api/v1/namespaces/default/configmaps", query=query, timeout=None)) as stream,
        aclosing(stream.chunks()) as chunks,
    ):
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return [f"the watch from {since} was refused: {event['object']['message']}"]
                name = event["object"]["metadata"]["name"]
                gone = event["type"] == "DELETED"
                told[name] = None if gone else (event["object"].get("data") or {}).get("number")
    return [
        f"the watch says {name} is {told[name]}, it is {now[name]}"
        for name in told
        if name in now and told[name] != now[name]
    ]


def soak(rounds: int) -> list[str]:
    """Kill so many times; gives what was wrong."""
    ledgers = {f"object-{number}": Ledger() for number in range(CLIENTS)}
    wrong: list[str] = []
    version = ""
    with tempfile.TemporaryDirectory() as name:
        for number in range(rounds):
            count, found, version = asyncio.run(round_(Path(name), ledgers, version))
            print(f"round {number + 1}: {count} writes answered, {len(found)} wrong", flush=True)
            for text in found:
                print(f"  {text}", flush=True)
            wrong += found
    return wrong


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50, help="number of kills (default: %(default)s)")
    return 1 if soak(parser.parse_args().rounds) else 0


if __name__ == "__main__":
    raise SystemExit(main())
