# SPDX-License-Identifier: Apache-2.0
"""What the node writes for all its pods: hosts files, in threads."""

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.local.node.pods import Document, member
from trainwright.controller.local.node import hosting as module
from trainwright.controller.local.node.hosting import Hosting, hosts_text
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.runtime.testing.waiting import eventually


class Sources:
    """Nothing that pods could refer to."""

    def allocatable(self) -> dict[str, str]:
        return {}

    async def job_set(self, _pod: Document) -> Document | None:
        return None


async def test_an_older_text_is_not_the_last_that_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = member(0), member(1)
    pods, sources = [first], Sources()
    hosting = Hosting(
        NodeSettings(name="n", folder=tmp_path),
        sources,  # type: ignore[arg-type]
        server="https://127.0.0.1:6443",
        pods=lambda: list(pods),
        event=lambda *_: None,
        released=lambda: None,
    )
    file = tmp_path / "namespaces" / "hosts"
    file.parent.mkdir()
    file.touch()
    made, go_on = threading.Event(), threading.Event()

    def slow(pod: Document, known: Iterable[Document]) -> str:
        text = hosts_text(pod, known)
        if not made.is_set():
            made.set()
            go_on.wait()
        return text

    monkeypatch.setattr(module, "hosts_text", slow)
    older: asyncio.Task[Any] = asyncio.create_task(asyncio.to_thread(hosting.write_hosts, first, tmp_path))
    await eventually(made.is_set)
    pods.append(second)
    newer = asyncio.create_task(asyncio.to_thread(hosting.write_hosts, first, tmp_path))
    await asyncio.wait({newer}, timeout=0.2)
    go_on.set()
    await asyncio.gather(older, newer)
    assert "mnist-node-0-1" in file.read_text()
