# SPDX-License-Identifier: Apache-2.0
"""The command as a container starts it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.unit.initialize.hub import Hub, Repository, serving
from tests.unit.initialize.runs import tree
from trainwright.controller.cli.main import main
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.progress import read

COMMAND = [sys.executable, "-m", "trainwright.controller.cli.main", "initialize"]
TOKEN = "hf_secret_token"
DATA = b"0123456789abcdef" * 2**17


@pytest.fixture(autouse=True)
def termination_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("STORAGE_URI", "OUTPUT_PATH", "HF_TOKEN", "ACCESS_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERMINATION_LOG", str(tmp_path / "termination-log"))
    return tmp_path / "termination-log"


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    async with serving(Hub({"models/o/n": Repository({"model.gguf": DATA})}, tokens=(TOKEN,))) as it:
        yield it


def text_of(file: Path) -> str:
    return file.read_text()


async def start(hub: Hub, target: Path, *arguments: str, **variables: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *[*COMMAND, "model", "--output", str(target), *arguments],
        env={**os.environ, "HF_ENDPOINT": hub.url, "STORAGE_URI": "hf://o/n", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def test_whole_run_with_progress(hub: Hub, tmp_path: Path, termination_log: Path) -> None:
    progress = tmp_path / "progress.json"
    process = await start(
        hub,
        tmp_path / "t",
        HF_TOKEN=TOKEN,
        TRAINWRIGHT_PROGRESS_FILE=str(progress),
        TRAINWRIGHT_PROGRESS_FINAL=str(termination_log),
    )
    out, error = await process.communicate()
    assert (process.returncode, out) == (0, b"")
    assert TOKEN.encode() not in error
    report = read(progress.read_bytes())
    assert report.percentage is None
    size = str(len(DATA))
    assert report.metrics == {
        "model_bytes": size,
        "model_bytes_total": size,
        "model_files": "1",
        "model_files_total": "1",
    }
    assert read(text_of(termination_log)).metrics == report.metrics


async def test_a_failure_is_1_with_its_sentence(hub: Hub, tmp_path: Path, termination_log: Path) -> None:
    process = await start(
        hub,
        tmp_path / "t",
        HF_TOKEN="hf_wrong_token",
        TRAINWRIGHT_PROGRESS_FILE=str(tmp_path / "progress.json"),
        TRAINWRIGHT_PROGRESS_FINAL=str(termination_log),
    )
    _, error = await process.communicate()
    assert process.returncode == 1
    assert b"error: TokenRefused: the hub does not accept the token in HF_TOKEN" in error
    assert b"Traceback" not in error
    first, document, rest = text_of(termination_log).split("\n")
    assert (first, rest) == ("the hub does not accept the token in HF_TOKEN", "")
    assert json.loads(document)["state"] == "failed"
    assert b"hf_wrong_token" not in error


async def test_sigterm_is_143_and_the_next_start_goes_on(hub: Hub, tmp_path: Path, termination_log: Path) -> None:
    stopped, half = asyncio.Event(), asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse | None:
        if "resolve" not in request.path or stopped.is_set():
            return None
        answer = web.StreamResponse(headers={"Content-Length": str(len(DATA))})
        await answer.prepare(request)
        await answer.write(DATA[: len(DATA) // 2])
        half.set()
        await stopped.wait()
        return answer

    hub.faults.append(hang)
    process = await start(hub, tmp_path / "t")
    await half.wait()
    parts = tmp_path / "t/.trainwright/parts"
    await eventually(lambda: [part.stat().st_size for part in parts.glob("*")], any)
    process.send_signal(signal.SIGTERM)
    await process.communicate()
    stopped.set()
    assert process.returncode == 143
    assert text_of(termination_log).startswith("stopped by SIGTERM")
    assert tree(tmp_path / "t") == {}
    process = await start(hub, tmp_path / "t")
    await process.communicate()
    assert process.returncode == 0
    assert tree(tmp_path / "t") == {"model.gguf": DATA}
    assert hub.bytes_sent < len(DATA)


def source_of(tmp_path: Path) -> list[str]:
    (tmp_path / "source").mkdir(exist_ok=True)
    (tmp_path / "source/x").write_text("abc")
    return ["--output", str(tmp_path / "t"), "--storage-uri", f"file://{tmp_path}/source"]


def test_verify_finds_a_flipped_bit(tmp_path: Path, capsys: pytest.CaptureFixture[str], termination_log: Path) -> None:
    arguments = source_of(tmp_path)
    assert main(["initialize", "dataset", *arguments]) == 0
    assert not termination_log.exists()
    assert main(["initialize", "dataset", *arguments[:2], "--verify"]) == 0
    times = (tmp_path / "t/x").stat()
    (tmp_path / "t/x").write_text("abb")
    os.utime(tmp_path / "t/x", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert main(["initialize", "dataset", *arguments[:2], "--verify"]) == 1
    assert "error: Damaged: x in" in capsys.readouterr().err
    assert main(["initialize", "dataset", "--output", str(tmp_path / "none"), "--verify"]) == 1


def test_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["initialize", "dataset", *source_of(tmp_path), "--dry-run"]) == 0
    assert "3 B  x\n1 files, 3 B;" in capsys.readouterr().out
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("arguments", [[], ["other"], ["model", "--dry-run", "--verify"], ["model", "--token", "x"]])
def test_a_wrong_command_line_is_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["initialize", *arguments])
    assert caught.value.code == 2


def test_no_address_is_1(capsys: pytest.CaptureFixture[str], termination_log: Path) -> None:
    assert main(["initialize", "model"]) == 1
    assert "STORAGE_URI is empty: set spec.initializer.model.storageUri" in capsys.readouterr().err
    assert termination_log.read_text() == "STORAGE_URI is empty: set spec.initializer.model.storageUri\n"


def test_the_help_loads_neither_initializers_nor_aiohttp() -> None:
    program = (
        "import sys; from trainwright.controller.cli.main import build_parser; build_parser();"
        "print([n for n in sys.modules if n == 'aiohttp' or n.startswith('trainwright.controller.initialize')])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"[]\n"
