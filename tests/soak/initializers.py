# SPDX-License-Identifier: Apache-2.0
"""Soak of `trainwright initialize`: killed with SIGKILL at random moments, again and again.

A hub of this machine has a model of some small and some large files. After each kill the folder is whole, or it has no
marker; no file under its own name is half or wrong; and the next start goes on with the bytes that are there. Every
third kill hits a start on the folder of another model. Printed for each round: what the kill hit, how many bytes were
fetched, and what is wrong. Exit code 1 if anything is.
"""

import argparse
import asyncio
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

from aiohttp import web

from tests.unit.initialize.hub import Hub, Repository, serving
from tests.unit.initialize.runs import tree
from trainwright.controller.initialize.folder import PARTS
from trainwright.controller.initialize.manifest import MANIFEST

COMMAND = (sys.executable, "-m", "trainwright.controller.cli.main", "initialize", "model")
WEIGHTS = 6
WHOLE_SECONDS = 0.8
"""About as long as a download takes here, from its first request on."""


def model(seed: int) -> dict[str, bytes]:
    """Some 24 MiB."""
    numbers = random.Random(seed)
    large = {f"model-{number}.safetensors": numbers.randbytes(2**22) for number in range(WEIGHTS)}
    return {**large, **{f"part/{number}.json": numbers.randbytes(number * 100) for number in range(40)}}


async def start(hub: Hub, target: Path, name: str) -> asyncio.subprocess.Process:
    """One download."""
    variables = {"HF_ENDPOINT": hub.url, "TERMINATION_LOG": str(target.parent / "ended")}
    return await asyncio.create_subprocess_exec(
        *COMMAND,
        f"--storage-uri=hf://o/{name}",
        f"--output={target}",
        env={**os.environ, **variables},
        stderr=asyncio.subprocess.PIPE,
    )


def wrong(target: Path, wanted: dict[str, bytes], others: dict[str, bytes]) -> list[str]:
    """What must never be: a file with other bytes than those of a model, or a marker on a folder that is not whole."""
    found = tree(target)
    bad = [name for name, data in found.items() if data not in (wanted.get(name), others.get(name))]
    problems = [f"half or wrong: {', '.join(bad)}"] if bad else []
    if (target / MANIFEST).exists() and found not in (wanted, others):
        problems.append("marked, and not whole")
    return problems


def held(target: Path, wanted: dict[str, bytes]) -> int:
    """Bytes of the model that the folder has, also in unfinished files."""
    found = tree(target) if target.is_dir() else {}
    parts = [part.read_bytes() for part in (target / PARTS).glob("*")]
    begun = sum(max(len(part) * data.startswith(part) for data in wanted.values()) for part in parts)
    return begun + sum(len(data) for name, data in found.items() if wanted.get(name) == data)


async def one_round(hub: Hub, folder: Path, models: dict[str, dict[str, bytes]], number: int) -> tuple[str, list[str]]:
    """Kill a download, look, and let the next one end. Returns what was seen and what is wrong."""
    name, other = ("a", "b") if number % 3 else ("b", "a")
    target = folder / "target"
    if number % 4 == 0:
        shutil.rmtree(target, ignore_errors=True)
    size = sum(map(len, models[name].values()))
    killed = await start(hub, target, name)
    seen = len(hub.requests)
    while len(hub.requests) == seen and killed.returncode is None:  # noqa: ASYNC110 - another process asks
        await asyncio.sleep(0.01)
    try:
        async with asyncio.timeout(random.uniform(0, WHOLE_SECONDS)):
            await killed.wait()
    except TimeoutError:
        killed.kill()
    await killed.communicate()
    problems = wrong(target, models[name], models[other]) if target.is_dir() else []
    is_marked = (target / MANIFEST).exists()
    kept = held(target, models[name])
    hub.bytes_sent = 0
    last = await start(hub, target, name)
    _, error = await last.communicate()
    if last.returncode != 0:
        problems.append(f"the next start ends with {last.returncode}: {error.decode()[-300:]}")
    elif tree(target) != models[name]:
        problems.append("the next start does not leave the model")
    if hub.bytes_sent > size - kept:
        problems.append("bytes that were there are fetched again")
    place = "after its end" if killed.returncode == 0 else "marked" if is_marked else "unfinished"
    return f"killed {place}: {kept} of {size} bytes are there, then {hub.bytes_sent} are sent", problems


async def soak(rounds: int) -> int:
    """All rounds; returns the exit code."""
    models = {name: model(seed) for seed, name in enumerate("ab")}
    repositories = {
        f"models/o/{name}": Repository(files, large=tuple(one for one in files if "model-" in one))
        for name, files in models.items()
    }
    count = unfinished = 0
    async with serving(Hub(repositories)) as hub:
        hub.faults.append(slowly)
        with tempfile.TemporaryDirectory() as folder:
            for number in range(rounds):
                seen, problems = await one_round(hub, Path(folder), models, number)
                unfinished += "unfinished" in seen
                count += bool(problems)
                sys.stdout.write(f"round {number + 1}: {seen}{''.join(f'; WRONG: {one}' for one in problems)}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{rounds} rounds, {unfinished} kills of unfinished folders, {count} with something wrong\n")
    return 1 if count else 0


async def slowly(request: web.Request) -> web.Response | None:
    """Spread the files over the time in which kills hit."""
    if "/resolve/" in request.path or "/cdn/" in request.path:
        await asyncio.sleep(random.uniform(0, 0.05))
    # A process that was killed meanwhile gets no bytes that would count.
    is_gone = request.transport is None or request.transport.is_closing()
    return web.Response(status=503) if is_gone else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    return asyncio.run(soak(parser.parse_args().rounds))


if __name__ == "__main__":
    sys.exit(main())
