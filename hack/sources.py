# SPDX-License-Identifier: Apache-2.0
"""Copies the sources of this checkout, and builds wheels and sdists of such a copy, the same bytes each time."""

import gzip
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BUILD = """
import os, sys
from setuptools import build_meta
os.umask(0o022)
os.chdir(sys.argv[2])
print(getattr(build_meta, f"build_{sys.argv[1]}")(sys.argv[3]))
"""


def committed(target: Path) -> Path:
    """Write the files of the last commit to a folder, with the same modes on each machine. Returns the folder."""
    target.mkdir()
    archive = subprocess.run(
        ["git", "-c", "tar.umask=0022", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(target, filter="tar")
    return target


def copied(target: Path) -> Path:
    """Write the files that git knows or would add, as they are now, to a folder. Returns the folder."""
    target.mkdir()
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = [name for name in listed.split("\0") if name and os.path.lexists(ROOT / name)]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in names:
            archive.add(ROOT / name, name, recursive=False)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as archive:
        archive.extractall(target, filter="tar")
    return target


def build(kind: str, source: Path, target: Path, epoch: int) -> Path:
    """Build a "wheel" or an "sdist" as pip would, with `epoch` as the time of everything in it, in seconds since 1970.

    Raises CalledProcessError: the build failed; its output was printed.
    """
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, kind, source, target],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        done.check_returncode()
    built = target / done.stdout.splitlines()[-1]
    if kind == "sdist":
        with tarfile.open(built) as archive:
            files = {member.name: _content(archive, member) for member in archive if member.isfile()}
            executable = {member.name for member in archive if member.isfile() and member.mode & 0o100}
        pack(built, files, epoch, executable=frozenset(executable))
    return built


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    reader = archive.extractfile(member)
    assert reader is not None  # it is a file
    return reader.read()


def pack(target: Path, files: dict[str, bytes], epoch: int, *, executable: frozenset[str] = frozenset()) -> None:
    """Write a .tar.gz with files only, sorted, of nobody in particular, all of the same time."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(files[name]), epoch
            member.mode = 0o755 if name in executable else 0o644
            archive.addfile(member, io.BytesIO(files[name]))
