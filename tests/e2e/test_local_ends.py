# SPDX-License-Identifier: Apache-2.0
"""Which rank failed first, and what it said: the exit code of the first rank that failed, and its whole traceback.

Each job is a `trainwright local run` as a user gives it. All ranks fail as soon as they have started, and whichever is
first is first; or they fail in an order of chance, each a millisecond after the end of the one before. Each rank has an
exit code of its own and ends with a traceback. The test holds descriptors of all ranks, so it knows from the kernel
which one ended first.
"""

import array
import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

APART_SECONDS = 0.001
END_SECONDS = 300.0
CODE = 10
"""Of rank 0; the others follow."""
PROGRAM = """
import array, os, socket, sys, traceback

rank, apart = int(os.environ["PET_NODE_RANK"]), sys.argv[2] == "apart"

def deep(level):
    if level:
        return deep(level - 1) + 1
    raise ValueError(f"the data of rank {rank} is broken")

def end(*failure):
    traceback.print_exception(*failure)
    sys.stderr.flush()
    if apart:
        wait()
    os._exit(10 + rank)

def wait():
    if not observer.recv(1):
        os._exit(99)

observer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
observer.connect(sys.argv[1])
me = array.array("i", [os.pidfd_open(os.getpid())])
observer.sendmsg([bytes([rank])], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, me)])
wait()
sys.excepthook = end
deep(3)
"""
LAST_LINE = "ValueError: the data of rank {} is broken"


class Observer:
    """Knows the order in which the ranks of one job end: from the kernel, and not from what is tested."""

    def __init__(self, path: Path, order: list[int], *, apart: bool) -> None:
        self._order, self._apart = list(order), apart
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(path))
        self._server.listen(16)
        self._poll = select.epoll()
        self._poll.register(self._server, select.EPOLLIN)
        self._ranks: dict[int, int] = {}
        """By the descriptor of the process."""
        self._connections: dict[int, socket.socket] = {}
        self.ended: list[int] = []

    def watch(self, command: "subprocess.Popen[str]") -> None:
        """Follow the ranks until the command has ended."""
        deadline = time.monotonic() + END_SECONDS
        while command.poll() is None:
            if time.monotonic() > deadline:
                command.kill()
            for descriptor, _ in self._poll.poll(0.05):
                if descriptor == self._server.fileno():
                    self._accept()
                elif descriptor in self._ranks:
                    self._poll.unregister(descriptor)
                    self.ended.append(self._ranks.pop(descriptor))
                    os.close(descriptor)
                    self._next(sleep=True)

    def _accept(self) -> None:
        connection, _ = self._server.accept()
        data, extra, _, _ = connection.recvmsg(1, socket.CMSG_LEN(4))
        if not data or not extra:
            connection.close()
            return
        (descriptor,) = array.array("i", extra[0][2])
        self._poll.register(descriptor, select.EPOLLIN)
        self._ranks[descriptor] = data[0]
        self._connections[data[0]] = connection
        self._go(data[0])
        if self._apart and len(self._connections) == len(self._order):
            self._next(sleep=False)

    def _next(self, *, sleep: bool) -> None:
        if self._apart and self._order:
            if sleep:
                time.sleep(APART_SECONDS)
            self._go(self._order.pop(0))

    def _go(self, rank: int) -> None:
        with contextlib.suppress(OSError):
            self._connections[rank].send(b"g")

    def close(self) -> None:
        """Close everything."""
        for connection in self._connections.values():
            connection.close()
        for descriptor in self._ranks:
            os.close(descriptor)
        self._server.close()
        self._poll.close()


class Cluster:
    """A local cluster in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = folder / "fails.py"
        self.script.write_text(PROGRAM)
        self._state = folder / "state"

    def command(self, *arguments: str) -> list[str]:
        """A command on this cluster."""
        name, *others = arguments
        program = [sys.executable, "-m", "trainwright.controller.cli.main", "local", name]
        return [*program, f"--dir={self._state}", *others]

    def call(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        return subprocess.run(
            self.command(*arguments), cwd=self.folder, capture_output=True, text=True, check=False, timeout=END_SECONDS
        )


def round_of(cluster: Cluster, number: int, nodes: int, order: list[int], *, apart: bool) -> str:
    """One job; returns what was wrong with it."""
    name = f"ends-{number}"
    path = cluster.folder / "observer"
    path.unlink(missing_ok=True)
    observer = Observer(path, order, apart=apart)
    script = [str(cluster.script), "--", str(path), "apart" if apart else "at-once"]
    command = cluster.command("run", f"--nodes={nodes}", f"--job-name={name}", *script)
    try:
        with (cluster.folder / "output").open("w+") as output:
            with subprocess.Popen(
                command, cwd=cluster.folder, stdout=output, stderr=subprocess.STDOUT, text=True
            ) as run:
                observer.watch(run)
            output.seek(0)
            shown = output.read()
    finally:
        observer.close()
    if not observer.ended:
        return f"no rank was seen to end: {shown}"
    first = observer.ended[0]
    if apart and first != order[0]:
        return f"rank {order[0]} should have ended first, and {first} did"
    if run.returncode != CODE + first:
        return f"rank {first} ended first, {observer.ended}, and the exit code is {run.returncode}: {shown}"
    if not is_whole(shown, first):
        return f"the traceback of rank {first} is not whole: {shown}"
    later = cluster.call("logs", name)
    if not is_whole(later.stdout, first):
        return f"the traceback of rank {first} cannot be read later: {later.stdout}{later.stderr}"
    return ""


def is_whole(shown: str, rank: int) -> bool:
    """Whether the lines of a rank are a whole traceback, once."""
    lines = [line.removeprefix(f"[rank {rank}] ") for line in shown.splitlines() if line.startswith(f"[rank {rank}] ")]
    begins = [line for line in lines if line.startswith("Traceback")]
    return len(begins) == 1 and lines[-1:] == [LAST_LINE.format(rank)] and sum("deep(" in line for line in lines) == 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that ends with the module."""
    # Short: the path of a socket has at most 107 bytes.
    made = Cluster(Path(tmp_path_factory.mktemp("ends")))
    assert made.call("up").returncode == 0
    yield made
    assert made.call("down", "--delete").returncode == 0


@pytest.mark.parametrize(
    ("number", "order", "apart"),
    [(1, [0], False), (2, [1, 0], False), (3, [2, 0, 3, 1], True)],
    ids=["one node", "two nodes at once", "four nodes a millisecond apart"],
)
def test_the_rank_that_failed_first_is_told_with_its_traceback(
    cluster: Cluster, number: int, order: list[int], *, apart: bool
) -> None:
    assert round_of(cluster, number, len(order), order, apart=apart) == ""
