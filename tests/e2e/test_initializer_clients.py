# SPDX-License-Identifier: Apache-2.0
"""The hub of the tests answers huggingface_hub too, unchanged, and both leave the same files in a folder.

It is installed in an environment of its own, with other clients. So what our tests prove on this server holds for the
protocol that it speaks.
"""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.e2e.trainings import installed
from tests.unit.initialize.hub import Hub, Repository, serving
from tests.unit.initialize.runs import tree

pytestmark = [pytest.mark.parity, pytest.mark.timeout(600)]
SNAPSHOT = """
import sys
from huggingface_hub import snapshot_download
kind, name, target = sys.argv[1:]
patterns = ["*.json", "*.safetensors", "*.model", "*.txt", "*.gguf"] if kind == "model" else None
snapshot_download(name, repo_type=kind, local_dir=target, allow_patterns=patterns)
"""
FILES = {
    **{f"part/{number}.json": b"%d" % number for number in range(30)},
    "model.safetensors": os.urandom(2**20),
    "model.bin": b"pickle",
    "odd name+ü.txt": b"x",
}
TOKEN = "hf_token_of_the_test"


async def run(*command: str, hub: Hub, target: Path) -> None:
    quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(target.parent / "home")}
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, **quiet},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


@pytest.mark.parametrize("kind", ["model", "dataset"])
async def test_both_leave_the_same_files_and_adopt_those_of_each_other(tmp_path: Path, kind: str) -> None:
    clients = await asyncio.to_thread(installed, "--for-clients", "clients")
    repository = Repository(FILES, large=("model.safetensors",), token=TOKEN)
    ours = (sys.executable, "-m", "trainwright.controller.cli.main", "initialize", kind, "--storage-uri=hf://o/n")
    theirs = (f"{clients}/bin/python", "-c", SNAPSHOT, kind, "o/n")
    async with serving(Hub({f"{kind}s/o/n": repository}, tokens=(TOKEN,), page=10)) as hub:
        await run(*theirs, str(tmp_path / "theirs"), hub=hub, target=tmp_path / "theirs")
        asked = len(hub.requests)
        await run(*ours, f"--output={tmp_path}/ours", hub=hub, target=tmp_path / "ours")
        assert len(hub.requests) - asked < asked
        left = {name: data for name, data in tree(tmp_path / "theirs").items() if not name.startswith(".cache/")}
        assert tree(tmp_path / "ours") == left
        # A volume that the original's library has filled is adopted: no file comes again.
        hub.requests.clear()
        await run(*ours, f"--output={tmp_path}/theirs", hub=hub, target=tmp_path / "theirs")
        assert [one for one in hub.requests if "/resolve/" in one] == []
        await run(*theirs, str(tmp_path / "ours"), hub=hub, target=tmp_path / "ours")
        kept = {name: data for name, data in tree(tmp_path / "ours").items() if not name.startswith(".cache/")}
        assert kept == left
