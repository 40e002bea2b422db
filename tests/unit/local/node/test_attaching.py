# SPDX-License-Identifier: Apache-2.0
"""Attaching to a process that runs: its input, its output from then on, and what it notices when a client leaves."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.assertions import does_not_raise
from trainwright.controller.local.node.process.supervision import ContainerProcess, ProcessSpec, Spawner, start
from trainwright.controller.local.node.sessions import Attachment, Input
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.waiting import eventually

TALKS = """
import sys
print("ready? ", end="", flush=True)
for line in sys.stdin:
    print("got", line.strip(), flush=True)
    print("warned of", line.strip(), file=sys.stderr, flush=True)
print("over")
"""


@dataclass
class Talk:
    """A process with an input, and those who are attached to it."""

    process: ContainerProcess
    log: Path
    given: Input

    async def attach(self, *, once: bool = False, types: bool = True) -> Attachment:
        return await Attachment.to(self.process, self.log, self.given if types else None, once=once)

    def shows(self, text: bytes) -> Callable[[], bool]:
        """Whether the log has a text."""
        return lambda: self.log.exists() and text in self.log.read_bytes()


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    """A process that answers each line, on both outputs."""
    given, spawner = Input(), Spawner()
    spec = ProcessSpec(
        command=[sys.executable, "-c", TALKS],
        environment={"PATH": os.environ["PATH"]},
        folder=str(tmp_path),
        log=str(tmp_path / "0.log"),
        stdio=(given.theirs, -1, -1),
        prompts=True,
    )
    async with TaskScope("test") as tasks:
        process = await start(spec, record=tmp_path / "process.json", follow=tasks.start, spawn=spawner.start)
        os.close(given.theirs)
        made = Talk(process, tmp_path / "0.log", given)
        await eventually(made.shows(b"ready?"))
        yield made
        given.end()
        process.kill()
        await process.wait()
    spawner.close()


async def read(stream: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in stream])


async def test_each_output_has_its_stream_from_then_on(talk: Talk) -> None:
    attached = await talk.attach(once=True)
    await attached.write(b"a\nb\n")
    await attached.close_stdin()
    out, err = await asyncio.gather(read(attached.stdout), read(attached.stderr))
    # Nothing of what was written before.
    assert (out, err) == (b"got a\ngot b\nover\n", b"warned of a\nwarned of b\n")
    # The exit code is the container's, whose pod reports it.
    assert await attached.wait() == 0
    await attached.close()


async def test_all_who_are_attached_type_and_see(talk: Talk) -> None:
    first, second = await talk.attach(), await talk.attach()
    watches = await talk.attach(types=False)
    await first.write(b"one\n")
    await eventually(talk.shows(b"got one"))
    await second.write(b"two\n")
    await watches.write(b"ignored\n")
    await eventually(talk.shows(b"got two"))
    talk.given.end()
    for one in (first, second, watches):
        assert await read(one.stdout) == b"got one\ngot two\nover\n"
        await one.close()


async def test_the_input_outlives_a_client_that_leaves(talk: Talk) -> None:
    attached = await talk.attach()
    await attached.close_stdin()
    await attached.close()
    again = await talk.attach()
    await again.write(b"still here\n")
    await eventually(talk.shows(b"got still here"))
    assert not talk.process.ended
    await again.close()


async def test_with_stdin_once_the_input_ends_with_the_client(talk: Talk) -> None:
    attached = await talk.attach(once=True)
    await attached.close()
    assert (await talk.process.wait()).code == 0
    # What is typed by another after that is ignored, as with a closed pipe.
    late = await talk.attach(once=True)
    await late.write(b"late\n")
    assert await read(late.stdout) == b""
    await late.close()


async def test_more_input_than_a_pipe_holds_waits_for_the_reader(tmp_path: Path) -> None:
    given = Input()
    big = b"x" * 1_000_000
    writing = asyncio.create_task(given.write(big))
    await asyncio.sleep(0)
    # Its end waits for what is being written.
    given.end()
    assert not writing.done()
    found = await asyncio.to_thread(lambda: b"".join(iter(lambda: os.read(given.theirs, 65536), b"")))
    await writing
    os.close(given.theirs)
    assert found == big


async def test_two_who_type_at_once_take_turns() -> None:
    given = Input()
    both = [asyncio.create_task(given.write(letter * 200_000)) for letter in (b"a", b"b")]
    await asyncio.sleep(0)
    given.end()
    os.set_blocking(given.theirs, False)
    found = bytearray()

    def is_over() -> bool:
        while more := os.read(given.theirs, 65536):
            found.extend(more)
        return True

    await eventually(is_over, ignore=(BlockingIOError,), what="the end of the input")
    await asyncio.gather(*both)
    os.close(given.theirs)
    assert bytes(found) == b"a" * 200_000 + b"b" * 200_000


async def test_nobody_who_reads_any_more_is_no_failure() -> None:
    given = Input()
    os.close(given.theirs)
    with does_not_raise():
        await given.write(b"lost\n")
        given.end()
        given.end()
