# SPDX-License-Identifier: Apache-2.0
"""Processes under a guard, well and badly behaved, without any API server."""

import asyncio
import contextlib
import errno
import functools
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from trainwright.controller.local.node import folders, logs
from trainwright.controller.local.node.logs import parse
from trainwright.controller.local.node.process import guard as guard_module
from trainwright.controller.local.node.process import lowlevel, supervision
from trainwright.controller.local.node.process.ends import ExitOrderTracker
from trainwright.controller.local.node.process.supervision import (
    SPAWNER,
    ContainerProcess,
    ProcessSpec,
    ProgramStartError,
    Spawner,
)
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.waiting import equals, eventually, eventually_sync, is_empty

CASES = cases(__file__)

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


class Machine:
    """Runs programs in a folder under guards of one spawner."""

    def __init__(self, folder: Path, tasks: TaskScope) -> None:
        self.folder, self.tasks = folder, tasks
        self.spawner, self.ends = Spawner(), ExitOrderTracker()

    def spec(self, code: str, **changes: Any) -> ProcessSpec:
        made = ProcessSpec(
            command=[sys.executable, "-c", code],
            environment={"PATH": os.environ["PATH"], "GREETING": "hällo"},
            folder=str(self.folder),
            log=str(self.folder / "0.log"),
        )
        return replace(made, **changes)

    async def run(self, code: str, *, mark: str = "process", follow: Any = None, **changes: Any) -> ContainerProcess:
        return await supervision.start(
            self.spec(code, **changes),
            mark=self.folder / mark,
            follow=follow or self.tasks.start,
            spawn=self.spawner.start,
            exits=self.ends,
        )

    async def sleepers(self) -> tuple[ContainerProcess, ContainerProcess]:
        return await self.run(SLEEP, mark="a"), await self.run(SLEEP, mark="b")

    def entries(self) -> list[tuple[str, str, str]]:
        """Stream, completeness and text of each log entry."""
        *lines, end = (self.folder / "0.log").read_bytes().decode().split("\n")
        assert not end
        return [(stream, full, text) for _, stream, full, text in (line.split(" ", 3) for line in lines)]

    async def detached(self) -> int:
        """The detached process, once it has told its number."""
        return int(await eventually((self.folder / "detached").read_text, ignore=(FileNotFoundError,)))


SLEEP = "import time; time.sleep(600)"


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    async with TaskScope("test") as tasks:
        made = Machine(tmp_path, tasks)
        yield made
    made.ends.close()
    made.spawner.close()


def sizes(folder: Path) -> dict[str, int]:
    """The log files and their sizes in bytes. The oldest may go at any moment."""
    found: dict[str, int] = {}
    for path in folder.glob("0.log*"):
        with contextlib.suppress(FileNotFoundError):
            found[path.name] = path.stat().st_size
    return found


def lives(pid: int) -> bool:
    return any(pid == one for one, _ in lowlevel.processes())


# ---------------------------------------------------------------------- starting


async def test_a_program_has_no_descriptors_but_its_own(machine: Machine) -> None:
    """Nothing of the spawner or of other guards is open, but the descriptor of the listing."""
    process = await machine.run(
        "import os, sys; print(os.environ['GREETING'], os.listdir('/proc/self/fd')); sys.exit(3)"
    )
    assert (await process.wait()).code == 3
    assert machine.entries() == [("stdout", "F", "hällo ['0', '1', '2', '3']")]


async def test_a_link_in_the_place_of_the_errors_of_a_guard_is_replaced(machine: Machine) -> None:
    precious = machine.folder / "precious"
    precious.write_text("precious")
    (machine.folder / "process.err").symlink_to(precious)
    assert (await (await machine.run("")).wait()).code == 0
    assert precious.read_text() == "precious"


async def test_a_spawner_passes_descriptors_under_the_numbers_of_the_order(machine: Machine) -> None:
    (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()
    process = await machine.run("print(input().upper())", stdio=(read_in, write_out, write_out))
    for descriptor in (read_in, write_out):
        os.close(descriptor)
    os.write(write_in, b"abc\n")
    os.close(write_in)
    assert await asyncio.to_thread(os.read, read_out, 100) == b"ABC\n"
    os.close(read_out)
    assert (await process.wait()).code == 0


async def test_guards_outlive_their_spawner_and_the_next_start_has_another(machine: Machine) -> None:
    first = await machine.run(SLEEP, mark="a")
    assert machine.spawner.process is not None
    os.kill(machine.spawner.process.pid, signal.SIGKILL)
    second = await machine.run(SLEEP, mark="b")
    for process in (first, second):
        assert lives(process.pid)
        process.kill()
        assert (await process.wait()).code == 137


@pytest.mark.parametrize(("changes", "message"), CASES["a_program_that_cannot_run"])
async def test_a_program_that_cannot_run(machine: Machine, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ProgramStartError) as raised:
        await machine.run("", **changes)
    assert str(raised.value).startswith(message)


async def test_a_large_environment_reaches_the_process(machine: Machine) -> None:
    variables = {"BIG": "x" * 100_000, **{f"V{index}": "y" * 1000 for index in range(500)}}
    code = "import os; print(len(os.environ['BIG']), len(os.environ))"
    process = await machine.run(code, environment=variables)
    assert (await process.wait()).code == 0
    assert machine.entries()[0][2].startswith("100000 50")


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


# ---------------------------------------------------------------------- ends


@pytest.mark.parametrize(("code", "wanted"), CASES["exit_codes"])
async def test_exit_codes(machine: Machine, code: str, wanted: int) -> None:
    process = await machine.run(code)
    exited = await process.wait()
    assert exited.code == wanted
    assert exited.at >= process.started_at


async def test_ends_have_the_order_in_which_the_programs_ended_whichever_guard_wakes_first(machine: Machine) -> None:
    first, second = await machine.sleepers()
    os.kill(first.guard_pid, signal.SIGSTOP)
    assert not first.program_ended()
    for process in (first, second):
        os.kill(process.pid, signal.SIGKILL)
        await eventually(functools.partial(lives, process.pid), equals(False))
    # It does not wait for the other guard.
    ended = await second.wait()
    assert (first.ended, first.program_ended(), ended.code) == (False, True, 137)
    os.kill(first.guard_pid, signal.SIGCONT)
    assert (await first.wait()).at < ended.at


async def test_sigterm_ends_a_process_that_obeys(machine: Machine) -> None:
    code = "import signal,sys,time; signal.signal(15, lambda *_: sys.exit(5)); print('up', flush=True)"
    # Not one long sleep: a signal that comes just before it is heard after it.
    process = await machine.run(code + "\nwhile True: time.sleep(0.05)")
    await eventually(machine.entries)
    process.terminate()
    assert (await process.wait()).code == 5


async def test_sigkill_ends_a_process_that_ignores_sigterm(machine: Machine) -> None:
    code = "import signal,time; say = lambda *_: print('no', flush=True); signal.signal(15, say); say()"
    process = await machine.run(code + "\nwhile True: time.sleep(1)")
    await eventually(machine.entries)
    process.terminate()
    await eventually(lambda: len(machine.entries()) == 2, what="the signal arrived")
    assert not process.ended
    process.kill()
    assert (await process.wait()).code == 137


@pytest.mark.parametrize("killed", [False, True])
async def test_detached_descendants_end_with_the_program(machine: Machine, killed: bool) -> None:
    process = await machine.run(DETACH + ("time.sleep(600)" if killed else DETACHED))
    detached = await machine.detached()
    if killed:
        assert lives(detached)
        process.kill()
    assert (await process.wait()).code == (137 if killed else 0)
    assert not lives(detached)


async def test_a_cancelled_wait_leaves_the_process(machine: Machine) -> None:
    process = await machine.run(SLEEP)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await process.wait()
    assert lives(process.pid)
    process.kill()
    await process.wait()


def never_begins(name: str, work: Any) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(work, name=name)
    task.cancel()
    return task


def refuses(name: str, work: Any) -> asyncio.Task[None]:
    work.close()
    raise RuntimeError(f"{name}: shutting down")


@pytest.mark.parametrize("follow", [never_begins, refuses])
async def test_a_pod_that_is_ending_starts_nothing(machine: Machine, follow: Any) -> None:
    before = descriptors()
    with pytest.raises(ProgramStartError, match="its pod is ending"):
        await machine.run(SLEEP, follow=follow)
    assert (descriptors(), machine.spawner.process) == (before, None)


def descriptors() -> set[str]:
    return {one.name for one in Path("/proc/self/fd").iterdir()}


async def settled(machine: Machine) -> set[str]:
    """What is open while no process runs."""
    return await eventually(descriptors, lambda _: not lowlevel.marked(str(machine.folder)))


class Interrupted:
    """Awaits a coroutine, and cancels its task as it waits for the `step`-th time."""

    def __init__(self, work: Any, step: int) -> None:
        self.work, self.step, self.reached = work, step, False

    def __await__(self) -> Any:
        waits, error = self.work.__await__(), None
        for number in itertools.count(1):
            try:
                waited = next(waits) if error is None else waits.throw(error)
            except StopIteration:
                return
            if number == self.step:
                self.reached = True
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            error = None
            try:
                yield waited
            except BaseException as raised:
                error = raised


class Life:
    """Follows one process, and keeps the task."""

    def __init__(self, step: int = 0) -> None:
        self.step = step
        self.task: asyncio.Task[None] | None = None
        self.interrupted: Interrupted | None = None

    def __call__(self, name: str, work: Any) -> asyncio.Task[None]:
        self.interrupted = interrupted = Interrupted(work, self.step)

        async def run() -> None:
            await interrupted

        self.task = asyncio.get_running_loop().create_task(run(), name=name)
        return self.task

    async def ended(self) -> BaseException | None:
        assert self.task is not None
        [error] = await asyncio.gather(self.task, return_exceptions=True)
        return error


@pytest.mark.parametrize("command", [[sys.executable, "-c", ""], ["no-such-program"]])
async def test_a_process_that_is_cancelled_at_any_moment_leaves_nothing(machine: Machine, command: list[str]) -> None:
    await (await machine.run("")).wait()
    before = await settled(machine)
    step = 0
    for step in itertools.count(1):
        life = Life(step)
        with contextlib.suppress(ProgramStartError):
            await machine.run("", follow=life, command=command)
        await life.ended()
        await eventually(lambda: descriptors() - before, is_empty)
        assert lowlevel.marked(str(machine.folder)) == []
        assert life.interrupted is not None
        if not life.interrupted.reached:
            break
    assert step > 4


@pytest.mark.parametrize("call", ["let_go", "follow", "_seen_at", "kill"])
async def test_a_failure_of_what_follows_a_process_leaves_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    await (await machine.run("")).wait()
    before = await settled(machine)
    life = Life()
    process = await machine.run(SLEEP, follow=life)

    def fail(*_: Any) -> Any:
        raise MemoryError(call)

    assert life.task is not None
    with monkeypatch.context() as failing:
        failing.setattr(ContainerProcess, call, fail)
        life.task.cancel()
        await life.ended()
    await eventually(lambda: descriptors() - before, is_empty)
    await eventually(lambda: lives(process.pid), is_empty)


async def test_a_process_whose_start_nobody_waits_for_has_ended(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it ignores SIGTERM."""
    code = "import os,signal,time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(600)"

    async def readline(reports: asyncio.StreamReader) -> bytes:
        # The loop has not come to the report yet.
        never: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        return await never

    monkeypatch.setattr(asyncio.StreamReader, "readline", readline)
    starting = asyncio.create_task(machine.run(code))
    pid = int(await eventually(lambda: machine.entries()[0][2], ignore=(FileNotFoundError, IndexError)))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not lives(pid)


def test_a_guard_obeys_what_comes_with_its_specification(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    spawner = Spawner()
    spec = ProcessSpec(command=[sys.executable, "-c", code], environment={}, folder="/", log=str(tmp_path / "0.log"))
    guard = spawner.start(tmp_path / "guard.err", [])
    with guard.stdin, guard.stdout:
        guard.send(json.dumps(asdict(spec)).encode() + b"\nkill\n")
        reports = [json.loads(one) for one in guard.stdout]
    spawner.close()
    assert reports[-1]["exited"] == 137


# ---------------------------------------------------------------------- guards and clusters that are killed


async def test_a_killed_guard_leaves_nothing(machine: Machine) -> None:
    """Also of a process in a session of its own whose parent has ended, as a server that became a daemon."""
    process = await machine.run(DETACH + "time.sleep(600)")
    detached = await machine.detached()
    os.kill(process.guard_pid, signal.SIGKILL)
    assert (await process.wait()).code == 137
    assert not lives(detached)
    await eventually(lambda: lives(process.pid), is_empty)


async def test_a_guard_that_does_not_obey_is_killed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "GUARD_SECONDS", 0.01)
    process = await machine.run(DETACH + "time.sleep(600)")
    detached = await machine.detached()
    os.kill(process.guard_pid, signal.SIGSTOP)
    process.kill()
    assert (await process.wait()).code == 137
    assert not lives(detached)
    await eventually(lambda: lives(process.pid), is_empty)


async def test_a_killed_guard_takes_nothing_of_others_along(machine: Machine) -> None:
    first, second = await machine.sleepers()
    os.kill(first.guard_pid, signal.SIGKILL)
    assert (await first.wait()).code == 137
    assert lives(second.pid)
    second.kill()
    assert (await second.wait()).code == 137


CLUSTER = """
import asyncio, sys
from pathlib import Path
from trainwright.controller.local.node.process.supervision import ProcessSpec, Spawner, start
from trainwright.controller.runtime.tasks import TaskScope
async def main():
    async with TaskScope("main") as tasks:
        folder, spawner = Path({folder!r}), Spawner()
        order = ProcessSpec(command=[sys.executable, "-c", {code!r}], environment={{}}, folder=str(folder),
                      log=str(folder / "0.log"), grace={grace})
        process = await start(order, mark=folder / "process", follow=tasks.start, spawn=spawner.start)
        print(process.pid, process.guard_pid, flush=True)
        await process.wait()
asyncio.run(main())
"""


@pytest.mark.parametrize("code", [SLEEP, DETACH + "import signal; signal.pause()"])
def test_nothing_survives_the_cluster(tmp_path: Path, code: str) -> None:
    """The cluster is killed without any warning."""
    program = CLUSTER.format(folder=str(tmp_path), code=code, grace=0.2)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as cluster:
        assert cluster.stdout is not None
        pids = [int(cluster.stdout.readline().split()[0])]
        if "detached" in code:
            pids.append(int(eventually_sync((tmp_path / "detached").read_text, ignore=(FileNotFoundError,))))
        assert all(map(lives, pids))
        cluster.kill()
    eventually_sync(lambda: [one for one in pids if lives(one)], is_empty)


def test_what_the_environment_names_is_killed_at_the_next_start(tmp_path: Path) -> None:
    """Guard, spawner and cluster were killed."""
    pods = tmp_path / "pods"
    (pods / "uid").mkdir(parents=True)
    marks = [pods / "uid" / "containers" / "main" / "process", tmp_path / "pods2" / "uid" / "process"]
    command = [sys.executable, "-c", SLEEP]
    with (
        subprocess.Popen(command, env={**os.environ, lowlevel.MARKER: str(marks[0])}) as survivor,
        subprocess.Popen(command, env={**os.environ, lowlevel.MARKER: str(marks[1])}) as other,
    ):
        assert folders.end_survivors(pods) == {"uid"}
        assert survivor.wait(60) == -signal.SIGKILL
        assert other.poll() is None
        other.kill()


# ---------------------------------------------------------------------- logs

WRITES = "import os,sys; os.write(1, b'a\\n\\nb\\n'); sys.stderr.write(os.environ['GREETING']); os.write(1, b'end')"


@pytest.mark.parametrize(
    ("code", "out", "err"),
    [
        (WRITES, [("F", "a"), ("F", ""), ("F", "b"), ("P", "end")], [("P", "hällo")]),
        # The end of a line may be that of another system.
        ("import os; os.write(1, b'a\\r\\nb\\rc\\r\\n')", [("F", "a"), ("F", "b\rc")], []),
    ],
)
async def test_output_is_logged_line_by_line_with_its_stream(
    machine: Machine, code: str, out: list[tuple[str, str]], err: list[tuple[str, str]]
) -> None:
    await (await machine.run(code)).wait()
    for stream, wanted in (("stdout", out), ("stderr", err)):
        assert [(full, text) for of, full, text in machine.entries() if of == stream] == wanted


async def test_a_long_line_is_written_in_parts(machine: Machine) -> None:
    await (await machine.run("print('x' * 40000)")).wait()
    found = machine.entries()
    assert [full for _, full, _ in found] == ["P"] * (len(found) - 1) + ["F"]
    assert len(found) > 2
    assert "".join(text for *_, text in found) == "x" * 40000


async def test_a_full_log_goes_on_in_another_file_and_the_oldest_go(machine: Machine) -> None:
    # Some 350 KB: however late the pipe is read, it holds 64 KiB, so there are six reads and more.
    process = await machine.run("for i in range(60000): print(i)", log_bytes=50_000, log_files=3)
    assert (await process.wait()).code == 0
    parts = logs.parts_of(machine.folder / "0.log")
    assert len(parts) == 3
    assert parts[0] > 0
    lines = b"".join(logs.part_of(machine.folder / "0.log", part).read_bytes() for part in parts).splitlines()
    numbers = [int(line.rpartition(b" ")[2]) for line in lines]
    assert numbers == list(range(numbers[0], 60000))
    # A write is one read of the pipe, with its times at most three times as long.
    assert all(size < 50_000 + 3 * 65536 * 8 for size in sizes(machine.folder).values())


async def test_endless_logs_neither_block_the_loop_nor_the_kill(machine: Machine) -> None:
    process = await machine.run("while True: print('x' * 100)", log_bytes=1_000_000)
    await eventually(lambda: len(sizes(machine.folder)) == 5)
    process.kill()
    assert (await process.wait()).code == 137
    assert sum(sizes(machine.folder).values()) < 5 * (1_000_000 + 200_000)


@pytest.mark.parametrize("log", ["/dev/full", "/absent/0.log"])
async def test_a_log_that_cannot_be_written_does_not_stop_the_program(machine: Machine, log: str) -> None:
    code = "import sys\nfor i in range(1000): print(i)\nopen('end', 'w').close(); sys.exit(5)"
    assert (await (await machine.run(code, log=log)).wait()).code == 5
    assert (machine.folder / "end").exists()


def test_a_line_that_is_written_over_is_in_the_log_as_it_moves(tmp_path: Path) -> None:
    log = guard_module.LogFile(str(tmp_path / "0.log"), 10**6, 2)
    seen = []
    for data in (b"no bar", b"\r\n", b"\r 20%", b"\r 40%\r", b" 60%", b"\ndone"):
        log.write("stderr", data)
        entries = filter(None, map(parse, (tmp_path / "0.log").read_bytes().split(b"\n")))
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


def test_a_line_of_the_other_stream_is_written_over_one_that_moves(tmp_path: Path) -> None:
    """As a program that prints while its bar runs, and as a bar whose end comes after that."""
    log = guard_module.LogFile(str(tmp_path / "0.log"), 10**6, 2)
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
    entries = [entry for line in (tmp_path / "0.log").read_bytes().split(b"\n") if (entry := parse(line)) is not None]
    text = b"".join(entry.text + (b"" if entry.partial else b"\n") for entry in entries)
    shown = [line.rpartition(b"\r")[2] for line in text.split(b"\n")]
    assert shown == [b"epoch 1", b"epoch 2", b"epoch 3", b" 40%", b"end", b"Traceback", b""]


def test_a_log_says_what_it_could_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = guard_module.LogFile(str(tmp_path / "0.log"), 10**6, 2)
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
    texts = [parse(line).text for line in (tmp_path / "0.log").read_bytes().splitlines() if parse(line)]  # type: ignore[union-attr]
    assert [texts[0], texts[-1]] == [b"before", b"after"]
    assert re.fullmatch(rb"\d+ bytes of this log could not be written: No space left on device", texts[-2])
