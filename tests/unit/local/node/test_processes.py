# SPDX-License-Identifier: Apache-2.0
"""Processes under a guard, well and badly behaved, without any API server."""

import asyncio
import contextlib
import errno
import functools
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from trainwright.controller.local.node import folders
from trainwright.controller.local.node.logs import parse
from trainwright.controller.local.node.process import ends as ends_module
from trainwright.controller.local.node.process import guard as guard_module
from trainwright.controller.local.node.process import lowlevel, supervision
from trainwright.controller.local.node.process.ends import ExitHandle, ExitOrderTracker, TrackedExit
from trainwright.controller.local.node.process.supervision import (
    SPAWNER,
    ContainerProcess,
    ProcessSpec,
    ProgramStartError,
    Spawner,
)
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.waiting import equals, eventually, eventually_sync, is_empty

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
DETACHED = """
while not (os.path.exists("detached") and os.path.getsize("detached")):
    time.sleep(0.01)
"""
"""Goes on once the detached process has told its number."""


@pytest.fixture
async def tasks() -> AsyncIterator[TaskScope]:
    async with TaskScope("test") as scope:
        yield scope


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def spec(folder: Path, code: str) -> ProcessSpec:
    return ProcessSpec(
        command=[sys.executable, "-c", code],
        environment={"PATH": os.environ["PATH"], "GREETING": "hällo"},
        folder=str(folder),
        log=str(folder / "0.log"),
    )


async def run(folder: Path, code: str, tasks: TaskScope) -> ContainerProcess:
    return await start(spec(folder, code), record=folder / "process.json", follow=tasks.start)


_SPAWNERS: list[Spawner] = []


@pytest.fixture(autouse=True)
def spawner() -> Iterator[Spawner]:
    """A spawner that ends with the test."""
    made = Spawner()
    _SPAWNERS.append(made)
    yield made
    _SPAWNERS.remove(made)
    made.close()


async def start(
    spec: ProcessSpec, *, record: Path, follow: Any, exits: ExitOrderTracker | None = None
) -> ContainerProcess:
    """A program under a guard of the test's spawner."""
    return await supervision.start(spec, record=record, follow=follow, spawn=_SPAWNERS[-1].start, exits=exits)


async def test_a_spawner_starts_guards(folder: Path, tasks: TaskScope, spawner: Spawner) -> None:
    code = "import os, sys; print(os.environ['GREETING'], os.listdir('/proc/self/fd')); sys.exit(3)"
    process = await start(spec(folder, code), record=folder / "process.json", follow=tasks.start)
    assert (await process.wait()).code == 3
    # Nothing of the spawner or of other guards is open, but the descriptor of the listing.
    assert entries(folder) == [("stdout", "F", "hällo ['0', '1', '2', '3']")]
    assert not (folder / "process.json").exists()


async def test_links_in_the_place_of_its_files_are_replaced(folder: Path, tasks: TaskScope) -> None:
    precious = folder / "precious"
    precious.write_text("precious")
    for name in ("process.json", "process.err"):
        (folder / name).symlink_to(precious)
    process = await run(folder, "", tasks)
    assert (await process.wait()).code == 0
    assert precious.read_text() == "precious"


async def test_a_spawner_passes_descriptors_under_the_numbers_of_the_order(
    folder: Path, tasks: TaskScope, spawner: Spawner
) -> None:
    (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()
    wanted = replace(spec(folder, "print(input().upper())"), stdio=(read_in, write_out, write_out))
    process = await start(wanted, record=folder / "process.json", follow=tasks.start)
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
        made = spec(one, "import time; time.sleep(600)")
        started.append(await start(made, record=one / "process.json", follow=tasks.start))
        if one is first:
            assert spawner.process is not None
            os.kill(spawner.process.pid, signal.SIGKILL)
    assert all(lives(process.pid) for process in started)
    for process in started:
        process.kill()
        assert (await process.wait()).code == 137


@pytest.mark.parametrize("sent", [b"", b"\0", b"\0" * 15])
def test_a_spawner_ends_with_its_node_in_the_middle_of_a_request(sent: bytes) -> None:
    ours, its = socket.socketpair()
    with (
        its,
        subprocess.Popen([sys.executable, "-I", "-S", SPAWNER, str(its.fileno())], pass_fds=[its.fileno()]) as process,
    ):
        its.close()
        ours.sendall(sent)
        ours.close()
        try:
            assert process.wait(30) == 0
        finally:
            process.kill()


class Watched(ExitOrderTracker):
    """Keeps what it watches, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[TrackedExit] = []

    def expect(self) -> tuple[TrackedExit, ExitHandle | None]:
        end, ticket = super().expect()
        self.ends.append(end)
        return end, ticket


@pytest.fixture
async def ends() -> AsyncIterator[Watched]:
    """An observer that gives its descriptors back."""
    made = Watched()
    yield made
    made.close()


async def two_sleepers(
    folder: Path, tasks: TaskScope, spawner: Spawner, ends: ExitOrderTracker
) -> list[ContainerProcess]:
    """Two programs in folders `0` and `1`."""
    found = []
    for name in ("0", "1"):
        (folder / name).mkdir()
        found.append(
            await start(
                spec(folder / name, "import time; time.sleep(600)"),
                record=folder / name / "process.json",
                follow=tasks.start,
                exits=ends,
            )
        )
    return found


def guard_of(folder: Path) -> int:
    """The guard of the program whose record lies in a folder."""
    return int(json.loads((folder / "process.json").read_text())["guard"])


async def test_ends_have_the_order_in_which_the_programs_ended_whichever_guard_wakes_first(
    folder: Path, tasks: TaskScope, spawner: Spawner, ends: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends_module, "LATE_SECONDS", 600.0)
    first, second = await two_sleepers(folder, tasks, spawner, ends)
    os.kill(guard_of(folder / "0"), signal.SIGSTOP)
    for process in (first, second):
        os.kill(process.pid, signal.SIGKILL)
        await eventually(functools.partial(lives, process.pid), equals(False))
    await eventually(lambda: ends.ends[1].reported)
    os.kill(guard_of(folder / "0"), signal.SIGCONT)
    assert (await first.wait()).at < (await second.wait()).at
    assert ends.ends[0].reported > ends.ends[1].reported  # type: ignore[operator]


async def test_the_end_of_a_program_does_not_wait_for_a_guard_that_is_stopped(
    folder: Path, tasks: TaskScope, spawner: Spawner, ends: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends_module, "LATE_SECONDS", 0.01)
    first, second = await two_sleepers(folder, tasks, spawner, ends)
    guard = guard_of(folder / "0")
    os.kill(guard, signal.SIGSTOP)
    for process in (first, second):
        os.kill(process.pid, signal.SIGKILL)
        await eventually(functools.partial(lives, process.pid), equals(False))
    assert (await second.wait()).code == 137
    assert not first.ended
    os.kill(guard, signal.SIGCONT)
    assert (await first.wait()).code == 137


def entries(folder: Path, name: str = "0.log") -> list[tuple[str, str, str]]:
    """Stream, completeness and text of each log entry."""
    *lines, end = (folder / name).read_bytes().decode().split("\n")
    assert not end
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
    text = await eventually((folder / name).read_text, ignore=(FileNotFoundError,))
    return int(text)


def lives(pid: int) -> bool:
    return bool(lowlevel.start_time(pid))


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


async def test_the_end_of_a_line_may_be_that_of_another_system(folder: Path, tasks: TaskScope) -> None:
    await (await run(folder, "import os; os.write(1, b'a\\r\\nb\\rc\\r\\n')", tasks)).wait()
    assert entries(folder) == [("stdout", "F", "a"), ("stdout", "F", "b\rc")]


async def test_output_is_logged_line_by_line_with_its_stream(folder: Path, tasks: TaskScope) -> None:
    code = "import os,sys; os.write(1, b'a\\n\\nb\\n'); sys.stderr.write(os.environ['GREETING']); os.write(1, b'end')"
    await (await run(folder, code, tasks)).wait()
    found = entries(folder)
    assert [entry for entry in found if entry[0] == "stdout"] == [
        ("stdout", "F", "a"),
        ("stdout", "F", ""),
        ("stdout", "F", "b"),
        ("stdout", "P", "end"),
    ]
    assert [entry for entry in found if entry[0] == "stderr"] == [("stderr", "P", "hällo")]


async def test_a_long_line_is_written_in_parts(folder: Path, tasks: TaskScope) -> None:
    await (await run(folder, "print('x' * 40000)", tasks)).wait()
    found = entries(folder)
    assert [full for _, full, _ in found] == ["P"] * (len(found) - 1) + ["F"]
    assert len(found) > 2
    assert "".join(text for *_, text in found) == "x" * 40000


async def test_logs_rotate_and_the_oldest_go(folder: Path, tasks: TaskScope) -> None:
    # Some 350 KB: however late the pipe is read, it holds 64 KiB, so there are six reads and more.
    wanted = replace(spec(folder, "for i in range(60000): print(i)"), log_bytes=50_000, log_files=3)
    process = await start(wanted, record=folder / "process.json", follow=tasks.start)
    assert (await process.wait()).code == 0
    assert sorted(sizes(folder)) == ["0.log", "0.log.1", "0.log.2"]
    numbers = [int(text) for name in ("0.log.2", "0.log.1", "0.log") for *_, text in entries(folder, name)]
    assert numbers == list(range(numbers[0], 60000))
    # A write is one read of the pipe, with its times at most three times as long.
    assert all(size < 50_000 + 3 * 65536 * 8 for size in sizes(folder).values())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["no-such-program"], 'exec: "no-such-program": executable file not found in $PATH'),
        (["/no/such/program"], 'exec: "/no/such/program": stat /no/such/program: no such file or directory'),
        (["/"], 'exec: "/": is a directory'),
        (["a\0b"], "exec: "),
    ],
)
async def test_a_program_that_cannot_run(folder: Path, tasks: TaskScope, command: list[str], message: str) -> None:
    wanted = replace(spec(folder, ""), command=command)
    with pytest.raises(ProgramStartError) as raised:
        await start(wanted, record=folder / "process.json", follow=tasks.start)
    assert str(raised.value).startswith(message)


async def test_a_missing_working_folder(folder: Path, tasks: TaskScope) -> None:
    wanted = replace(spec(folder, ""), folder=str(folder / "absent"))
    with pytest.raises(ProgramStartError, match=r"working directory .*: No such file or directory"):
        await start(wanted, record=folder / "process.json", follow=tasks.start)


async def test_a_large_environment_reaches_the_process(folder: Path, tasks: TaskScope) -> None:
    wanted = spec(folder, "import os; print(len(os.environ['BIG']), len(os.environ))")
    more = {"BIG": "x" * 100_000, **{f"V{index}": "y" * 1000 for index in range(500)}}
    wanted = replace(wanted, environment={**wanted.environment, **more})
    process = await start(wanted, record=folder / "process.json", follow=tasks.start)
    assert (await process.wait()).code == 0
    assert entries(folder)[0][2].startswith("100000 50")


async def test_sigterm_ends_a_process_that_obeys(folder: Path, tasks: TaskScope) -> None:
    code = "import signal,sys,time; signal.signal(15, lambda *_: sys.exit(5)); print('up', flush=True)"
    # Not one long sleep: a signal that comes just before it is heard after it.
    process = await run(folder, code + "\nwhile True: time.sleep(0.05)", tasks)
    await eventually(lambda: entries(folder))
    process.terminate()
    assert (await process.wait()).code == 5


async def test_a_process_whose_task_never_begins_is_ended(folder: Path) -> None:
    """As when its scope is left in the moment in which it has started."""

    def cancelled(name: str, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.cancel()
        return task

    process = await start(
        spec(folder, "import time; time.sleep(600)"), record=folder / "process.json", follow=cancelled
    )
    assert (await process.wait()).code == 137
    await eventually(lambda: lives(process.pid), is_empty)


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
    process = await run(folder, DETACH + DETACHED, tasks)
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
    wanted = replace(spec(folder, "while True: print('x' * 100)"), log_bytes=1_000_000)
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
from trainwright.controller.local.node.process.supervision import ProcessSpec, Spawner, start
from trainwright.controller.runtime.tasks import TaskScope
async def main():
    async with TaskScope("main") as tasks:
        folder, spawner = Path({str(folder)!r}), Spawner()
        order = ProcessSpec(command=[sys.executable, "-c", {code!r}], environment={{}}, folder=str(folder),
                      log=str(folder / "0.log"), grace=0.2)
        process = await start(order, record=folder / "process.json", follow=tasks.start, spawn=spawner.start)
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
    eventually_sync(lambda: [one for one in (pid, detached) if lives(one)], is_empty)


async def test_a_process_whose_start_nobody_waits_for_has_ended(
    folder: Path, tasks: TaskScope, spawner: Spawner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it ignores SIGTERM."""
    code = "import os,signal,time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(600)"

    async def readline(reports: asyncio.StreamReader) -> bytes:
        # The loop has not come to the report yet.
        never: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        return await never

    monkeypatch.setattr(asyncio.StreamReader, "readline", readline)
    made = start(spec(folder, code), record=folder / "process.json", follow=tasks.start)
    starting = asyncio.create_task(made)
    pid = int(await eventually(lambda: entries(folder)[0][2], ignore=(FileNotFoundError, IndexError)))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not lives(pid)


async def test_a_killed_guard_takes_its_program_along(folder: Path, tasks: TaskScope) -> None:
    process = await run(folder, "import time; time.sleep(600)", tasks)
    guard = json.loads((folder / "process.json").read_text())["guard"]
    os.kill(guard, signal.SIGKILL)
    assert (await process.wait()).code == 137
    await eventually(lambda: lives(process.pid), is_empty)


FOREIGN = DETACH.replace('open("detached"', 'os.environ.clear(); open("detached"').replace(
    "time.sleep(600)", "os.execve(sys.executable, [sys.executable, '-c', 'import time; time.sleep(600)'], {})"
)
"""What it leaves has another environment, too."""


@pytest.mark.parametrize("code", [DETACH, FOREIGN])
async def test_a_killed_guard_leaves_nothing(folder: Path, tasks: TaskScope, code: str) -> None:
    """Also of a process in a session of its own whose parent has ended, as a server that became a daemon."""
    wanted = spec(folder, code + "time.sleep(600)")
    process = await start(wanted, record=folder / "process.json", follow=tasks.start)
    detached = await number(folder, "detached")
    os.kill(guard_of(folder), signal.SIGKILL)
    assert (await process.wait()).code == 137
    if code is FOREIGN:
        # The end does not wait for what the environment does not name: the spawner alone knows of it.
        await eventually(lambda: lives(detached), equals(False))
    assert not lives(detached)
    assert not lives(process.pid)


async def test_a_guard_that_does_not_obey_is_killed(
    folder: Path, tasks: TaskScope, spawner: Spawner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "GUARD_SECONDS", 0.01)
    wanted = spec(folder, DETACH + "time.sleep(600)")
    process = await start(wanted, record=folder / "process.json", follow=tasks.start)
    detached = await number(folder, "detached")
    os.kill(guard_of(folder), signal.SIGSTOP)
    process.kill()
    assert (await process.wait()).code == 137
    assert not lives(process.pid)
    assert not lives(detached)


async def test_a_killed_guard_takes_nothing_of_others_along(
    folder: Path, tasks: TaskScope, spawner: Spawner, ends: Watched
) -> None:
    first, second = await two_sleepers(folder, tasks, spawner, ends)
    os.kill(guard_of(folder / "0"), signal.SIGKILL)
    assert (await first.wait()).code == 137
    assert lives(second.pid)
    second.kill()
    assert (await second.wait()).code == 137


def test_a_spawner_stays_until_the_last_guard_has_ended_and_ends_what_a_dead_one_left(folder: Path) -> None:
    """The cluster is killed, and so is a guard, before it can end its program."""
    program = f"""
import asyncio, os, sys
from pathlib import Path
from trainwright.controller.local.node.process.supervision import ProcessSpec, Spawner, start
from trainwright.controller.runtime.tasks import TaskScope
async def main():
    async with TaskScope("main") as tasks:
        folder, spawner = Path({str(folder)!r}), Spawner()
        order = ProcessSpec(command=[sys.executable, "-c", {FOREIGN + "time.sleep(600)"!r}], environment={{}},
                      folder=str(folder), log=str(folder / "0.log"), grace=600.0)
        process = await start(order, record=folder / "process.json", follow=tasks.start, spawn=spawner.start)
        await process.wait()
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program]) as cluster:
        detached = int(eventually_sync((folder / "detached").read_text, ignore=(FileNotFoundError,)))
        # The program runs a moment before there is a record of it.
        guard = eventually_sync(lambda: guard_of(folder), ignore=(FileNotFoundError, ValueError))
        os.kill(guard, signal.SIGSTOP)  # or it ends its program, and itself, before it is killed
        cluster.kill()
    os.kill(guard, signal.SIGKILL)
    eventually_sync(lambda: lives(detached), equals(False))


async def test_a_full_disk_stops_the_log_and_not_the_program(folder: Path, tasks: TaskScope) -> None:
    code = "import sys, time\nfor i in range(1000): print(i)\nopen('end', 'w').close(); sys.exit(5)"
    wanted = replace(spec(folder, code), log="/dev/full")
    process = await start(wanted, record=folder / "process.json", follow=tasks.start)
    assert (await process.wait()).code == 5
    assert (folder / "end").exists()


async def test_a_log_that_cannot_be_opened_does_not_stop_the_program(folder: Path, tasks: TaskScope) -> None:
    wanted = replace(spec(folder, "print(1)"), log=str(folder / "absent" / "0.log"))
    process = await start(wanted, record=folder / "process.json", follow=tasks.start)
    assert (await process.wait()).code == 0


def test_a_line_that_is_written_over_is_in_the_log_as_it_moves(folder: Path) -> None:
    log = guard_module.LogFile(str(folder / "0.log"), 10**6, 2)
    seen = []
    for data in (b"no bar", b"\r\n", b"\r 20%", b"\r 40%\r", b" 60%", b"\ndone"):
        log.write("stderr", data)
        entries = filter(None, map(parse, (folder / "0.log").read_bytes().split(b"\n")))
        seen.append(b"".join(one.text + (b"" if one.partial else b"\n") for one in entries))
    assert seen == [
        b"",
        b"no bar\n",
        b"no bar\n\r 20%",
        b"no bar\n\r 20%\r 40%",
        b"no bar\n\r 20%\r 40%\r 60%",
        b"no bar\n\r 20%\r 40%\r 60%\n",
    ]
    log.close()


def test_a_line_of_the_other_stream_is_written_over_one_that_moves(folder: Path) -> None:
    """As a program that prints while its bar runs, and as a bar whose end comes after that."""
    log = guard_module.LogFile(str(folder / "0.log"), 10**6, 2)
    for stream, data in (
        ("stderr", b"\r 20%"),
        ("stdout", b"epoch 1\n"),
        ("stderr", b"\r 40%"),
        ("stdout", b"epoch 2\nepoch 3\n"),
        ("stderr", b"\nTrace"),
        ("stdout", b"end\n"),
        ("stderr", b"back\n"),
    ):
        log.write(stream, data)
    log.close()
    entries = [entry for line in (folder / "0.log").read_bytes().split(b"\n") if (entry := parse(line)) is not None]
    text = b"".join(entry.text + (b"" if entry.partial else b"\n") for entry in entries)
    shown = [line.rpartition(b"\r")[2] for line in text.split(b"\n")]
    assert shown == [b"epoch 1", b"epoch 2", b"epoch 3", b" 40%", b"end", b"Traceback", b""]


def test_a_log_says_what_it_could_not_write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = guard_module.LogFile(str(folder / "0.log"), 10**6, 2)
    log.write("stdout", b"before\n")
    real, room = os.write, [40, 0, 0]

    def write(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = real(descriptor, data[: room[0]])
        room[0] -= taken
        return taken

    with monkeypatch.context() as full:
        full.setattr(os, "write", write)
        log.write("stdout", b"torn in the middle of this line\n")
        log.write("stdout", b"lost\n")
    log.write("stdout", b"after\n")
    log.close()
    texts = [parse(line).text for line in (folder / "0.log").read_bytes().splitlines() if parse(line)]  # type: ignore[union-attr]
    assert [texts[0], texts[-1]] == [b"before", b"after"]
    assert re.fullmatch(rb"\d+ bytes of this log could not be written: No space left on device", texts[-2])


def test_a_guard_obeys_what_comes_with_its_specification(folder: Path, spawner: Spawner) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    line = json.dumps(asdict(spec(folder, code))).encode() + b"\nkill\n"
    guard = spawner.start(folder / "guard.err", [])
    with guard.stdin, guard.stdout:
        guard.send(line)
        reports = [json.loads(one) for one in guard.stdout]
    assert reports[-1]["exited"] == 137


def test_what_the_environment_names_is_killed_at_the_next_start(folder: Path) -> None:
    """A process without any record: guard, spawner and cluster were killed."""
    pods = folder / "pods"
    (pods / "uid").mkdir(parents=True)
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    names = [pods / "uid" / "containers" / "main" / "process.json", folder / "pods2" / "uid" / "process.json"]
    environments = [{**os.environ, lowlevel.MARKER: str(name)} for name in names]
    with (
        subprocess.Popen(sleep, env=environments[0]) as survivor,
        subprocess.Popen(sleep, env=environments[1]) as other,
    ):
        folders.end_survivors(pods)
        assert survivor.wait(60) == -signal.SIGKILL
        assert other.poll() is None
        other.kill()


async def test_a_process_without_a_record_does_not_run(folder: Path, tasks: TaskScope) -> None:
    code = "open('pid', 'w').write(str(__import__('os').getpid())); __import__('time').sleep(600)"
    (folder / "process.json").mkdir()
    with pytest.raises(IsADirectoryError):
        await start(spec(folder, code), record=folder / "process.json", follow=tasks.start)
    # It may have been killed before it wrote its number.
    if (folder / "pid").exists():
        assert not lives(int((folder / "pid").read_text()))


def test_survivors_of_an_earlier_run_are_killed(folder: Path) -> None:
    containers = folder / "uid" / "containers"
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0) as survivor:
        for name, started in (("main", lowlevel.start_time(survivor.pid)), ("other", "12345")):
            (containers / name).mkdir(parents=True)
            record = {"pid": survivor.pid, "start_time": started, "guard": 1}
            (containers / name / "process.json").write_text(json.dumps(record))
        (containers / "torn").mkdir()
        (containers / "torn" / "process.json").write_text("{")
        assert folders.end_survivors(folder) == {"uid"}
        assert survivor.wait(60) == -signal.SIGKILL
    assert not list(containers.glob("*/process.json"))


def test_a_reused_number_is_left_alone(folder: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0) as innocent:
        try:
            assert not lowlevel.kill_group(innocent.pid, "12345")
            assert innocent.poll() is None
        finally:
            innocent.kill()


@pytest.mark.parametrize("program", ["guard", "spawner", "launcher"])
def test_the_small_programs_load_nothing_of_the_project_but_each_other(program: str) -> None:
    code = (
        "import sys; sys.path.append(sys.argv[1]);"
        f" import trainwright.controller.local.node.process.{program};"
        " print(*(name for name in sys.modules if name.count('.') > 3 and name.startswith('trainwright')))"
    )
    root = str(SPAWNER.parents[5])
    found = subprocess.run([sys.executable, "-I", "-S", "-c", code, root], capture_output=True, text=True, check=True)
    own = {f"trainwright.controller.local.node.process.{name}" for name in ("guard", "launcher", "lowlevel", "spawner")}
    assert {name for name in found.stdout.split() if name.count(".") > 4} <= own


async def test_a_cancelled_wait_leaves_the_process(folder: Path, tasks: TaskScope) -> None:
    process = await run(folder, "import time; time.sleep(600)", tasks)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await process.wait()
    assert lives(process.pid)
    process.kill()
    await process.wait()
