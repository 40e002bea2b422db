# SPDX-License-Identifier: Apache-2.0
"""A set of namespaces over a root folder: started, entered and ended. With a network of its own it is a node."""

import contextlib
import ctypes
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from hack.node.places import cache, output_of
from trainwright.controller.runtime.testing.component import Components

T = TypeVar("T")

_HERE = Path(__file__).parent
_BARE = (sys.executable, "-I", "-S")
_CLONE_NEWNET = 0x40000000
KEEPER = "node"


class Spaces:
    """Namespaces whose first process waits. Ends with `components`, and when this process dies."""

    def __init__(
        self,
        components: Components,
        folder: Path,
        root: Path,
        *,
        own_network: bool,
        writable: bool = False,
        binds: Sequence[Path] = (),
    ) -> None:
        """Start them: the keeper is launched in `components`, and `folder` is that of the running node.

        Without `own_network` the network is this machine's. `writable`: change the root folder itself, and no layer
        above it. `binds`: more folders that are seen inside, at the same path.
        """
        self.folder = folder
        plan = {
            "folder": str(folder),
            "root": str(root),
            "network": "own" if own_network else "host",
            "writable": "yes" if writable else "no",
            "binds": " ".join(map(str, binds)),
        }
        command = [*_BARE, str(_HERE / "keeper.py"), json.dumps(plan)]
        components.launch(KEEPER, command, (folder / "pid").exists)
        components.wait(KEEPER)

    @property
    def pid(self) -> int:
        """The first process, by this machine's number."""
        return int((self.folder / "pid").read_text())

    def command(self, *command: str) -> list[str]:
        """The command, to be run in all namespaces."""
        return [*_BARE, str(_HERE / "enter.py"), str(self.folder), *command]

    def run(self, *command: str, place: Path | None = None, variables: Mapping[str, str] | None = None) -> str:
        """Run a command inside; returns its output. Raises NodeError, as `output_of`."""
        told = {f"NODE_{name}": value for name, value in (variables or {}).items()} | {"NODE_PWD": str(place or "/")}
        return output_of(self.command(*command), " ".join(command), env={**os.environ, **told})

    def in_network(self, call: Callable[[], T]) -> T:
        """The result of a call in a thread that is in the node's network."""

        def inside() -> T:
            enter_network(self.pid)
            return call()

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(inside).result()


def enter_network(pid: int) -> None:
    """Move this thread to the network of a process."""
    with open(f"/proc/{pid}/ns/net") as network:  # noqa: PTH123 - a descriptor is needed
        if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the network of process {pid}")


@contextlib.contextmanager
def workshop(root: Path, *, writable: bool = False, binds: Sequence[Path] = ()) -> Iterator[tuple[Spaces, Components]]:
    """Namespaces with this machine's network, to make and build things in."""
    (cache() / "runs").mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="workshop-", dir=cache() / "runs"))
    components = Components(folder)
    try:
        yield Spaces(components, folder, root, own_network=False, writable=writable, binds=binds), components
    finally:
        components.stop()
        shutil.rmtree(folder, ignore_errors=True)
