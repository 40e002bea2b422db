# SPDX-License-Identifier: Apache-2.0
"""Attaching to the process of a container: its input if it has one, and what it writes from now on.

Output is read from the log, where the guard writes it. A container with `stdin: true` has its unfinished lines there at
once, so that prompts are seen.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from trainwright.controller.local.node.process.containers import ContainerProcess
from trainwright.controller.local.node.streams.logreading import POLL_SECONDS, FileChain
from trainwright.controller.local.node.streams.logs import entries_of
from trainwright.controller.local.node.streams.sessions import write_all


class Input:
    """This side of a process's standard input: a pipe. All who are attached write to it."""

    def __init__(self) -> None:
        self.theirs, self._ours = os.pipe()
        """The descriptor for the process; whoever starts it closes it then."""
        os.set_blocking(self._ours, False)
        self._writing = 0
        self._turn = asyncio.Lock()
        self._ended = False

    async def write(self, data: bytes) -> None:
        """Write; waits while the process does not read. Ignored after the end."""
        if self._ended:
            return
        self._writing += 1
        try:
            # The event loop wakes one writer of a descriptor: a second one would take its place.
            async with self._turn:
                await write_all(self._ours, data)
        finally:
            self._writing -= 1
            self._close_if_unused()

    def end(self) -> None:
        """End the input, once what is being written is written."""
        if not self._ended:
            self._ended = True
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._ended and not self._writing:
            os.close(self._ours)


class Attachment:
    """One client that is attached; an `ExecSession`."""

    def __init__(self, process: ContainerProcess, outputs: tuple[FileChain, FileChain], given: Input | None) -> None:
        """`given` is the input of the process, for a client that writes to one."""
        self._process = process
        self._outputs = outputs
        self._input = given
        self._once = False

    @classmethod
    async def to(cls, process: ContainerProcess, log: Path, given: Input | None, *, once: bool) -> "Attachment":
        """Attach to a process that runs.

        Args:
            process: of the container.
            log: of its run.
            given: its input, if it has one and the client wants to write.
            once: the input ends with this client.
        """
        outputs = FileChain(log), FileChain(log)
        try:
            for one in outputs:
                await asyncio.to_thread(one.begin, 0)
        except BaseException:
            for one in outputs:
                one.close()
            raise
        made = cls(process, outputs, given)
        made._once = once
        return made

    @property
    def stdout(self) -> AsyncIterator[bytes]:
        """Output from now on, until the process ends."""
        return self._read(self._outputs[0], b"stdout")

    @property
    def stderr(self) -> AsyncIterator[bytes]:
        """Error output from now on."""
        return self._read(self._outputs[1], b"stderr")

    async def _read(self, chain: FileChain, stream: bytes) -> AsyncIterator[bytes]:
        while True:
            # Asked before the read: what was written before the end is then read for sure.
            over = self._process.ended
            if lines := await asyncio.to_thread(chain.read):
                entries = (entry for entry in entries_of(lines) if entry.stream == stream)
                if data := b"".join(entry.text if entry.partial else entry.text + b"\n" for entry in entries):
                    yield data
            elif over:
                return
            else:
                await asyncio.sleep(POLL_SECONDS)

    async def write(self, data: bytes) -> None:
        """Write to the input of the process."""
        if self._input is not None:
            await self._input.write(data)

    async def close_stdin(self) -> None:
        """The client writes no more: the process notices only with `stdinOnce`."""
        if self._input is not None and self._once:
            self._input.end()

    def resize(self, width: int, height: int) -> None:
        """Containers have no terminal."""

    async def wait(self) -> int:
        """The end of the process. Its exit code is not that of the attachment, as with a kubelet."""
        await self._process.wait()
        return 0

    async def close(self) -> None:
        """Leave; the process goes on."""
        await self.close_stdin()
        for chain in self._outputs:
            chain.close()
