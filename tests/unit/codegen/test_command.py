# SPDX-License-Identifier: Apache-2.0
"""`python -m trainwright.codegen` where libraries of the compiler are missing, as in the environment of `make run`."""

import subprocess
import sys
from pathlib import Path

from tests.repository import ROOT

RUN = """
import runpy, sys
sys.prefix = sys.argv.pop(1)
sys.modules["jsonschema"] = None
runpy.run_module("trainwright.codegen", run_name="__main__", alter_sys=True)
"""


def command(prefix: Path) -> subprocess.CompletedProcess[str]:
    """The command in an environment without jsonschema. The help needs all imports."""
    return subprocess.run(
        [sys.executable, "-c", RUN, str(prefix), "--help"], capture_output=True, text=True, check=False, timeout=120
    )


def test_it_goes_on_in_the_environment_that_has_them(tmp_path: Path) -> None:
    done = command(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: python -m trainwright.codegen")
    assert done.stderr == f"codegen: {tmp_path} lacks jsonschema: going on in .venv\n"


def test_a_development_environment_that_is_not_whole_is_named() -> None:
    done = command(ROOT / ".venv")
    assert (done.returncode, done.stderr) == (1, "error: .venv lacks jsonschema: run `make install`, then this again\n")
