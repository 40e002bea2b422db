# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH100, PTH103, PTH112, PTH115, PTH120, PTH123, PTH208, PTH211 - pathlib would double the time to start
# ruff: noqa: S606 - that is what it is for
"""Mode A: runs a program in namespaces of its own (user, mount, host name, processes), or joins those of another.

It runs in a bare interpreter (`python -I -S launcher.py FILE FD [HANDLE]`) as the program of a guard, and imports
nothing of the project but `lowlevel`. FILE is a JSON object (`Launch` of `hosting`). FD is a pipe: closed without a
word when the program runs, else it says why not. HANDLE: three numbers that a program announces itself with; see
`ends`.

The new root is a tmpfs in which everything of `/` is mounted again, and the pod's volumes at their paths. Where such a
path is missing, its nearest existing folder is replaced by one in the tmpfs that shows the same entries; the machine's
own folders never change. In the new process namespace the first process is a small init: it passes SIGTERM on and
collects orphans. When it ends, the kernel kills everything in the namespace.

Everything works without privilege: https://man7.org/linux/man-pages/man7/user_namespaces.7.html
"""

import contextlib
import ctypes
import fcntl
import json
import os
import platform
import signal
import socket
import stat
import sys
import termios
from typing import Any

if __name__ == "__main__":  # a bare interpreter finds no packages
    sys.path.append(os.path.abspath(f"{__file__}/../../../../../.."))

from trainwright.controller.local.node.process.lowlevel import (
    LIBC,
    announce,
    check,
    die_with_parent,
    exit_code,
    map_own_user,
    start_failure,
)

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_UNBINDABLE, MS_PRIVATE = (
    *(1, 2, 4, 32, 4096, 16384),
    *(1 << 17, 1 << 18),
)
MS_NOEXEC, MS_NOATIME, MS_NODIRATIME, MS_RELATIME = 8, 1024, 2048, 1 << 21
ST_RELATIME = 4096
MNT_DETACH = 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
NAMESPACES = ("user", "pid_for_children", "uts", "mnt")
NSCD = ("/run/nscd", "/var/run/nscd")
"""Folders of a resolver daemon's socket: it would answer from the machine's own hosts file."""


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    words = [word.encode("utf-8", "surrogateescape") for word in (source, target, kind, data)]
    check(LIBC.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mount {source} at {target}")


# ---------------------------------------------------------------------- the new root


class Root:
    """The new root while it is built: a tmpfs at a folder of the machine."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._replaced: set[str] = set()
        self._mounted: list[tuple[str, str]] = []
        mount("trainwright", folder, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=16m")
        # Otherwise the folder that it lies in would show it again, with everything that is mounted in it by then.
        mount("none", folder, "", MS_UNBINDABLE)
        self._replace("/")

    def bind(self, source: str, path: str, *, read_only: bool = False) -> None:
        """Show a folder or file of the machine at a path."""
        path = resolved(path)
        if path == "/":
            raise OSError(0, "a volume cannot be mounted at /")
        self._make_place(path, folder=os.path.isdir(source))
        self._bind(source, self.folder + path)
        if read_only:
            self._make_read_only(self.folder + path)
        self._mounted.append((path, source))

    def _make_place(self, path: str, *, folder: bool) -> None:
        for mounted, source in reversed(self._mounted):
            if path.startswith(mounted + "/"):
                # Inside another volume: as container runtimes do, the place is made in that volume.
                make_place(source + path[len(mounted) :], folder=folder)
                return
        if os.path.lexists(path):
            return
        parent = os.path.dirname(path)
        while not os.path.isdir(parent):
            parent = os.path.dirname(parent)
        self._replace(parent)
        make_place(self.folder + path, folder=folder)

    def _replace(self, path: str) -> None:
        """Replace a folder of the machine, and those above it, by one in the tmpfs with the same entries."""
        if path in self._replaced:
            return
        if path != "/":
            self._replace(os.path.dirname(path))
            # It was mounted as a whole from its parent; what covers it from now on is empty.
            mount("trainwright", self.folder + path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=16m")
        self._replaced.add(path)
        prefix = path.rstrip("/") + "/"
        for name in os.listdir(path):
            # Folders such as /tmp lose entries all the time: then the place of one is empty, or there is none.
            with contextlib.suppress(FileNotFoundError):
                self._mirror(prefix + name)

    def _mirror(self, path: str) -> None:
        target = self.folder + path
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(path), target)
            return
        make_place(target, folder=stat.S_ISDIR(mode))
        self._bind(path, target)

    def _bind(self, source: str, target: str) -> None:
        # Recursive: the kernel refuses to show a folder without the mounts that hide parts of it.
        mount(source, target, "", MS_BIND | MS_REC)

    def _make_read_only(self, target: str) -> None:
        found = os.statvfs(target).f_flag
        # Flags that the mount has from the machine are locked: a remount has to repeat them.
        flags = found & (MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME)
        flags |= MS_RELATIME if found & ST_RELATIME else 0
        mount("none", target, "", MS_REMOUNT | MS_BIND | MS_RDONLY | flags)

    def enter(self) -> None:
        """Make this the root of the process."""
        number = PIVOT_ROOT.get(platform.machine())
        if number is None:
            raise OSError(0, f"pivot_root on {platform.machine()} is not known")
        os.chdir(self.folder)
        # With both at one place the old root lies over the new one, and is taken away.
        check(LIBC.syscall(ctypes.c_long(number), b".", b"."), "pivot_root")
        check(LIBC.umount2(b".", MNT_DETACH), "umount of the old root")
        os.chdir("/")


def resolved(path: str) -> str:
    return os.path.realpath(path)


def make_place(path: str, *, folder: bool) -> None:
    """Make an empty folder or file, unless something is there."""
    if os.path.lexists(path):
        return
    if folder:
        os.makedirs(path)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


# ---------------------------------------------------------------------- namespaces


def make_namespaces() -> None:
    """New namespaces, with the own user and group as the only ones."""
    user, group = os.getuid(), os.getgid()
    check(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWPID), "unshare")
    map_own_user(user, group)
    # Nothing that is mounted from here on reaches the machine.
    mount("none", "/", "", MS_REC | MS_PRIVATE)


def join_namespaces(pid: int) -> None:
    """Join namespaces of a process that made its own; the first is that of its users."""
    opened = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in NAMESPACES]
    for name, descriptor in zip(NAMESPACES, opened, strict=True):
        check(LIBC.setns(descriptor, 0), f"setns {name}")
        os.close(descriptor)


def build(launch: dict[str, Any]) -> None:
    make_namespaces()
    socket.sethostname(launch["hostname"])
    # Over the first the new root is mounted while it is built; the other one stays empty.
    folder, empty = f"{launch['scratch']}/root", f"{launch['scratch']}/empty"
    os.makedirs(folder, exist_ok=True)
    os.makedirs(empty, exist_ok=True)
    root = Root(folder)
    for source, path, read_only in sorted(launch["mounts"], key=lambda one: one[1].count("/")):
        root.bind(source, path, read_only=read_only)
    for hidden in NSCD:
        if os.path.isdir(hidden):
            root.bind(empty, hidden)
    root.enter()


# ---------------------------------------------------------------------- processes


def execute(launch: dict[str, Any], failed: int) -> None:
    """Become the program. Does not return; says on `failed` why the program cannot run."""
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        command = launch["command"]
        os.chdir(launch["folder"])
        if not command[0]:
            raise FileNotFoundError
        os.execvpe(command[0], command, os.environ)
    except OSError as error:
        say(failed, start_failure(error, launch["command"], launch["folder"]))
    os._exit(128)


def say(descriptor: int, text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(descriptor, text.encode("utf-8", "replace"))


def init(launch: dict[str, Any], failed: int, handle: list[int]) -> int:
    """The first process of the namespace: starts the program, passes SIGTERM on, collects orphans."""
    die_with_parent()
    # The namespace's own processes; a machine that hides parts of /proc refuses, and then the outer one stays.
    with contextlib.suppress(OSError):
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    program = os.fork()
    if program == 0:
        os.setpgid(0, 0)
        if handle:
            announce(*handle)
        execute(launch, failed)
    for descriptor in (failed, *handle[:2]):
        os.close(descriptor)
    with contextlib.suppress(PermissionError):  # it runs already, and has done so itself
        os.setpgid(program, program)

    def forward(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(program, number)

    signal.signal(signal.SIGTERM, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    while True:
        pid, status = os.wait()
        if pid == program:
            return exit_code(status)


def outer(child: int, descriptors: list[int]) -> int:
    """Outside the namespace: wait for its first process, without the descriptors that are for the program."""
    for descriptor in descriptors:
        os.close(descriptor)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    return exit_code(os.waitpid(child, 0)[1])


def main() -> int:
    with open(sys.argv[1], "rb") as file:
        launch: dict[str, Any] = json.load(file)
    failed, *handle = map(int, sys.argv[2:])
    descriptors = [failed, *handle[:2]]
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    joins = launch["join"]
    try:
        if joins:
            join_namespaces(joins)
        else:
            build(launch)
    except OSError as error:
        say(failed, f"namespaces: {error.strerror or error}")
        return 128
    # The first process of a namespace drops signals that it has no handler for, so one waits until there is one.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    child = os.fork()
    if child:
        return outer(child, descriptors)
    if joins:
        die_with_parent()
        if launch["terminal"]:
            # A session of the namespace: numbers of groups outside are not known in it.
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        execute(launch, failed)
    code = init(launch, failed, handle)
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
