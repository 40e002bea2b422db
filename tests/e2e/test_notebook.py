# SPDX-License-Identifier: Apache-2.0
"""The page about notebooks, run as one: its blocks are the cells."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.shell import Shell
from tests.pages import blocks_of
from tests.repository import ROOT

EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in sys.argv[2:]])
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[1])
"""


def test_the_page_runs_as_a_notebook(tmp_path: Path) -> None:
    blocks = [one for one in blocks_of(ROOT / "docs/users/notebook.md") if one.language == "python" and not one.reason]
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "IPYTHONDIR": str(tmp_path / "ipython")}
    shell, file = Shell(tmp_path / "state", **paths), tmp_path / "page.ipynb"
    command = [sys.executable, "-c", EXECUTE, str(file), *(one.text for one in blocks), "run"]
    try:
        done = subprocess.run(
            command, cwd=tmp_path, env=shell.environment, capture_output=True, text=True, check=False, timeout=400
        )
        assert done.returncode == 0, done.stderr
    finally:
        shell.end()
    first, second, third, last = json.loads(file.read_text())["cells"]
    assert "<td>Complete</td>" in html_of(first)  # it was updated in its place
    assert "[rank 0] learning rate 0.1" in text_of(second)
    assert "40 values, the last one is 0.25" in text_of(second)
    assert "['Complete', 'Complete']" in text_of(third)
    assert "<progress" in html_of(last)


def text_of(cell: dict[str, Any]) -> str:
    return "".join("".join(one.get("text", "")) for one in cell["outputs"])


def html_of(cell: dict[str, Any]) -> str:
    return "".join("".join(one.get("data", {}).get("text/html", "")) for one in cell["outputs"])
