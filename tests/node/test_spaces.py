# SPDX-License-Identifier: Apache-2.0
"""A node leaves nothing behind, whatever ends first, and changes nothing of the machine while it runs."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.node import debian
from hack.node.keeper import PREFIX, hierarchies
from hack.node.spaces import KEEPER, Spaces, cache
from trainwright.controller.runtime.testing.component import Components
from trainwright.controller.runtime.testing.waiting import equals, eventually_sync

SETTINGS = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward")


def machine() -> dict[str, object]:
    """What of the machine a node could change."""
    mounts = Path("/proc/self/mounts").read_text()
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    routes = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    settings = [Path("/proc/sys", name).read_text() for name in SETTINGS]
    return {"mounts": mounts, "links": links, "routes": routes, "settings": settings, "host": os.uname().nodename}


def groups(keeper: int) -> list[Path]:
    """The cgroups of a node that exist."""
    return [group for _, own, _ in hierarchies() if (group := own / f"{PREFIX}{keeper}").exists()]


@pytest.fixture
def started() -> Iterator[tuple[Spaces, Components, Path]]:
    """Namespaces with a network of their own."""
    folder = Path(tempfile.mkdtemp(prefix="test-", dir=cache() / "runs"))
    components = Components(folder)
    try:
        yield Spaces(components, folder, debian.node(), own_network=True), components, folder
    finally:
        components.stop()
        shutil.rmtree(folder, ignore_errors=True)


def processes(namespace: str) -> list[int]:
    """The processes of a PID namespace."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str((entry / "ns" / "pid").readlink()) == namespace:
                found.append(int(entry.name))
        except OSError:
            continue  # ended meanwhile
    return found


@pytest.mark.parametrize("victim", ["the first process", "the keeper", "none"])
def test_nothing_stays_when_it_ends(victim: str) -> None:
    before = machine()
    folder = Path(tempfile.mkdtemp(prefix="test-", dir=cache() / "runs"))
    components = Components(folder)
    spaces = Spaces(components, folder, debian.node(), own_network=True)
    keeper = int((folder / "keeper").read_text())
    namespace = str(Path(f"/proc/{spaces.pid}/ns/pid").readlink())
    # One that is no child of the first process, and has a group of its own.
    spaces.run(
        "sh", "-c", "for own in /sys/fs/cgroup/*/; do mkdir -p $own/pods/one; done; setsid sleep 600 >/dev/null 2>&1 &"
    )
    assert len(processes(namespace)) >= 3
    assert groups(keeper)
    assert machine() == before
    if victim == "the first process":
        os.kill(spaces.pid, signal.SIGKILL)
        eventually_sync(lambda: components.by_name[KEEPER].running, equals(False))
    elif victim == "the keeper":
        os.kill(keeper, signal.SIGKILL)
    else:
        components.stop()
    eventually_sync(lambda: processes(namespace), equals([]))
    if victim == "the keeper":
        # Nobody was left to remove its groups: the next start does.
        other = Path(tempfile.mkdtemp(prefix="test-", dir=cache() / "runs"))
        more = Components(other)
        Spaces(more, other, debian.node(), own_network=True)
        assert not folder.exists()
        more.stop()
        shutil.rmtree(other)
    assert groups(keeper) == []
    components.stop()
    shutil.rmtree(folder, ignore_errors=True)
    assert machine() == before


def test_inside_it_looks_like_a_machine_of_its_own(started: tuple[Spaces, Components, Path]) -> None:
    spaces, _, _ = started
    assert spaces.run("hostname").strip() == "node-1"
    assert spaces.run("cat", "/proc/sys/vm/overcommit_memory").strip() == "1"
    assert {line.split(":")[1].strip() for line in spaces.run("ip", "-o", "link").splitlines()} == {"lo", "node0"}
    assert spaces.run("cat", "/proc/1/comm").strip() == "bash"
    # The root in the cache is not written to.
    spaces.run("touch", "/written")
    assert not (debian.node() / "written").exists()
