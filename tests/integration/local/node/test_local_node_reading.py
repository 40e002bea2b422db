# SPDX-License-Identifier: Apache-2.0
"""Reading files in a container with real programs: tail and Python, whatever the path leads to."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from tests.integration.local.node.conftest import Pods, laptop
from trainwright.api.objects import Key
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.progress import reading
from trainwright.controller.trainer.progress.metrics import ReadResult
from trainwright.controller.trainer.progress.reading import READ_BYTES, READERS, ContainerRef, interpret, read_file

NOW = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC)
TRUNCATES = """
import json
for number in range(10**9):
    with open("file", "w") as file:
        file.write(json.dumps({"progressPercentage": number % 100, "metrics": {"again": str(number % 100)}}))
"""


@dataclass
class Container:
    """A container that waits, with a folder of its own at /out."""

    client: Client
    place: ContainerRef

    async def sh(self, script: str) -> None:
        """Do something in it."""
        done = await self.client.exec(self.place.pod, self.place.namespace, ["sh", "-c", script])
        assert done.code == 0, done.stderr


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def container(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Container]:
    """One for all tests of the module."""
    async with laptop(tmp_path_factory.mktemp("cluster")) as client:
        pods = Pods(client, "default", "laptop")
        mounts = [{"name": "out", "mountPath": "/out"}]
        main = {"name": "main", "image": "python", "command": ["sleep", "600"], "volumeMounts": mounts}
        await pods.create(
            "p", containers=[main], volumes=[{"name": "out", "emptyDir": {}}], terminationGracePeriodSeconds=0
        )
        await pods.reach("p", "Running")
        yield Container(client, ContainerRef("default", "p", "main"))


pytestmark = pytest.mark.asyncio(loop_scope="module")

FILES = {
    "a document": ("printf '{\"progressPercentage\":7}' >F", ReadResult.OK, "ok"),
    "no file": ("true", ReadResult.MISSING, ""),
    "a dangling link": ("ln -s /nowhere F", ReadResult.MISSING, ""),
    "a folder": ("mkdir F", ReadResult.UNREADABLE, ""),
    "empty": (": >F", ReadResult.OK, "empty"),
    "binary": ("head -c 1000 /dev/urandom >F", ReadResult.OK, "corrupt"),
    "half of a document": ("printf '{\"progressPercentage\":7' >F", ReadResult.OK, "partial"),
    "a list": ("printf '[]' >F", ReadResult.OK, "corrupt"),
    "ten megabytes": ("head -c 10000000 /dev/zero >F", ReadResult.OK, "too_large"),
    "not UTF-8": ('printf \'{"message":"\\377"}\' >F', ReadResult.OK, "corrupt"),
    "torn lines": (
        "for n in $(seq 10000); do echo '{\"progressPercentage\":8}'; done >F; printf '{\"progr' >>F",
        ReadResult.OK,
        "ok",
    ),
}


@pytest.mark.parametrize("reader", range(len(READERS)), ids=[command[0] for command in READERS])
@pytest.mark.parametrize(("script", "result", "content"), FILES.values(), ids=list(FILES))
async def test_what_a_path_may_lead_to(
    container: Container, script: str, result: ReadResult, content: str, reader: int
) -> None:
    """Scenarios 42, 43, 45 and 46 of the page on progress."""
    await container.sh(f"cd /out; rm -rf F; {script}")
    found = await read_file(container.client, container.place, "/out/F", reader)
    assert (found.result, found.reader) == (result, reader), found.detail
    assert len(found.data) <= READ_BYTES
    if content:
        got = interpret(Key("n", "j"), found.data, seen=NOW, now=NOW, interval=30)
        assert got.result == content, got.detail
    else:
        assert found.detail


async def test_programs_that_the_image_lacks(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenario 47 of the page on progress."""
    await container.sh("cd /out; rm -rf F; printf '{}' >F")
    monkeypatch.setattr(reading, "READERS", (("no-such-tail", "-c"), READERS[1]))
    found = await read_file(container.client, container.place, "/out/F")
    assert (found.result, found.reader) == (ReadResult.OK, 1), found.detail
    monkeypatch.setattr(reading, "READERS", (("no-such-tail", "-c"), ("no-such-python", "-I")))
    found = await read_file(container.client, container.place, "/out/F")
    assert (found.result, found.detail) == (
        ReadResult.NO_READER,
        "the image has neither no-such-tail nor no-such-python",
    )


async def test_a_pipe_costs_two_time_outs_and_leaves_no_process(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SECONDS", 3.0)
    await container.sh("cd /out; rm -rf *; mkfifo pipe-of-this-test")
    for reader in range(len(READERS)):
        found = await read_file(container.client, container.place, "/out/pipe-of-this-test", reader)
        assert found.result is ReadResult.TIMEOUT
    await eventually(lambda: readers_of("/pipe-of-this-test"), lambda found: not found, what="no reader is left")


async def readers_of(path: str) -> list[str]:
    """The processes that were given this path."""

    def found() -> list[str]:
        lines = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # ended meanwhile
                lines.append(file.read_bytes())
        return [line.decode() for line in lines if line.endswith(path.encode() + b"\0")]

    return await asyncio.to_thread(found)


async def test_a_writer_that_truncates_gives_no_false_value(container: Container) -> None:
    """Scenario 44: such a file may be empty or half, and never says what was not written."""
    # In one command, since to start a thousand of them takes a minute.
    command = " ".join(READERS[0])
    reads = f"while [ ! -s file ]; do :; done; for n in $(seq 1000); do {command} file; printf '\\0'; done"
    script = f"cd /out; rm -rf file; {sys.executable} -c '{TRUNCATES}' & writer=$!; cd /out; {reads}; kill $writer"
    done = await container.client.exec("p", "default", ["sh", "-c", script], seconds=120.0)
    assert done.code == 0, done.stderr
    texts = done.stdout.split(b"\0")[:-1]
    assert len(texts) == 1000
    results: set[ReadResult] = set()
    for text in texts:
        got = interpret(Key("n", "j"), text, seen=NOW, now=NOW, interval=30)
        results.add(got.result)
        if got.report is not None:
            metrics = got.report.status.metrics or []
            assert [metric.value for metric in metrics] == [str(got.report.percentage)]
    assert ReadResult.OK in results
    assert results <= {ReadResult.OK, ReadResult.EMPTY, ReadResult.PARTIAL}
