# SPDX-License-Identifier: Apache-2.0
"""`trainwright dashboard` as a user gives it: the address, signals, a port that is taken."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.repository import ROOT
from trainwright.controller.cli.main import main

KUBECONFIG = """
current-context: here
contexts: [{name: here, context: {cluster: c, user: u, namespace: team-a}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Of a server that is not there, which the dashboard survives."""
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    return file


@asynccontextmanager
async def command(*arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The command, and the line with its address."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "trainwright.controller.cli.main", "dashboard", "--no-browser", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    try:
        yield process, (await process.stdout.readline()).decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_it_serves_until_a_signal_though_a_page_is_open(kubeconfig: Path, number: signal.Signals) -> None:
    async with command(f"--kubeconfig={kubeconfig}") as (process, line):
        found = re.fullmatch(
            r"TrainJobs in namespace team-a of context here: (http://127\.0\.0\.1:(\d+)/)\?token=(\S{43})", line
        )
        assert found is not None
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            page = await session.get(f"{found[1]}?token={found[3]}")
            await page.read()
            stream = await session.get(f"{page.url}api/v1/jobs/stream")
            assert b"retry" in await stream.content.readline()
            process.send_signal(number)
            rest = await stream.content.read()
        _, errors = await process.communicate()
    assert b"event: bye" in rest
    assert (process.returncode, errors) == (0, b"")


async def test_where_it_looks(kubeconfig: Path) -> None:
    async with command(f"--kubeconfig={kubeconfig}", "--all-namespaces") as (_, line):
        assert line.startswith("TrainJobs in all namespaces of context here: ")
    async with command(f"--kubeconfig={kubeconfig}", "--namespace=team-b") as (_, line):
        assert line.startswith("TrainJobs in namespace team-b of context here: ")


def test_a_port_that_is_taken(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["dashboard", f"--kubeconfig={kubeconfig}", f"--port={port}", "--no-browser"]) == 2
    assert capsys.readouterr().err == f"error: port {port} is taken: give another one, or none for a free one\n"


def test_a_kubeconfig_that_cannot_be_used(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboard", f"--kubeconfig={kubeconfig}", "--context=none"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize("wrong", [["--port=x"], ["--port=70000"], ["-A", "-n", "x"]])
def test_a_wrong_command_line(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["dashboard", *wrong])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "none of these files exists"), ("a: [", "invalid YAML"), ("text", "not a kubeconfig")],
)
def test_why_a_kubeconfig_cannot_be_used_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, content: str | None, says: str
) -> None:
    file = tmp_path / "config"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert main(["dashboard", "--no-browser"]) == 2
    told = capsys.readouterr().err
    assert (told.startswith("error: "), str(file) in told, says in told) == (True, True, True), told


def test_no_kubeconfig_names_the_ways_to_give_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert main(["dashboard", "--no-browser"]) == 2
    assert capsys.readouterr().err.startswith("error: no cluster is configured: use --kubeconfig, set KUBECONFIG")


async def test_lines_that_nobody_reads_end_it_without_a_traceback(kubeconfig: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "trainwright.controller.cli.main", "dashboard", "--no-browser"),
        f"--kubeconfig={kubeconfig}",
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(theirs)
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (141, b"")


async def test_each_start_has_a_token_of_its_own_and_listens_on_127_0_0_1_alone(kubeconfig: Path) -> None:
    async with command(f"--kubeconfig={kubeconfig}") as (_, one), command(f"--kubeconfig={kubeconfig}") as (_, other):
        tokens = {line.rpartition("token=")[2] for line in (one, other)}
        assert len(tokens) == 2
        found = re.search(r":(\d+)/", one)
        assert found is not None
        with socket.create_connection(("127.0.0.1", int(found[1]))):
            pass
        for host in ("127.0.0.2", "::1"):  # both are this machine
            with pytest.raises(OSError, match=r"refused|assign|family"):
                socket.create_connection((host, int(found[1])))
