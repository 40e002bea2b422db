# SPDX-License-Identifier: Apache-2.0
"""Processes under a guard, well and badly behaved, without any API server."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from trainwright.controller.local.node import processes, recovery
from trainwright.controller.local.node.containers import ContainerProcess, Order, StartError, start
from trainwright.controller.local.node.spawning import GUARD, SPAWNER, Spawner
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.waiting import eventually, eventually_sync, is_empty

DETACH = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("detached", "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
"""


@pytest.fixture
async def tasks() -> AsyncIterator[TaskScope]:
    async with TaskScope("test") as scope:
        yield scope


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def order(folder: Path, code: str) -> Order:
    return Order(
        command=[sys.executable, "-c", code],
        environment={"PATH": os.environ["PATH"], "GREETING": "hällo"},
        folder=str(folder),
        log=str(folder / "0.log"),
    )


async def run(folder: Path, code: str, tasks: TaskScope) -> ContainerProcess:
    return await start(order(folder, code), record=folder / "process.json", follow=tasks.start)


@pytest.fixture
def spawner() -> Iterator[Spawner]:
    """A spawner that ends with the test."""
    made = Spawner()
    yield made
    made.close()


async def test_a_spawner_starts_guards(folder: Path, tasks: TaskScope, spawner: Spawner) -> None:
    code = "import os, sys; print(os.environ['GREETING'], os.listdir('/proc/self/fd')); sys.exit(3)"
    process = await start(order(folder, code), record=folder / "process.json", follow=tasks.start, spawn=spawner.start)
    assert (await process.wait()).code == 3
    # Nothing of the spawner or of other guards is open, but the descriptor of the listing.
    assert entries(folder) == [("stdout", "F", "hällo ['0', '1', '2', '3']")]
    assert not (folder / "process.json").exists()


async def test_a_spawner_passes_descriptors_under_the_numbers_of_the_order(
    folder: Path, tasks: TaskScope, spawner: Spawner
) -> None:
    (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()
    wanted = replace(order(folder, "print(input().upper())"), stdio=(read_in, write_out, write_out))
    process = await start(wanted, record=folder / "process.json", follow=tasks.start, spawn=spawner.start)
    for descriptor in (read_in, write_out):
        os.close(descriptor)
    os.write(write_in, b"abc\n")
    os.close(write_in)
    assert await asyncio.to_thread(os.read, read_out, 100) == b"ABC\n"
    os.close(read_out)
    assert (await process.wait()).code == 0


async def test_guards_outlive_their_spawner_and_the_next_start_has_another(
    folder: Path, tasks: TaskScope, spawner: Spawner
) -> None:
    first, second = folder / "first", folder / "second"
    started = []
    for one in (first, second):
        one.mkdir()
        made = order(one, "import time; time.sleep(600)")
        started.append(await start(made, record=one / "process.json", follow=tasks.start, spawn=spawner.start))
        if one is first:
            assert spawner.process is not None
            os.kill(spawner.process.pid, signal.SIGKILL)
    assert all(lives(process.pid) for process in started)
    for process in started:
        process.kill()
        assert (await process.wait()).code == 137


async def test_a_program_that_cannot_run_is_told_by_a_spawner_too(
    folder: Path, tasks: TaskScope, spawner: Spawner
) -> None:
    wanted = replace(order(folder, ""), command=["no-such-program"])
    with pytest.raises(StartError, match="executable file not found"):
        await start(wanted, record=folder / "process.json", follow=tasks.start, spawn=spawner.start)


def entries(folder: Path, name: str = "0.log") -> list[tuple[str, str, str]]:
    """Stream, completeness and text of each log entry."""
    lines = (folder / name).read_text().splitlines()
    return [(stream, full, text) for _, stream, full, text in (line.split(" ", 3) for line in lines)]


def sizes(folder: Path) -> dict[str, int]:
    """The log files and their sizes in bytes. One that is just being rotated may be missing."""
    found: dict[str, int] = {}
    for path in folder.glob("0.log*"):
        with contextlib.suppress(FileNotFoundError):
            found[path.name] = path.stat().st_size
    return found


async def number(folder: Path, name: str) -> int:
    """A pid that a process wrote into a file."""
    text = await eventually((folder / name).read_text, ignore=(FileNotFoundError,), seconds=10)
    return int(text)


def lives(pid: int) -> bool:
    return bool(processes.start_time(pid))


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("pass", 0),
        ("raise SystemExit(7)", 7),
        ("import os; os.kill(os.getpid(), 15)", 143),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import os; os.abort()", 134),
    ],
)
async def test_exit_codes(folder: Path, tasks: TaskScope, code: str, wanted: int) -> None:
    process = await run(folder, code, tasks)
    exited = await process.wait()
    assert exited.code == wanted
    assert exited.at >= process.started_at
    assert not (folder / "process.json").exists()


async def test_output_is_logged_line_by_line_with_its_stream(folder: Path, tasks: TaskScope) -> None:
    code = "import os,sys; os.write(1, b'a\\n\\nb\\n'); sys.stderr.write(os.environ['GREETING']); os.write(1, b'end')"
    await (await run(folder, code, tasks)).wait()
    found = entries(folder)
    assert [entry for entry in found if entry[0] == "stdout"] == [
        ("stdout", "F", "a"),
        ("stdout", "F", ""),
        ("stdout", "F", "b"),
        ("stdout", "F", "end"),
    ]
    assert [entry for entry in found if entry[0] == "stderr"] == [("stderr", "F", "hällo")]


async def test_a_long_line_is_written_in_parts(folder: Path, tasks: TaskScope) -> None:
    await (await run(folder, "print('x' * 40000)", tasks)).wait()
    found = entries(folder)
    assert [full for _, full, _ in found] == ["P"] * (len(found) - 1) + ["F"]
    assert len(found) > 2
    assert "".join(text for *_, text in found) == "x" * 40000


async def test_logs_rotate_and_the_oldest_go(folder: Path, tasks: TaskScope) -> None:
    wanted = replace(order(folder, "for i in range(20000): print(i)"), log_bytes=50_000, log_files=3)
    process = await start(wanted, record=folder / "process.json", follow=tasks.start)
    assert (await process.wait()).code == 0
    assert sorted(sizes(folder)) == ["0.log", "0.log.1", "0.log.2"]
    numbers = [int(text) for name in ("0.log.2", "0.log.1", "0.log") for *_, text in entries(folder, name)]
    assert numbers == list(range(numbers[0], 20000))
    # A write is one read of the pipe, with its times at most three times as long.
    assert all(size < 50_000 + 3 * 65536 * 8 for size in sizes(folder).values())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["no-such-program"], 'exec: "no-such-program": executable file not found in $PATH'),
        (["/no/such/program"], 'exec: "/no/such/program": stat /no/such/program: no such file or directory'),
        (["/"], 'exec: "/": permission denied'),
        (["a\0b"], "exec: "),
    ],
)
async def test_a_program_that_cannot_run(folder: Path, tasks: TaskScope, command: list[str], message: str) -> None:
    wanted = replace(order(folder, ""), command=command)
    with pytest.raises(StartError) as raised:
        await start(wanted, record=folder / "process.json", follow=tasks.start)
    assert str(raised.value).startswith(message)


async def test_a_missing_working_folder(folder: Path, tasks: TaskScope) -> None:
    wanted = replace(order(folder, ""), folder=str(folder / "absent"))
    with pytest.raises(StartError, match=r"working directory .* does not exist"):
        await start(wanted, record=folder / "process.json", follow=tasks.start)


async def test_a_large_environment_reaches_the_process(folder: Path, tasks: TaskScope) -> None:
    wanted = order(folder, "import os; print(len(os.environ['BIG']), len(os.environ))")
    more = {"BIG": "x" * 100_000, **{f"V{index}": "y" * 1000 for index in range(500)}}
    wanted = replace(wanted, environment={**wanted.environment, **more})
    process = await start(wanted, record=folder / "process.json", follow=tasks.start)
    assert (await process.wait()).code == 0
    assert entries(folder)[0][2].startswith("100000 50")


async def test_sigterm_ends_a_process_that_obeys(folder: Path, tasks: TaskScope) -> None:
    code = "import signal,sys,time; signal.signal(15, lambda *_: sys.exit(5)); print('up', flush=True); time.sleep(600)"
    process = await run(folder, code, tasks)
    await eventually(lambda: entries(folder))
    process.terminate()
    assert (await process.wait()).code == 5


async def test_sigkill_ends_a_process_that_ignores_sigterm(folder: Path, tasks: TaskScope) -> None:
    code = "import signal,time; say = lambda *_: print('no', flush=True); signal.signal(15, say); say()"
    process = await run(folder, code + "\nwhile True: time.sleep(1)", tasks)
    await eventually(lambda: entries(folder))
    process.terminate()
    await eventually(lambda: len(entries(folder)) == 2, what="the signal arrived")
    assert not process.ended
    process.kill()
    assert (await process.wait()).code == 137


async def test_detached_descendants_end_with_the_program(folder: Path, tasks: TaskScope) -> None:
    process = await run(folder, DETACH + "time.sleep(0.2)", tasks)
    assert (await process.wait()).code == 0
    assert not lives(await number(folder, "detached"))


async def test_detached_descendants_end_with_a_kill(folder: Path, tasks: TaskScope) -> None:
    process = await run(folder, DETACH + "time.sleep(600)", tasks)
    pid = await number(folder, "detached")
    assert lives(pid)
    process.kill()
    assert (await process.wait()).code == 137
    assert not lives(pid)


async def test_endless_logs_neither_block_the_loop_nor_the_kill(folder: Path, tasks: TaskScope) -> None:
    wanted = replace(order(folder, "while True: print('x' * 100)"), log_bytes=1_000_000)
    process = await start(wanted, record=folder / "process.json", follow=tasks.start)
    await eventually(lambda: len(sizes(folder)) == 5)
    process.kill()
    assert (await process.wait()).code == 137
    assert sum(sizes(folder).values()) < 5 * (1_000_000 + 200_000)


@pytest.mark.parametrize("code", ["import time; time.sleep(600)", DETACH + "import signal; signal.pause()"])
def test_nothing_survives_the_cluster(folder: Path, code: str) -> None:
    """The process of the cluster is killed without any warning."""
    program = f"""
import asyncio, sys
from pathlib import Path
from trainwright.controller.local.node.containers import Order, start
from trainwright.controller.runtime.tasks import TaskScope
async def main():
    async with TaskScope("main") as tasks:
        folder = Path({str(folder)!r})
        order = Order(command=[sys.executable, "-c", {code!r}], environment={{}}, folder=str(folder),
                      log=str(folder / "0.log"), grace=0.2)
        process = await start(order, record=folder / "process.json", follow=tasks.start)
        await process.wait()
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program]) as cluster:
        record = folder / "process.json"
        eventually_sync(lambda: json.loads(record.read_text()), ignore=(FileNotFoundError, ValueError))
        pid = json.loads(record.read_text())["pid"]
        if "detached" in code:
            detached = int(eventually_sync((folder / "detached").read_text, ignore=(FileNotFoundError,)))
        else:
            detached = pid
        assert lives(pid)
        cluster.kill()
    eventually_sync(lambda: [one for one in (pid, detached) if lives(one)], is_empty, seconds=10)


@pytest.mark.parametrize("alone", [True, False])
async def test_a_process_whose_start_nobody_waits_for_has_ended(
    folder: Path, tasks: TaskScope, spawner: Spawner, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    """Also if it ignores SIGTERM."""
    code = "import os,signal,time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(600)"

    async def readline(reports: asyncio.StreamReader) -> bytes:
        # The loop has not come to the report yet.
        never: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        return await never

    monkeypatch.setattr(asyncio.StreamReader, "readline", readline)
    more = {} if alone else {"spawn": spawner.start}
    made = start(order(folder, code), record=folder / "process.json", follow=tasks.start, **more)
    starting = asyncio.create_task(made)
    pid = int(await eventually(lambda: entries(folder)[0][2], ignore=(FileNotFoundError, IndexError), seconds=10))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not lives(pid)


@pytest.mark.only_where(sys.platform == "linux", "the kernel's signal at the death of a parent")
async def test_a_killed_guard_takes_its_program_along(folder: Path, tasks: TaskScope) -> None:
    process = await run(folder, "import time; time.sleep(600)", tasks)
    guard = json.loads((folder / "process.json").read_text())["guard"]
    os.kill(guard, signal.SIGKILL)
    assert (await process.wait()).code == 137
    await eventually(lambda: lives(process.pid), is_empty, seconds=10)


async def test_a_process_without_a_record_does_not_run(folder: Path, tasks: TaskScope) -> None:
    code = "open('pid', 'w').write(str(__import__('os').getpid())); __import__('time').sleep(600)"
    (folder / "process.json").mkdir()
    with pytest.raises(IsADirectoryError):
        await start(order(folder, code), record=folder / "process.json", follow=tasks.start)
    # It may have been killed before it wrote its number.
    if (folder / "pid").exists():
        assert not lives(int((folder / "pid").read_text()))


def test_survivors_of_an_earlier_run_are_killed(folder: Path) -> None:
    containers = folder / "uid" / "containers"
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0) as survivor:
        for name, started in (("main", processes.start_time(survivor.pid)), ("other", "12345")):
            (containers / name).mkdir(parents=True)
            record = {"pid": survivor.pid, "start_time": started, "guard": 1}
            (containers / name / "process.json").write_text(json.dumps(record))
        (containers / "torn").mkdir()
        (containers / "torn" / "process.json").write_text("{")
        assert recovery.end_survivors(folder) == {"uid"}
        assert survivor.wait(10) == -signal.SIGKILL
    assert not list(containers.glob("*/process.json"))


def test_a_reused_number_is_left_alone(folder: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0) as innocent:
        try:
            assert not processes.kill_group(innocent.pid, "12345")
            assert innocent.poll() is None
        finally:
            innocent.kill()


def test_the_guard_imports_nothing_of_the_project() -> None:
    for file in (GUARD, SPAWNER):
        assert "from trainwright" not in file.read_text()


async def test_a_cancelled_wait_leaves_the_process(folder: Path, tasks: TaskScope) -> None:
    process = await run(folder, "import time; time.sleep(600)", tasks)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await process.wait()
    assert lives(process.pid)
    process.kill()
    await process.wait()
