# SPDX-License-Identifier: Apache-2.0
"""What a node needs of this machine: its place in the cache, and sets of namespaces over a root folder.

With a network of its own, such a set is a node.
"""

import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from hack.node.forward import enter_network
from trainwright.controller.runtime.testing.component import Components
from trainwright.controller.runtime.testing.tools import ControlPlaneError, cache_root

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
_KEEPER = (sys.executable, "-I", "-S", str(Path(__file__).with_name("keeper.py")))
KEEPER = "node"
_PROGRAMS = ("apt-get", "dpkg", "ip", "mount", "nsenter", "unshare")


class NodeError(ControlPlaneError):
    """The message says what is missing and what to do."""


def cache() -> Path:
    """The folder of the node's root, store and running nodes, beside the programs of the control plane."""
    # Without links: podman remembers where its store is, and refuses one that another path leads to.
    return cache_root().parent.resolve() / "node"


def why_not() -> str:
    """Why this machine cannot run a node; empty if it can."""
    if platform.system() != "Linux":
        return f"a real node needs Linux, and this is {platform.system()}"
    if os.geteuid() != 0:
        return "a real node needs root: it makes namespaces, mounts and cgroups"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"a real node is built from Debian packages on Debian or Ubuntu; missing: {', '.join(missing)}"
    spaces = ("--mount", "--net", "--uts", "--ipc", "--pid", "--cgroup")
    trial = ["unshare", *spaces, "--fork", "ip", "link", "add", "type", "bridge"]
    tried = subprocess.run(trial, capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"this machine refuses the namespaces of a real node: {tried.stderr.strip()}"
    if "\toverlay\n" not in Path("/proc/filesystems").read_text():
        return "the kernel of this machine has no overlayfs, which containers need; try modprobe overlay"
    return ""


def must_be_possible() -> None:
    """Raise NodeError where no node can run."""
    if reason := why_not():
        raise NodeError(f"{reason}. The other clusters need less: make run, or make run CLUSTER=real")


def output_of(command: Sequence[str | Path], what: str = "", **options: Any) -> str:
    """What a program prints. Raises NodeError with its last lines: it failed; `what` stands for the command there."""
    done: subprocess.CompletedProcess[str]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        lines = f"{done.stdout}\n{done.stderr}".strip().splitlines()[-30:]
        said = what or " ".join(map(str, command))
        raise NodeError("\n".join([f"{said[:200]} failed:", *(f"  {line[:500]}" for line in lines)]))
    return done.stdout


@contextlib.contextmanager
def step(title: str) -> Iterator[None]:
    """Say what takes long, and how long it took."""
    print(f"{title} …", flush=True)
    began = time.monotonic()
    yield
    print(f"{title}: done in {time.monotonic() - began:.0f} s", flush=True)


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
        command = [*_KEEPER, "keep", json.dumps(plan)]
        components.launch(KEEPER, command, (folder / "pid").exists)
        components.wait(KEEPER)

    @property
    def pid(self) -> int:
        """The first process, by this machine's number."""
        return int((self.folder / "pid").read_text())

    def command(self, *command: str) -> list[str]:
        """The command, to be run in all namespaces."""
        return [*_KEEPER, "enter", str(self.folder), *command]

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
