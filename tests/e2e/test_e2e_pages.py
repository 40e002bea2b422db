# SPDX-License-Identifier: Apache-2.0
"""The commands of the pages, given as a reader would: in order, in a checkout, to a cluster as `make run` leaves it.

`tests.pages` says how a page marks what is not run, what must fail, and what is printed.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.conftest import Trainer
from tests.pages import Block, blocks_of, pages
from tests.repository import ROOT
from trainwright.controller.runtime.testing import ControlPlane

_MARK = "@@ block "
_SECONDS = 200


def is_run(block: Block) -> bool:
    return block.is_shell and not block.reason


PAGES = [page for page in pages() if any(map(is_run, blocks_of(page)))]


@pytest.fixture(scope="module")
def runtimes(manager: ControlPlane) -> Iterator[None]:
    """What is in the cluster for all namespaces: the shipped runtimes, and later what the pages bring."""
    manager.kubectl("apply", "--server-side", "--kustomize", str(ROOT / "config" / "runtimes"))
    yield
    manager.kubectl("delete", "clustertrainingruntimes", "--all")


@pytest.mark.usefixtures("runtimes")
@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_the_commands_of_a_page_work(page: Path, trainer: Trainer, tmp_path: Path) -> None:
    blocks = blocks_of(page)
    folder = checkout(tmp_path, blocks)
    shell = [block for block in blocks if is_run(block)]
    done = subprocess.run(
        ["bash", "-c", script(shell)],
        cwd=folder,
        env=environment(trainer, tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    printed = re.split(rf"^{_MARK}\d+\n", done.stdout, flags=re.MULTILINE)[1:]
    assert printed, done.stdout
    assert done.returncode == 0, f"{shell[len(printed) - 1].where}:\n{printed[-1]}"
    shown = {first.where: second.text for first, second in pairwise(blocks) if second.language == "text"}
    for block, output in zip(shell, printed, strict=True):
        missing = first_missing(shown.get(block.where, ""), output)
        assert missing is None, f"{block.where} does not print {missing!r} there, but:\n{output}"


def checkout(folder: Path, blocks: list[Block]) -> Path:
    """A folder like a fresh clone, with the files that the page has its reader write."""
    clone = folder / "trainwright"
    clone.mkdir()
    for entry in ROOT.iterdir():
        (clone / entry.name).symlink_to(entry)
    for block in blocks:
        if block.title and not (clone / block.title).exists():
            (clone / block.title).write_text(block.text)
    return clone


def environment(trainer: Trainer, folder: Path) -> dict[str, str]:
    """Of a shell as `make run` tells its reader to set it up, in the test's namespace."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_bytes(trainer.cluster.kubeconfig.read_bytes())
    set_namespace = ["config", "set-context", "--current", f"--namespace={trainer.namespace}"]
    trainer.cluster.kubectl(*set_namespace, kubeconfig=kubeconfig)
    programs = [trainer.cluster.kubectl_path.parent, Path(sys.executable).parent]
    return {
        "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
        "HOME": str(folder),
        "KUBECONFIG": str(kubeconfig),
    }


def script(blocks: list[Block]) -> str:
    """All blocks in one shell, each announced."""
    lines = ["set -eu -o pipefail"]
    for number, block in enumerate(blocks):
        lines.append(f"echo '{_MARK}{number}'")
        if block.mark == "fails":
            lines.append(f"if {{\n{block.text}}}; then echo 'it did not fail'; exit 1; fi")
        else:
            lines.append(block.text)
    return "\n".join(lines)


def first_missing(shown: str, output: str) -> str | None:
    """The first line of a page's text that is not printed, behind those before it."""
    rest = "\n".join(" ".join(line.split()) for line in output.splitlines())
    for line in shown.splitlines():
        pattern = ".*?".join(re.escape(" ".join(part.split())) for part in line.split("…"))
        found = re.search(pattern.replace(r"\ .*?", r"\ ?.*?"), rest) if line.strip() else None
        if line.strip() and found is None:
            return line
        rest = rest[found.end() :] if found is not None else rest
    return None
