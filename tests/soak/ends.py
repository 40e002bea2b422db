# SPDX-License-Identifier: Apache-2.0
"""Which rank failed first, and what it said: scripts that fail at once on one, two and four nodes of a local cluster.

Each round is a `trainwright local run` as a user gives it. Two kinds alternate. In the one, all ranks fail as soon as
they have started, and whichever is first is first. In the other one, they fail in an order of chance, each a
millisecond after the end of the one before. Each rank has an exit code of its own and ends with a traceback. This
program holds descriptors of all ranks, so it knows from the kernel which one ended first. The command must end with the
code of that one and must have shown its traceback to the last line; and so must `trainwright local logs` later, from
the job that is kept.

The first half of the rounds has the machine for itself; beside the other half runs a load on every core.
"""

import argparse
import array
import contextlib
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

NODES = (1, 2, 4)
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
    lines = [line.removeprefix(f"[node-{rank}] ") for line in shown.splitlines() if line.startswith(f"[node-{rank}] ")]
    begins = [line for line in lines if line.startswith("Traceback")]
    return len(begins) == 1 and lines[-1:] == [LAST_LINE.format(rank)] and sum("deep(" in line for line in lines) == 4


@contextlib.contextmanager
def load(count: int) -> Iterator[None]:
    """So many processes that compute."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200, help="of each number of nodes (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--nodes", type=int, choices=NODES, action="append", help="only so many nodes")
    parser.add_argument("--load", type=int, default=2 * (os.cpu_count() or 1), help="processes (default: %(default)s)")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    chance = random.Random(arguments.seed)
    # An exception, as Ctrl-C is, so that the cluster is ended.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    wrong: Counter[str] = Counter()
    done: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="ends-") as made:
        cluster = Cluster(Path(made))
        up = cluster.call("up")
        if up.returncode:
            print(up.stdout, up.stderr)
            return 1
        try:
            number = 0
            for loaded in (False, True):
                for nodes in arguments.nodes or NODES:
                    with load(arguments.load if loaded else 0):
                        for index in range((arguments.rounds + 1) // 2):
                            number += 1
                            order = chance.sample(range(nodes), nodes)
                            apart = bool(index % 2)
                            kind = f"{nodes} nodes, {'apart' if apart else 'at once'}, {'loaded' if loaded else 'idle'}"
                            why = round_of(cluster, number, nodes, order, apart=apart)
                            done[kind] += 1
                            if why:
                                wrong[kind] += 1
                                print(f"round {number}, {kind}: {why}", flush=True)
                    print(*(f"{kind}: {done[kind]}, wrong {wrong[kind]}" for kind in done), sep="\n", flush=True)
        finally:
            cluster.call("down", "--delete")
    print(f"{done.total()} jobs, {wrong.total()} of them wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
