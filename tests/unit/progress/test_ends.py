# SPDX-License-Identifier: Apache-2.0
"""How trainings end: real processes, real signals, and what their last report says."""

import os
import random
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.progress.processes import Training, kill_at_random
from tests.unit.progress.reporters import configure, document, serving
from trainwright import progress
from trainwright.progress import ReadError, Reporter, read

# The first update is reported at once, the second one only at the end.
WITH = """
with Reporter(total=10, every=1000) as reporter:
    reporter.update(step=1)
    reported()
    reporter.update(step=7, loss=0.5)
    {end}
"""
BARE = """
reporter = Reporter(total=10, every=1000)
reporter.update(step=1)
reported()
reporter.update(step=7, loss=0.5)
{end}
"""
WAIT = 'print("ready", flush=True); sys.stdin.read()'


@pytest.mark.parametrize(
    ("program", "end", "code", "state", "percentage", "message"),
    [
        (WITH, "pass", 0, "completed", 100, None),
        (WITH, "sys.exit(0)", 0, "completed", 100, None),
        (WITH, "sys.exit()", 0, "completed", 100, None),
        (WITH, "raise ValueError('secret')", 1, "failed", 70, "ValueError"),
        (WITH, "sys.exit(1)", 1, "failed", 70, "SystemExit"),
        (WITH, "sys.exit('no data')", 1, "failed", 70, "SystemExit"),
        (WITH, "raise KeyboardInterrupt", -2, "failed", 70, "KeyboardInterrupt"),
        (BARE, "reporter.close()", 0, "completed", 100, None),
        (BARE, "reporter.close('failed')", 0, "failed", 70, None),
        (BARE, "reporter.close('done')", 0, "running", 70, None),
        (BARE, "raise ValueError('secret')", 1, "failed", 70, "ValueError"),
        # Whether these exit codes were meant is not known.
        (BARE, "pass", 0, "running", 70, None),
        (BARE, "sys.exit(1)", 1, "running", 70, None),
    ],
)
def test_ends(tmp_path: Path, program: str, end: str, code: int, state: str, percentage: int, message: str) -> None:
    training = Training(tmp_path, program.format(end=end))
    assert training.end()[0] == code
    said = training.said()
    assert (said.state, said.percentage, said.message) == (state, percentage, message)
    assert (said.step, said.loss) == (7, 0.5)
    left = training.left()
    assert (left.state, left.percentage, left.step) == (state, percentage, 7)
    assert b"secret" not in training.file.read_bytes() + training.final.read_bytes()


@pytest.mark.parametrize(("end", "state"), [("", None), ("reporter.close()", "completed"), ("1 / 0", "failed")])
def test_a_training_without_a_step(tmp_path: Path, end: str, state: str | None) -> None:
    training = Training(tmp_path, f"reporter = Reporter(total=10)\n{end}")
    training.end()
    assert (training.said().state if training.file.exists() else None) == state


def test_os_exit_leaves_the_last_periodic_report(tmp_path: Path) -> None:
    training = Training(tmp_path, BARE.format(end="reporter._tick(); reporter.update(step=9); os._exit(4)"))
    assert training.end()[0] == 4
    assert training.said().step == 7
    with pytest.raises(ReadError):
        training.left()


def test_sigterm_sends_once_more_and_ends_the_process(tmp_path: Path) -> None:
    training = Training(tmp_path, BARE.format(end=WAIT))
    assert training.line() == "ready"
    assert training.signal(signal.SIGTERM)[0] == -signal.SIGTERM
    assert (training.said().step, training.said().state) == (7, "running")
    assert training.left().step == 7


@pytest.mark.parametrize(
    ("before", "code", "state"),
    [
        ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))", 3, "running"),
        ("signal.signal(signal.SIGTERM, lambda *_: print('saved'))", 0, "completed"),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", 0, "completed"),
    ],
)
def test_the_handler_that_was_there_decides(tmp_path: Path, before: str, code: int, state: str) -> None:
    training = Training(tmp_path, before + BARE.format(end=WAIT + "; reporter.update(step=9); reporter.close()"))
    assert training.line() == "ready"
    ended, out, _ = training.signal(signal.SIGTERM)
    assert ended == code
    assert training.said().state == training.left().state == state
    assert ("saved" in out) == ("saved" in before)


def test_the_handler_goes_with_the_reporter(tmp_path: Path) -> None:
    training = Training(
        tmp_path, BARE.format(end="reporter.close(); print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)")
    )
    assert training.end()[1] == "True\n"


def test_off_the_main_thread_no_handler_is_installed(tmp_path: Path) -> None:
    program = "".join(f"    {line}\n" for line in BARE.format(end="").splitlines())
    training = Training(
        tmp_path,
        f"def train():\n{program}\nthread = threading.Thread(target=train); thread.start(); thread.join()\n{WAIT}",
    )
    assert training.line() == "ready"
    assert training.signal(signal.SIGTERM)[0] == -signal.SIGTERM
    assert training.said().step == 1


def test_a_forked_child_is_silent(tmp_path: Path) -> None:
    """And its own way of ending stays as it was."""
    training = Training(
        tmp_path,
        BARE.format(
            end="""
reporter._tick()
child = os.fork()
if child == 0:
    reporter.update(step=9)
    print(threading.active_count(), flush=True)
    reporter.close()
    # Not signal.pause(): a signal that comes just before it is heard after it.
    while True:
        time.sleep(0.05)
print(os.waitpid(child, 0)[1], flush=True)
sys.stdin.read()
reporter.close()
"""
        ),
    )
    assert training.line() == "1"
    (child,) = Path(f"/proc/{training.process.pid}/task/{training.process.pid}/children").read_text().split()
    before = training.file.read_bytes()
    os.kill(int(child), signal.SIGTERM)
    assert training.line() == str(int(signal.SIGTERM))
    assert training.file.read_bytes() == before
    assert training.end()[0] == 0
    assert (training.said().step, training.said().state) == (7, "completed")


def test_a_child_that_exits_says_nothing(tmp_path: Path) -> None:
    training = Training(
        tmp_path,
        BARE.format(
            end="reporter._tick(); child = os.fork(); child and os.waitpid(child, 0); child or sys.exit(1)\n" + WAIT
        ),
    )
    assert training.line() == "ready"
    assert (training.said().step, training.said().state) == (7, "running")
    assert training.final.read_bytes() == b""
    assert training.signal(signal.SIGKILL)[0] == -signal.SIGKILL


def test_sigkill_at_random_moments_leaves_a_readable_file_or_none(tmp_path: Path) -> None:
    chance = random.Random(19)
    for number in range(6):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert kill_at_random(folder, chance) == ""


@pytest.fixture
def black_hole() -> Iterator[str]:
    """The URL of a server that drops packets: its queue of connections is full."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=0)) as listener:
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield f"https://127.0.0.1:{listener.getsockname()[1]}/status"
        for one in waiting:
            one.close()


def test_a_server_that_drops_packets_holds_up_neither_training_nor_file(tmp_path: Path, black_hole: str) -> None:
    training = Training(tmp_path, WITH.format(end=WAIT), url=black_hole)
    assert training.line() == "ready"
    assert training.end()[0] == 0
    assert training.said().state == training.left().state == "completed"


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "trainwright-progress"]


def test_the_training_goes_on_while_the_server_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The server answers only when the training has ended, so whatever waits for it waits for good."""
    monkeypatch.setattr(progress, "_END_SECONDS", 0.2)
    with serving() as server:
        server.silent.set()
        file = tmp_path / "progress.json"
        configure(monkeypatch, KUBEFLOW_TRAINER_SERVER_URL=server.url, TRAINWRIGHT_PROGRESS_FILE=file)
        with Reporter(total=100_000, every=0.1) as reporter:
            for step in range(1, 100_001):
                reporter.update(step=step, loss=1.0, metrics={"a": 1.0, "b": step})
            assert len(threads()) == 1
        assert server.reports == []
        assert document(file)["state"] == "completed"
    for thread in threads():
        thread.join()
    assert not reporter._active
    assert reporter.update(step=1) is None  # type: ignore[func-returns-value]


def test_the_thread_reports_each_so_many_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        configure(monkeypatch, KUBEFLOW_TRAINER_SERVER_URL=server.url)
        with Reporter(total=10, every=0.1) as reporter:
            step = 0
            while len(server.reports) < 4:
                step += 1
                reporter.update(step=step)
        for thread in threads():
            thread.join()
    assert server.connections == 1
    percentages = [report["progressPercentage"] for report in server.reports]
    assert percentages == sorted(percentages)
    assert percentages[-1] == 100


def test_updates_from_several_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "progress.json"
    configure(monkeypatch, TRAINWRIGHT_PROGRESS_FILE=file)
    with Reporter(every=0.1) as reporter:
        reporter._every = 0.0

        def train(number: int) -> None:
            for step in range(3000):
                reporter.update(step=step, loss=2.0, metrics={f"{number}-{step % 50}": 2.0})

        workers = [threading.Thread(target=train, args=(number,)) for number in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    report = read(file.read_bytes())
    assert report.loss == 2.0
    assert {value for name, value in report.metrics.items() if "-" in name} == {"2.0"}
    assert len([name for name in report.metrics if "-" in name]) == 200
