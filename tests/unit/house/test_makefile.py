# SPDX-License-Identifier: Apache-2.0
"""`make help` tells the truth: every target that is meant for people is listed, with a line of its own."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_help_lists_every_phony_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    declared = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert declared is not None
    printed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    listed = [line.split()[0] for line in printed.splitlines()]
    assert sorted(listed) == sorted(declared[1].split())
    assert all(len(line.split()) > 2 for line in printed.splitlines())
