# SPDX-License-Identifier: Apache-2.0
"""Copies the sources of this checkout, and builds wheels and sdists of such a copy, the same bytes each time."""

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
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
    for name in listed.split("\0"):
        if name and os.path.lexists(ROOT / name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
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
        with tempfile.TemporaryDirectory() as unpacked:
            shutil.unpack_archive(built, unpacked, filter="tar")
            (folder,) = Path(unpacked).iterdir()
            pack(folder, built, epoch)
    return built


def pack(folder: Path, target: Path, epoch: int) -> None:
    """Write a folder into a .tar.gz with files only, sorted, of nobody in particular, all of the same time."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted((path for path in folder.rglob("*") if path.is_file()), key=str):
            member = tarfile.TarInfo(f"{folder.name}/{path.relative_to(folder)}")
            member.size, member.mtime = path.stat().st_size, epoch
            member.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            archive.addfile(member, io.BytesIO(path.read_bytes()))
