# SPDX-License-Identifier: Apache-2.0
"""Commands that should answer at once load only what they need."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SERVERS = ("aiohttp", "cryptography", "kubernetes", "prometheus_client", "uvloop", "http.server", "rich")
"""Libraries of the manager, of servers, and of single commands: up to 0.6 s of CPU each."""
MODELS = ("trainwright.api.kubernetes.core.v1.models", "trainwright.plugins.contract", "yaml", "jsonschema")
PARTS = (
    "trainwright.controller.local",
    "trainwright.controller.dashboard.server",
    "trainwright.controller.trainer",
)
CLUSTER = tuple(f"trainwright.controller.local.{part}" for part in ("cluster", "apiserver.http", "node"))
"""Of a local cluster, of whose API server `render` uses the schemas alone."""
SAMPLE = ROOT / "config" / "samples" / "02-torch.yaml"
PROGRAM = """
import json, sys
from trainwright.controller.cli.main import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
raise SystemExit(code)
"""


def loaded(*arguments: str) -> set[str]:
    """The modules that are loaded when the command has ended."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return set(done.stderr.splitlines()[-1].strip("[]").replace('"', "").split(", "))


@pytest.mark.parametrize(
    ("arguments", "forbidden"),
    [
        (["--help"], (*SERVERS, *MODELS, *PARTS)),
        (["render", "--help"], (*SERVERS, *MODELS, *PARTS)),
        (["local", "--help"], (*SERVERS, *MODELS, *PARTS)),
        (["dashboard", "--help"], (*SERVERS, *MODELS, *PARTS)),
        (["render", f"--filename={SAMPLE}"], (*SERVERS, *CLUSTER)),
    ],
    ids=["help", "render help", "local help", "dashboard help", "render"],
)
def test_a_command_loads_only_what_it_needs(arguments: list[str], forbidden: tuple[str, ...]) -> None:
    found = loaded(*arguments)
    assert "trainwright.controller.cli.main" in found
    assert sorted(found & set(forbidden)) == []


def test_a_manager_loads_the_library_of_certificates_only_where_it_needs_it() -> None:
    """It is 8 MiB, and a manager that nobody reaches serves no webhooks."""
    program = """
import sys
from trainwright.api.config.v1alpha1 import Configuration
from trainwright.controller.trainer.assembly.parts import parts_of
from trainwright.controller.trainer.assembly.settings import settings_of
import trainwright.controller.trainer.assembly.manager
assert parts_of(settings_of(Configuration()))
print("cryptography" in sys.modules, "trainwright.controller.trainer.why" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["False", "False"]
