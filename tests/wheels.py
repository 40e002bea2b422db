# SPDX-License-Identifier: Apache-2.0
"""Builds what is shipped, as pip would, and tries it where nothing else is installed."""

import os
import subprocess
import sys
import venv
from pathlib import Path

from tests.repository import ROOT, git

EPOCH = "1763000000"


def copy_sources(target: Path) -> None:
    """Copy what git knows or would add, links as links, so that nothing built here gets into a build."""
    files = git("ls-files", "--cached", "--others", "--exclude-standard", "-z")
    existing = "\0".join(name for name in files.split("\0") if name and (ROOT / name).exists())
    archive = subprocess.run(
        ["tar", "--create", "--null", "--files-from=-"],
        cwd=ROOT,
        input=existing.encode(),
        capture_output=True,
        check=True,
    )
    subprocess.run(["tar", "--extract"], cwd=target, input=archive.stdout, check=True)


def build(source: Path, target: Path, kind: str = "wheel") -> subprocess.CompletedProcess[str]:
    """Build the wheel or the sdist of a source folder as pip would; its file name is the last line printed."""
    program = (
        f"import os, sys; from setuptools.build_meta import build_{kind}; "
        f"os.chdir(sys.argv[1]); print(build_{kind}(sys.argv[2]))"
    )
    return subprocess.run(
        [sys.executable, "-c", program, str(source), str(target)],
        env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
        capture_output=True,
        text=True,
        check=False,
    )


def built(source: Path, target: Path, kind: str = "wheel") -> Path:
    """What was built."""
    done = build(source, target, kind)
    assert done.returncode == 0, done.stderr
    return target / done.stdout.splitlines()[-1]


def environment_with(source: Path, folder: Path) -> Path:
    """The interpreter of a new environment with the distribution of a folder, which sees the packages of this one."""
    environment, copy, wheels = (folder / name for name in ("environment", "source", "wheels"))
    # Without a pip of its own: it sees that of this environment, and installing one takes longer than all the rest.
    venv.create(environment)
    interpreter = environment / "bin" / "python"
    packages = next((environment / "lib").glob("python*/site-packages"))
    # Trainwright and its dependencies are not downloaded again; addsitedir follows an editable installation.
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "trainwright-of-the-tests.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    copy.mkdir()
    wheels.mkdir()
    for file in source.iterdir():
        if file.is_file():
            (copy / file.name).write_bytes(file.read_bytes())
    # Built by the locked setuptools: the one that a new environment brings is too old.
    wheel = built(copy, wheels)
    options = ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    install = [str(interpreter), "-m", "pip", "install", *options, str(wheel)]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return interpreter
