# SPDX-License-Identifier: Apache-2.0
"""The lines of logs, as a terminal shows them."""

import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TextIO

from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.messages import last_state
from trainwright.api.objects import Document, name_of, namespace_of
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.trainer.job.pods import container_statuses, rank_of


def seen(line: bytes) -> str:
    """A line of a log as a terminal shows it in the end."""
    text = line.decode(errors="replace")
    return last_state(text) if "\r" in text else text


def prefix_of(pod: Document, container: str) -> str:
    """What stands before the lines of a container: `[rank 0]`; with several containers `[rank 0/sidecar]`."""
    several = len(container_statuses(pod)) > 1
    return f"[{rank_of(pod)}{f'/{container}' if several else ''}]"


async def lines_of(
    client: Client, pod: Document, container: str, run: int, **more: str
) -> AsyncGenerator[tuple[str, bool], None]:
    """The lines of one run of a container, as `lines_in` gives them. `more`: further parameters of the request.

    A container that fails is restarted at once: without the number of the run, the log may be that of the next one.
    Raises KubernetesError; ApiError before the first line: there is no such log.
    """
    path = f"/api/v1/namespaces/{namespace_of(pod)}/{Pod.RESOURCE.plural}/{name_of(pod)}/log"
    request = Request("GET", path, query={"container": container, "run": str(run), **more}, timeout=None)
    async with client.stream(request) as stream, aclosing(stream.chunks()) as chunks:
        async for line in lines_in(chunks):
            yield line


async def lines_in(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, bool]]:
    """The lines, and whether they have ended. One that has not is given if it is written over, as a bar is."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield seen(line), True
        if b"\r" in rest:
            rest = rest[max(0, rest.rstrip(b"\r").rfind(b"\r")) :]  # what was before is not seen any more
            yield seen(rest), False
    if rest:
        yield seen(rest), True


class LineWriter:
    """Prints lines; on a terminal, below them the line that is written over and over, such as a progress bar."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._moves = out.isatty()
        self._below = ""

    def print(self, line: str) -> None:
        self.show("")
        print(line, file=self._out, flush=True)

    def show(self, line: str) -> None:
        """Show the state of a line that has not ended, in place of the one before; empty: none."""
        if not self._moves or (not line and not self._below):
            return
        self._below = line
        # One row: a longer line would wrap, and the beginning of a row cannot be reached again.
        most = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[K{line[:most]}", end="", file=self._out, flush=True)
