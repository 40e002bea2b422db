# SPDX-License-Identifier: Apache-2.0
"""Starts a set of namespaces, or runs a command in one; a file for a bare interpreter (`python -I -S keeper.py …`).

`keep PLAN` starts one, and removes what the kernel does not: its cgroups. It runs outside of it, and ends when its
first process ends. SIGTERM ends both. If it is killed, the kernel kills the namespaces with all processes, and the next
start removes the cgroups. PLAN is JSON: `folder` for `pid` and `groups`, and the variables of `first.sh`.

`enter FOLDER COMMAND…` joins the cgroups of a node and becomes the command in its namespaces, in the folder NODE_PWD.
Settings of the machine stay outside, except those of proxies and of pip.
"""

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

PREFIX = "trainwright-node-"
_PR_SET_PDEATHSIG = 1
_SECONDS = 20.0
_SPACES = ("--mount", "--uts", "--ipc", "--pid", "--cgroup")
_KEPT = re.compile(r"(?i)(https?|no)_proxy|PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|DEFAULT_TIMEOUT)|TERM|LANG")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def hierarchies() -> "list[tuple[Path, Path, str]]":
    """Of each mounted cgroup hierarchy that processes of ours can be in: mount point, our own group, mount options."""
    own = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        own[names] = path
    found = []
    only_v2 = set(own) == {""}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        _, _, _, root, point, *_ = before.split()
        kind, _, options = after.split()
        if kind == "cgroup":
            ours = next((one for one in own if one and set(one.split(",")) <= set(options.split(","))), None)
            if ours is not None:
                mounted = f"none,{ours}" if ours.startswith("name=") else ours
                found.append((Path(point), _below(Path(point), root, own[ours]), mounted))
        elif kind == "cgroup2" and only_v2:
            # The root: only there may a group have both processes and children with controllers.
            found.append((Path(point), Path(point), ""))
    return found


def _below(point: Path, root: str, path: str) -> Path:
    inside = os.path.relpath(path, root)
    # A process may be in a group above what is mounted, as in some containers.
    return point if inside.startswith("..") else point / inside


def make_groups(name: str) -> "list[tuple[Path, Path, str]]":
    """A group in each hierarchy: mount point, group, mount options."""
    made = []
    for point, own, options in hierarchies():
        # Groups of nodes do not nest.
        parent = next((one.parent for one in (own, *own.parents) if one.name.startswith(PREFIX)), own)
        group = parent / name
        group.mkdir()
        if "cpuset" in options.split(","):
            for setting in ("cpuset.cpus", "cpuset.mems"):
                (group / setting).write_text((parent / setting).read_text())
            (group / "cgroup.clone_children").write_text("1")
        if not options:
            # With controllers in the children, the group itself must hold no processes.
            (group / "node").mkdir()
        made.append((point, group, options))
    return made


def sweep(runs: Path) -> None:
    """Remove groups and folders of nodes whose keeper was killed."""
    for keeper in runs.glob("*/keeper"):
        if not Path(f"/proc/{keeper.read_text()}").exists():
            shutil.rmtree(keeper.parent, ignore_errors=True)
    for _, own, _ in hierarchies():
        for group in own.glob(f"{PREFIX}*"):
            if not Path("/proc", group.name.removeprefix(PREFIX)).exists():
                remove(group, 1.0)


def remove(group: Path, seconds: float = _SECONDS) -> None:
    """Remove a group and those in it, as soon as their processes have ended."""
    deadline = time.monotonic() + seconds
    while group.is_dir():
        try:
            for folder, _, _ in os.walk(group, topdown=False):
                os.rmdir(folder)  # noqa: PTH106 - as the walk has it
        except OSError as error:
            if time.monotonic() > deadline:
                print(f"cannot remove {group}: {error}", file=sys.stderr)
                return
            time.sleep(0.05)


def _terminated(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def enter(folder: str, *command: str) -> None:
    """Become the command."""
    pid = Path(folder, "pid").read_text().strip()
    for group in Path(folder, "groups").read_text().split():
        Path(group).write_text("0")
    variables = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
    variables |= {name[5:]: value for name, value in os.environ.items() if name.startswith("NODE_")}
    place = ["/usr/bin/env", f"--chdir={os.environ.get('NODE_PWD', '/')}"]
    os.execvpe(  # noqa: S606 - no shell is wanted
        "nsenter",
        ["nsenter", "--target", pid, *_SPACES, "--net", "--root", "--wd", *place, *command],
        {**variables, "PATH": _PATH, "HOME": "/root"},
    )


def keep(plan: "dict[str, str]") -> int:
    """Keep the namespaces until they end."""
    folder = Path(plan["folder"])
    signal.signal(signal.SIGTERM, _terminated)
    sweep(folder.parent)
    (folder / "keeper").write_text(str(os.getpid()))
    groups = make_groups(f"{PREFIX}{os.getpid()}")
    try:
        return _keep(plan, folder, groups)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for _, made, _ in groups:
            remove(made)


def _keep(plan: "dict[str, str]", folder: Path, groups: "list[tuple[Path, Path, str]]") -> int:
    roots = [group / "cgroup.procs" for _, group, _ in groups]
    leaves = [(group if options else group / "node") / "cgroup.procs" for _, group, options in groups]
    (folder / "groups").write_text("\n".join(map(str, leaves)))
    # `first.sh` sees its own groups as roots of the hierarchies.
    mounts = "\n".join(f"{point} {options or '-'}" for point, _, options in groups)

    def prepare() -> None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for file in roots:
            file.write_text("0")

    spaces = [*_SPACES, *(["--net"] if plan["network"] == "own" else [])]
    script = Path(__file__).with_name("first.sh")
    variables = {"PATH": os.environ["PATH"], "CGROUPS": mounts, **{key.upper(): value for key, value in plan.items()}}
    with subprocess.Popen(
        ["unshare", *spaces, "--fork", "--kill-child", "--propagation", "private", "bash", str(script)],
        env=variables,
        preexec_fn=prepare,  # noqa: PLW1509 - this process has one thread
    ) as node:
        try:
            return node.wait()
        finally:
            node.kill()


if __name__ == "__main__":
    if sys.argv[1] == "enter":
        enter(*sys.argv[2:])
    raise SystemExit(keep(json.loads(sys.argv[2])))
