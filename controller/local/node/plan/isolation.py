# SPDX-License-Identifier: Apache-2.0
"""Mode A from the outside: what the launcher gets, and the probe that finds out whether it works on this machine."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from trainwright.api.objects import Document
from trainwright.controller.local.node.document.pods import hostname_of, shown_hostname_of, spec_of
from trainwright.controller.local.node.files import lies_below, write_fresh
from trainwright.controller.local.node.network.hostnames import names_of, peers_of
from trainwright.controller.local.node.plan.rewriting import LOCALHOST
from trainwright.controller.local.node.process.spawning import LAUNCHER
from trainwright.controller.local.node.volumes.volumes import Mount

PROBE_SECONDS = 5.0
NSSWITCH = "hosts: files dns\n"
NSCD = ("/run/nscd", "/var/run/nscd")
"""Folders of a resolver daemon's socket: it would answer from the machine's own hosts file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a launcher does."""

    command: Sequence[str]
    folder: str
    hostname: str = ""
    root: str = ""
    """An empty folder, over which the new root is mounted while it is built."""
    empty: str = ""
    """Another one, which stays empty."""
    mounts: Sequence[Mount | tuple[str, str, bool]] = ()
    """Source on this machine, path, whether it is read-only."""
    hidden: Sequence[str] = NSCD
    network: int = 0
    """Join the network that this process holds, or that of `join`; 0: use that of the machine."""
    join: int = 0
    """Join the namespaces of this launcher instead of making new ones."""
    terminal: bool = False
    """Whether standard input is a terminal, which the program gets as its own."""


def launcher_command(launch: Launch, file: Path) -> list[str]:
    """Write the file of a launch and return the command of its launcher, to which the guard adds a descriptor."""
    write_fresh(file, json.dumps(asdict(launch)).encode())
    return [sys.executable, "-I", "-S", str(LAUNCHER), str(file)]


def container_launch(
    pod: Document,
    command: Sequence[str],
    folder: str,
    mounts: Sequence[Mount],
    *,
    scratch: Path,
    work: Path,
    network: int = 0,
) -> Launch:
    """The launch of a container. Writes nsswitch.conf and hostname, and makes folders in `scratch`; it has `hosts`.

    A working folder that neither the machine nor a volume has is `work`.
    """
    root, empty = scratch / "root", scratch / "empty"
    for made in (root, empty):
        made.mkdir(parents=True, exist_ok=True)
    nsswitch = scratch / "nsswitch.conf"
    write_fresh(nsswitch, NSSWITCH.encode(), 0o644)
    shown = [(mount.source, mount.path, mount.read_only) for mount in mounts]
    if not Path(folder).is_dir() and not any(_lies_in(folder, mount.path) for mount in mounts):
        shown.append((str(work), folder, False))
    for mount in mounts:
        below = mount.source + folder[len(mount.path) :]
        # What leads out of the volume is for the container itself to find, or not.
        if _lies_in(folder, mount.path) and lies_below(below, mount.source):
            Path(below).mkdir(parents=True, exist_ok=True)
    hostname = scratch / "hostname"
    write_fresh(hostname, f"{shown_hostname_of(pod)}\n".encode(), 0o644)
    shown += [
        (str(scratch / "hosts"), "/etc/hosts", False),
        (str(hostname), "/etc/hostname", False),
        (str(nsswitch), "/etc/nsswitch.conf", True),
    ]
    return Launch(
        command=command,
        folder=folder,
        hostname=shown_hostname_of(pod),
        root=str(root),
        empty=str(empty),
        mounts=shown,
        network=network,
    )


def _lies_in(path: str, mounted: str) -> bool:
    return path == mounted or path.startswith(mounted.rstrip("/") + "/")


def hosts_text(pod: Document, pods: Iterable[Document]) -> str:
    """The hosts file of a pod: the machine's loopback, its own names, those of the pods of its job, its aliases."""
    lines = [f"{LOCALHOST}\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    own = [*names_of(pod), hostname_of(pod)]
    lines.append(f"{LOCALHOST}\t{' '.join(dict.fromkeys(own))}")
    lines += [f"{LOCALHOST}\t{' '.join(names_of(peer))}" for peer in peers_of(pod, pods) if peer is not pod]
    for alias in spec_of(pod).get("hostAliases") or ():
        lines.append(f"{alias['ip']}\t{' '.join(alias.get('hostnames') or ())}")
    return "\n".join(lines) + "\n"


def write_hosts(file: Path, text: str) -> None:
    """Write a hosts file in place: it is mounted by containers, which would not see a new one."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
        stream.truncate()


def probe() -> str:
    """Run something in namespaces once. Returns why that does not work here; empty if it does."""
    if sys.platform != "linux":
        return f"namespaces need Linux, this is {sys.platform}"
    with tempfile.TemporaryDirectory(prefix="trainwright-probe-") as made:
        return _try_out(Path(made))


def _try_out(scratch: Path) -> str:
    data = scratch / "data"
    data.mkdir()
    (data / "file").write_text("seen")
    (scratch / "hosts").write_text(f"{LOCALHOST} trainwright-probe.example\n")
    code = (
        "import socket; assert open('/trainwright-probe/data/file').read() == 'seen';"
        f" assert socket.gethostbyname('trainwright-probe.example') == '{LOCALHOST}'"
    )
    pod: Document = {"metadata": {"name": "trainwright-probe"}}
    command = [sys.executable, "-I", "-S", "-c", code]
    mounts = [Mount("/trainwright-probe/data", str(data), read_only=True)]
    launch = container_launch(pod, command, "/", mounts, scratch=scratch, work=scratch)
    read, write = os.pipe()
    try:
        done = subprocess.run(
            [*launcher_command(launch, scratch / "launch.json"), str(write)],
            pass_fds=[write],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a process in namespaces did not end within {PROBE_SECONDS:g} s"
    finally:
        os.close(write)
        with os.fdopen(read, "rb") as stream:
            os.set_blocking(read, False)
            failure = (stream.read(4096) or b"").decode("utf-8", "replace")
    if failure or done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return failure or f"a process in namespaces failed: {said[-1] if said else f'exit code {done.returncode}'}"
    return ""
