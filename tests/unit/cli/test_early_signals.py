# SPDX-License-Identifier: Apache-2.0
"""A signal that arrives before a command has handlers of its own is not lost, also by the first process of a container.

The imports are stopped at a module, so that the signal arrives at a known place.
"""

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "config/samples"
PROGRAM = """
import sys, time

class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            print("here", flush=True)
            while True:
                time.sleep(60)

sys.meta_path.insert(0, Stop())
sys.modules.pop({module!r}, None)
sys.argv = ["trainwright", *{arguments!r}]
{entry}
"""
SCRIPT = "import {module}; sys.exit({module}.{function}())"
MODULE = "import runpy; runpy.run_module('trainwright.controller.cli.main', run_name='__main__', alter_sys=True)"
OWN = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
"""Runs a program as the first process of a PID namespace, as a container does."""
REFUSED = subprocess.run([*OWN, "true"], capture_output=True, check=False).returncode if sys.platform == "linux" else 1
first = pytest.mark.only_where(not REFUSED, "this machine refuses PID namespaces to this user")
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: here}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: here, user: {token: t}}]
"""


def script() -> str:
    """What the installed script runs: the entry point of the project's file."""
    module, function = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["trainwright"].split(
        ":"
    )
    return SCRIPT.format(module=module, function=function)


@contextmanager
def stopped(entry: str, module: str, arguments: list[str], *, own: bool) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command, which imports this module for ever, and the id of its process."""
    source = PROGRAM.format(module=module, arguments=arguments, entry=entry)
    with subprocess.Popen(
        [*(OWN if own else []), sys.executable, "-c", source],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
            yield process, _child(process.pid) if own else process.pid
        finally:
            process.kill()


def _child(parent: int) -> int:
    return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])


FIRST_OF_OURS = "trainwright.controller.cli.arguments"
LAST_OF_MANAGER = "trainwright.controller.trainer.assembly.manager"
CASES = [
    pytest.param("script", "argparse", ["manager"], id="script: before argparse"),
    pytest.param("script", FIRST_OF_OURS, ["manager"], id="script: imports of the command"),
    pytest.param("module", "argparse", ["manager"], id="module: before argparse"),
    pytest.param("module", FIRST_OF_OURS, ["manager"], id="module: imports of the command"),
    pytest.param("script", LAST_OF_MANAGER, ["manager"], id="imports of the manager"),
    pytest.param(
        "script", "trainwright.controller.runtime.manager.logs", ["local", "up", "--foreground"], id="local up"
    ),
    pytest.param("script", "trainwright.plugins.pipeline", ["render", f"--filename={SAMPLE}"], id="render"),
    pytest.param("script", "trainwright.controller.runtime.client.http", ["dashboard", "--no-browser"], id="dashboard"),
    pytest.param("script", "trainwright.controller.runtime.client.http", ["doctor"], id="doctor"),
]


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return path


@first
@pytest.mark.usefixtures("kubeconfig")
@pytest.mark.parametrize(("entry", "module", "arguments"), CASES)
def test_sigterm_ends_the_first_process_of_a_container(entry: str, module: str, arguments: list[str]) -> None:
    with stopped(script() if entry == "script" else MODULE, module, arguments, own=True) as (process, pid):
        os.kill(pid, signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (128 + signal.SIGTERM, "")


@pytest.mark.usefixtures("kubeconfig")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("entry", "module", "arguments"), [case for case in CASES if case.values[2] == ["manager"]])
def test_a_signal_during_the_imports_of_the_manager_ends_it_without_a_traceback(
    entry: str, module: str, arguments: list[str], number: signal.Signals
) -> None:
    with stopped(script() if entry == "script" else MODULE, module, arguments, own=False) as (process, pid):
        os.kill(pid, number)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (-number, "")


@first
@pytest.mark.usefixtures("kubeconfig")
def test_sigint_ends_the_first_process_of_a_container() -> None:
    with stopped(script(), LAST_OF_MANAGER, ["manager"], own=True) as (process, pid):
        os.kill(pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (128 + signal.SIGINT, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_the_starter_ignores_stays_ignored(number: signal.Signals) -> None:
    source = (
        f"import signal; signal.signal({int(number)}, signal.SIG_IGN)\n"
        "from trainwright.controller.cli import early; early.take_signals()\n"
        f"print(signal.getsignal({int(number)}) is signal.SIG_IGN)\n"
        "early.release_signals()\n"
        f"print(signal.getsignal({int(number)}) is signal.SIG_IGN)\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["True", "True"]
