# SPDX-License-Identifier: Apache-2.0
"""The file that leads a browser to the dashboard."""

import argparse
import asyncio
import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from trainwright.controller.cli import dashboard as commands
from trainwright.controller.dashboard.server import Server
from trainwright.controller.runtime import ClusterConfig

ADDRESS = "http://127.0.0.1:1/?token=secret"


class Address:
    address = ADDRESS


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(commands, "has_browser", lambda: True)
    return tmp_path


async def announce() -> None:
    listening = asyncio.Event()
    listening.set()
    config = ClusterConfig(server="https://api:6443")
    arguments = argparse.Namespace(no_browser=False)
    await commands._announce(arguments, cast("Server", Address()), config, "", listening)


def test_a_browser_is_led_to_the_address(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def open_(url: str) -> bool:
        seen.append(Path(urlsplit(url).path).read_text())
        return True

    monkeypatch.setattr(webbrowser, "open", open_)
    asyncio.run(announce())
    assert [ADDRESS in text for text in seen] == [True]
    commands.forget_pages()
    assert list(temporary.iterdir()) == []


def test_no_file_stays_when_the_command_ends_before_the_thread_begins(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(work: Callable[..., Any], *arguments: Any) -> Any:
        commands.forget_pages()
        return work(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", late)
    monkeypatch.setattr(webbrowser, "open", lambda _: True)
    asyncio.run(announce())
    assert list(temporary.iterdir()) == []
