# SPDX-License-Identifier: Apache-2.0
"""On a system other than Linux, `make run`, `up` and `run` refuse in one sentence, before anything is done."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository import ROOT

REFUSAL = (
    "error: a local cluster runs on Linux only, and this is {name}: "
    "use a machine or a virtual machine with Linux, such as WSL\n"
)
ELSEWHERE = """
import platform, runpy, sys
system = sys.argv.pop(1)
platform.system = lambda: system
sys.modules["fcntl"] = None  # Windows has none
{run}
"""
COMMAND = "from trainwright.controller.cli.main import main; raise SystemExit(main())"
MAKE_RUN = f"runpy.run_path({str(ROOT / 'hack' / 'run.py')!r}, run_name='__main__')"


def elsewhere(run: str, system: str, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program on another system, with an empty home."""
    return subprocess.run(
        [sys.executable, "-I", "-c", ELSEWHERE.format(run=run), system, *arguments],
        env={"HOME": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("system", "name"), [("Darwin", "macOS"), ("Windows", "Windows"), ("FreeBSD", "FreeBSD")])
@pytest.mark.parametrize(
    ("run", "arguments", "code"),
    [
        pytest.param(MAKE_RUN, (), 1, id="make-run"),
        pytest.param(COMMAND, ("local", "up"), 1, id="up"),
        pytest.param(COMMAND, ("local", "run", "train.py"), 125, id="run"),
    ],
)
def test_one_sentence(tmp_path: Path, run: str, arguments: tuple[str, ...], code: int, system: str, name: str) -> None:
    done = elsewhere(run, system, tmp_path, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", REFUSAL.format(name=name))
    assert list(tmp_path.iterdir()) == []


def test_commands_for_clusters_elsewhere_work(tmp_path: Path) -> None:
    sample = ROOT / "config" / "samples" / "02-torch.yaml"
    done = elsewhere(COMMAND, "Windows", tmp_path, "render", "-f", str(sample))
    assert done.returncode == 0, done.stderr
    assert "kind: JobSet" in done.stdout
