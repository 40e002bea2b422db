# SPDX-License-Identifier: Apache-2.0
"""Where the node's files are, and whether this machine can run one."""

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainwright.controller.runtime.testing.errors import ControlPlaneError
from trainwright.controller.runtime.testing.tools import cache_root

ROOT = Path(__file__).resolve().parents[2]
_SPACES = ("--mount", "--net", "--uts", "--ipc", "--pid", "--cgroup")
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
    tried = subprocess.run(
        ["unshare", *_SPACES, "--fork", "ip", "link", "add", "type", "bridge"],
        capture_output=True,
        text=True,
        check=False,
    )
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


@contextmanager
def step(title: str) -> Iterator[None]:
    """Say what takes long, and how long it took."""
    print(f"{title} …", flush=True)
    began = time.monotonic()
    yield
    print(f"{title}: done in {time.monotonic() - began:.0f} s", flush=True)
