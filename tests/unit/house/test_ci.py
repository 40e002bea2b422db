# SPDX-License-Identifier: Apache-2.0
"""`.ci/run` on a bare machine: it installs what the README asks for, if it may, and says so if it may not.

Everything on its PATH is a stand-in that writes down how it was called.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes import alive
from tests.repository import ROOT

BUILD = ".venv/bin/python"
"""Of the checkout: it compiles the control plane."""
LOG = 'echo "{name} $*" >> {log}'


class Machine:
    """A folder of programs, and .ci/run in a checkout that holds nothing else."""

    def __init__(self, folder: Path) -> None:
        self._bin = folder / "bin"
        self._bin.mkdir()
        self._log = folder / "log"
        (folder / "checkout" / ".ci").mkdir(parents=True)
        self._script = folder / "checkout" / ".ci" / "run"
        shutil.copy(ROOT / ".ci" / "run", self._script)
        for name in ("bash", "dirname", "mkdir", "nice", "sleep"):
            found = shutil.which(name)
            assert found is not None
            (self._bin / name).symlink_to(found)

    def has(self, name: str, body: str = ":") -> None:
        """A program; `.venv/bin/python` is that of the checkout."""
        path = self._script.parents[1] / name if "/" in name else self._bin / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{LOG.format(name=name, log=self._log)}\n{body}\n")
        path.chmod(0o755)

    def run(self) -> tuple[int, str]:
        """Exit code and standard error."""
        code, _, errors = self.run_aloud()
        return code, errors

    def run_aloud(self) -> tuple[int, str, str]:
        """Exit code and both outputs."""
        done = subprocess.run(
            [self._script],
            env={"PATH": str(self._bin), "TRAINWRIGHT_TORCH": "/nowhere"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stdout, done.stderr

    @property
    def calls(self) -> list[str]:
        return self._log.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """One with everything, on which we are root."""
    machine = Machine(tmp_path)
    for name in ("make", "git", "python3", "chromium", "tmux", "apt-get"):
        machine.has(name)
    machine.has("id", "echo 0")
    machine.has(BUILD)
    return machine


TESTING = "trainwright.controller.runtime.testing"
SMOKE = "make test CLUSTER=node NODE_TESTS=tests/node/test_smoke.py"
STEPS = ["make install", "make check", "make test", "make parity", "make simulation", SMOKE, "make test CLUSTER=real"]


def test_where_nothing_is_missing_nothing_is_installed(machine: Machine) -> None:
    assert machine.run() == (0, "")
    assert [call for call in machine.calls if call.startswith("make")] == STEPS
    assert f"{BUILD} -m trainwright.controller.runtime.testing --also helm --also versitygw" in machine.calls
    assert [call for call in machine.calls if not call.startswith(("python3", "make", BUILD))] == []


def test_what_is_missing_is_installed(machine: Machine, tmp_path: Path) -> None:
    machine.has("python3", "exit 1")
    for name in ("make", "git", "chromium", "tmux"):
        (tmp_path / "bin" / name).unlink()
    make = tmp_path / "bin" / "make"
    made = f"printf '#!/bin/sh\\necho \"make $*\" >> {tmp_path / 'log'}\\n' > {make}; /bin/chmod +x {make}"
    machine.has("apt-get", f'[ "$1" = update ] || {{ {made}; }}')
    assert machine.run() == (0, "")
    installs = [call for call in machine.calls if call.startswith("apt-get")]
    assert installs[0].startswith("apt-get update")
    assert installs[1].endswith(" ca-certificates make git python3-venv chromium tmux")
    assert [call for call in machine.calls if call.startswith("make")] == STEPS


def test_uv_needs_no_venv(machine: Machine) -> None:
    machine.has("python3", "exit 1")
    machine.has("uv")
    assert machine.run() == (0, "")
    assert [call for call in machine.calls if call.startswith("apt-get")] == []


@pytest.mark.parametrize("lacks", ["the rights", "apt-get"])
def test_what_it_may_not_install_it_names(machine: Machine, lacks: str, tmp_path: Path) -> None:
    machine.has("python3", "exit 1")
    if lacks == "apt-get":
        (tmp_path / "bin" / "apt-get").unlink()
    else:
        machine.has("id", "echo 1000")
    code, errors = machine.run()
    assert code == 1
    assert errors.startswith("error: install these first")
    assert errors.endswith(": python3-venv\n")


def test_what_is_left_out_counts_in_every_step(machine: Machine) -> None:
    machine.has("make", '[ "$CI" = true ]')
    assert machine.run() == (0, "")


def test_a_failing_step_ends_it(machine: Machine) -> None:
    machine.has("make", '[ "$1" != check ]')
    assert machine.run()[0] == 1
    assert [call for call in machine.calls if call.startswith("make")] == ["make install", "make check"]


def test_what_new_seeds_find_is_told_and_ends_nothing(machine: Machine) -> None:
    machine.has("make", '[ "$1" != simulation ]')
    code, errors = machine.run()
    assert (code, errors.startswith("warning: new seeds broke a rule")) == (0, True)
    assert [call for call in machine.calls if call.startswith("make")] == STEPS


def test_what_needs_no_control_plane_runs_while_it_compiles(machine: Machine, tmp_path: Path) -> None:
    waits = f"until [ -e {tmp_path}/tested ]; do sleep 0.1; done"
    machine.has(BUILD, f'[ "$2" != {TESTING} ] || {{ {waits}; echo built >> {tmp_path}/log; }}')
    machine.has("make", f'[ "$*" != test ] || : > {tmp_path}/tested')
    assert machine.run() == (0, "")
    assert [call for call in machine.calls if call.startswith(("make", "built"))] == [*STEPS[:3], "built", *STEPS[3:]]


def test_a_control_plane_that_does_not_compile_is_shown(machine: Machine) -> None:
    machine.has(BUILD, "echo undefined: x; exit 1")
    code, errors = machine.run()
    assert code == 1
    assert errors == "error: the programs of the control plane were not built:\nundefined: x\n"
    assert "make parity" not in machine.calls


def test_the_compilers_end_with_a_failing_step(machine: Machine, tmp_path: Path) -> None:
    machine.has(BUILD, f"echo $$ > {tmp_path}/pid; exec sleep 600")
    compiles = f"until [ -s {tmp_path}/pid ]; do sleep 0.1; done"
    machine.has("make", f'[ "$1" != check ] || {{ {compiles}; exit 1; }}')
    assert machine.run()[0] == 1
    assert not alive(int((tmp_path / "pid").read_text()))


def test_the_minutes_of_the_steps_come_before_the_closing_line(machine: Machine) -> None:
    machine.has("make", '[ "$1" != test ] || echo "8 passed in 1.00s, $*"')
    _, output, _ = machine.run_aloud()
    lines = output.splitlines()
    assert "8 passed in 1.00s, test" in lines
    assert lines[-1] == "8 passed in 1.00s, test CLUSTER=real"
    told = [line.partition(": ")[0] for line in lines[:-1] if line.endswith(" min")]
    assert told == [
        "make install",
        "make check",
        "make test",
        "control plane, beside the steps above",
        "make parity",
        "make simulation",
        SMOKE,
    ]


def test_where_no_node_is_in_the_cache_the_reason_is_told(machine: Machine) -> None:
    machine.has(BUILD, '[ "$*" != "-m hack.node --ready" ] || { echo "there is none"; exit 1; }')
    code, output, _ = machine.run_aloud()
    assert code == 0
    assert "make test CLUSTER=node: left out, since there is none" in output.splitlines()
    assert [call for call in machine.calls if call.startswith("make")] == [step for step in STEPS if step != SMOKE]
