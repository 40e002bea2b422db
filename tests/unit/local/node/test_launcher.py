# SPDX-License-Identifier: Apache-2.0
"""The launcher of mode A alone, as this user and as one without any privilege."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from tests.unit.local.node.modes import REFUSED
from tests.unit.local.node.pods import member
from trainwright.controller.local.node.hosting import hosts_text, write_hosts
from trainwright.controller.local.node.process.supervision import LAUNCHER

CASES = cases(__file__)

pytestmark = pytest.mark.only_where(not REFUSED, f"this machine refuses namespaces: {REFUSED}")

NOBODY = 65534


@dataclass
class Machine:
    """A folder, an interpreter and a user that can use them."""

    folder: Path
    python: str
    launcher: Path
    user: int
    group: int

    def launch(self, *command: str, mounts: list[tuple[str, str, bool]] | None = None, **more: Any) -> tuple[str, str]:
        """Output of a program in namespaces, and why there was none."""
        launch = {
            "command": list(command),
            "folder": "/",
            "hostname": "box",
            "scratch": str(self.folder),
            "mounts": mounts or [],
            "join": 0,
            "terminal": False,
            **more,
        }
        file = self.folder / "launch.json"
        file.write_text(json.dumps(launch))
        read, write = os.pipe()
        with os.fdopen(read) as failed:
            try:
                done = subprocess.run(
                    [self.python, "-I", "-S", str(self.launcher), str(file), str(write)],
                    pass_fds=[write],
                    stdout=subprocess.PIPE,
                    user=self.user,
                    group=self.group,
                    extra_groups=[] if os.getuid() == 0 else None,
                    env={"PATH": "/usr/bin:/bin"},
                    cwd="/",
                    timeout=120,
                    check=False,
                )
            finally:
                os.close(write)
            text = failed.read()
            assert bool(text) == (done.returncode == 128), (text, done.returncode)
            return done.stdout.decode(), text

    def run(self, code: str, **more: Any) -> Any:
        """What a Python program prints, as JSON."""
        out, failure = self.launch(self.python, "-I", "-S", "-c", f"import json, os, socket\n{code}", **more)
        assert not failure
        return json.loads(out)


@pytest.fixture(params=[os.getuid(), NOBODY] if os.getuid() == 0 else [os.getuid()])
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A folder that the user can use; pytest's own is closed to others."""
    user: int = request.param
    python = sys.executable if user == os.getuid() else shutil.which("python3", path="/usr/bin:/usr/local/bin")
    assert python is not None
    with tempfile.TemporaryDirectory(prefix="trainwright-launcher-") as made:
        folder = Path(made)
        (folder / "data").mkdir()
        (folder / "data" / "file").write_text("content")
        package = folder / "trainwright" / "controller" / "local" / "node" / "process"
        package.mkdir(parents=True)
        for name in ("launcher.py", "lowlevel.py"):
            shutil.copyfile(LAUNCHER.with_name(name), package / name)
        launcher = package / "launcher.py"
        group = os.getgid() if user == os.getuid() else user
        if user != os.getuid():
            for path in (folder, *folder.rglob("*")):
                os.chown(path, user, group)
        yield Machine(folder, python, launcher, user, group)


def test_who_and_where(machine: Machine) -> None:
    found = machine.run("print(json.dumps([os.getuid(), os.getgid(), os.getpid(), socket.gethostname(), os.getcwd()]))")
    assert found == [machine.user, machine.group, 2, "box", "/"]


@pytest.mark.parametrize("path", ["/workspace/dataset", "/etc/train/deep", "/var/run/train", "/opt", "/usr/lib/x/y"])
def test_folders_appear_at_any_path(machine: Machine, path: str) -> None:
    existed = Path(path).exists()
    code = f"open('{path}/new', 'w').write('x'); seen = sorted(os.listdir('{path}'))"
    code += "; print(json.dumps([seen, os.path.exists('/etc/passwd')]))"
    assert machine.run(code, mounts=[(str(machine.folder / "data"), path, False)]) == [["file", "new"], True]
    assert Path(path).exists() == existed
    assert (machine.folder / "data" / "new").read_text() == "x"


CHURN = """
import os, sys
while True:
    for number in range(100):
        open(f"{sys.argv[1]}/{number}", "w").close()
        os.unlink(f"{sys.argv[1]}/{(number + 50) % 100}")
"""
"""At any moment half of a hundred entries exist; each goes and comes again in a few milliseconds."""


def test_a_folder_whose_entries_come_and_go(machine: Machine) -> None:
    """As those of /tmp, while its places are made."""
    with tempfile.TemporaryDirectory(prefix="trainwright-busy-") as busy:
        Path(busy).chmod(0o755)
        # Making places for these takes longer, so that nearly every launch meets entries that have gone since it listed
        # them.
        for name in (*(f"still-{number}" for number in range(300)), *map(str, range(100))):
            (Path(busy) / name).touch()
        mounts = [(str(machine.folder / "data"), f"{busy}/here", False)]
        with subprocess.Popen([sys.executable, "-c", CHURN, busy]) as churning:
            try:
                for _ in range(4):
                    assert machine.run(f"print(json.dumps(os.listdir('{busy}/here')))", mounts=mounts) == ["file"]
            finally:
                churning.kill()


def test_files_appear_where_none_is(machine: Machine) -> None:
    file = machine.folder / "message"
    file.touch()
    os.chown(file, machine.user, machine.group)
    code = "open('/dev/termination-log', 'w').write('told'); print(json.dumps(open('/dev/null').read()))"
    assert machine.run(code, mounts=[(str(file), "/dev/termination-log", False)]) == ""
    assert file.read_text() == "told"


def test_nested_and_read_only_volumes(machine: Machine) -> None:
    data, other = machine.folder / "data", machine.folder / "other"
    other.mkdir()
    os.chown(other, machine.user, machine.group)
    code = """
found = []
for path in ["/a/x", "/a/inner/x"]:
    try:
        open(path, "w")
        found.append("written")
    except OSError as error:
        found.append(error.strerror)
print(json.dumps(found))
"""
    mounts = [(str(other), "/a/inner", False), (str(data), "/a", True)]
    assert machine.run(code, mounts=mounts) == ["Read-only file system", "written"]
    assert (other / "x").exists()


@pytest.mark.parametrize(("command", "more", "message"), CASES["why_a_program_does_not_run"])
def test_why_a_program_does_not_run(machine: Machine, command: list[str], more: dict[str, Any], message: str) -> None:
    _, failure = machine.launch(*command, **more)
    assert failure.startswith(message)


def test_nothing_is_left_when_the_program_ends(machine: Machine) -> None:
    # Were the detached child left, its pipe would hold the output open until launch() gives up.
    code = "import time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\nprint(json.dumps(0))"
    assert machine.run(code) == 0


def test_a_hosts_file_is_written_in_place(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    write_hosts(file, "127.0.0.1\ta long line\n")
    number = file.stat().st_ino
    write_hosts(file, "short\n")
    assert (file.read_text(), file.stat().st_ino) == ("short\n", number)


def test_the_names_in_a_hosts_file() -> None:
    one, two = member(0), member(1)
    one["spec"]["hostAliases"] = [{"ip": "10.0.0.1", "hostnames": ["store", "store.example.com"]}]
    lines = hosts_text(one, [one, two]).splitlines()
    assert lines[2].split() == [
        "127.0.0.1",
        "mnist-node-0-0.mnist.ns.svc.cluster.local",
        "mnist-node-0-0.mnist.ns.svc",
        "mnist-node-0-0.mnist.ns",
        "mnist-node-0-0.mnist",
        "mnist-node-0-0",
    ]
    assert "mnist-node-0-1.mnist" in lines[3].split()
    assert lines[4] == "10.0.0.1\tstore store.example.com"
