# SPDX-License-Identifier: Apache-2.0
"""With which Python `trainwright local run` starts a script: that of the command line, of the shell, or ours.

The environment of `-r FILE` is made once for each content of the files, and kept in
`$XDG_CACHE_HOME/trainwright/environments`. A file in it, written last, says that it is whole: one that is not is never
used, and made again. Who makes it holds a lock, which pip inherits, so that a second command waits for pip even if the
first one was killed.
"""

import argparse
import fcntl
import hashlib
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TypedDict

from trainwright.controller.cli.commands import WrongUseError, read_option
from trainwright.controller.local.node.images import PYTHONS, Environment

_PROBE_SECONDS = 30.0
_PROBE = (
    "import json, os, sys; print(json.dumps({'executable': sys.executable, 'version': list(sys.version_info[:3]), "
    "'base': sys.base_prefix, 'platform': '-'.join((sys.platform, os.uname().machine))}))"
)
_VARIABLES = {"VIRTUAL_ENV": "virtual environment", "CONDA_PREFIX": "conda environment"}
_ISOLATED = ["-I", "-S"]
_COMPLETE = "trainwright-complete.json"
_NESTED = re.compile(r"(?:-r|--requirement|-c|--constraint)(?:\s+|=|(?<=-r)|(?<=-c))(\S+)")
_EDITABLE = re.compile(r"(?:-e|--editable)(?:\s+|=)")
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
"""As pip has it."""
_TOLD = ("Collecting ", "Downloading ", "Using cached ", "Building ", "Installing ", "Successfully installed ")
_MADE_BY_BUILDS = frozenset({"build", "dist", "__pycache__"})
_STILL_SECONDS = 15.0
"""A line after so long a silence."""
_END_SECONDS = 5.0
_LINES = 15


class Interpreter(TypedDict):
    executable: str
    version: list[int]
    base: str
    platform: str


@dataclass(frozen=True, slots=True)
class Chosen:
    python: str = ""
    """An environment or an interpreter; empty: what runs in place of the image of the container."""
    said: str = ""
    is_found: bool = False
    """Nobody asked for it: it is that of the shell. What `images.yaml` says goes before it."""


def chosen(arguments: argparse.Namespace, environ: Mapping[str, str], say: Callable[[str], None]) -> Chosen:
    """The Python that the command line or the shell names. Makes the environment of `-r`, which may take minutes.

    Raises WrongUseError.
    """
    if arguments.python is None and not arguments.requirements:
        return active(environ)
    interpreter = _named(arguments.python, environ) if arguments.python is not None else ""
    if not arguments.requirements:
        found = _probed(interpreter)
        version = ".".join(map(str, found["version"]))
        # An environment stays what was named: its programs, such as torchrun, are beside its Python.
        folder = Path(str(arguments.python)).expanduser()
        python = folder.absolute() if folder.is_dir() else Path(found["executable"])
        return Chosen(str(python), f"Python {version} of {python if folder.is_dir() else _home_of(python)}")
    if not interpreter:
        interpreter = _interpreter_of(Path(shell)) if (shell := active(environ).python) else sys.executable
    made = environment_for(arguments.requirements, _probed(interpreter), environ, say)
    return Chosen(str(made), f"Python of {made}, made from {', '.join(map(str, arguments.requirements))}")


def active(environ: Mapping[str, str]) -> Chosen:
    """The virtual or conda environment that is active in the shell, if it is not the one that we run in."""
    first = next(filter(None, (shutil.which(name, path=environ.get("PATH")) for name in PYTHONS)), "")
    folder = Path(first).parent if first else None
    if folder == Path(sys.prefix) / "bin":
        return Chosen()  # what `python` is in this shell
    named = [(Path(environ[name]), kind) for name, kind in _VARIABLES.items() if environ.get(name)]
    # Of an environment in another one, the inner one comes first on PATH.
    for prefix, kind in sorted(named, key=lambda one: one[0] / "bin" != folder):
        if prefix.resolve() == Path(sys.prefix).resolve():  # the one that we run in
            return Chosen()
        if _interpreter_of(prefix):
            return Chosen(str(prefix), f"Python of {prefix}, the active {kind}", is_found=True)
    if named:
        return Chosen(said=f"{named[0][0]}, the active {named[0][1]}, has no Python: using that of {sys.prefix}")
    return Chosen()


def unless_mapped(found: Chosen, images: Sequence[Environment]) -> Chosen:
    """The Python of a script, given the environments of the images of its containers: mapped ones go first."""
    mapped = next((one for one in images if one.mapped), None)
    if mapped is None or not found.is_found:
        return found
    return Chosen(said=f"using /{mapped.name.lstrip('/')} of images.yaml, not {found.python}, which is active")


def _named(text: str, environ: Mapping[str, str]) -> str:
    """The interpreter that `--python` means: a path, an environment, or a name on PATH. Raises WrongUseError."""
    path = Path(text).expanduser()
    if path.is_dir():
        if found := _interpreter_of(path):
            return found
        raise WrongUseError(f"--python: {text} is not an environment: it has no bin/python")
    found = str(path) if os.sep in text else shutil.which(text, path=environ.get("PATH")) or str(path)
    if not Path(found).is_file():
        raise WrongUseError(f"--python: there is no interpreter or environment {text}")
    return os.path.abspath(found)  # noqa: PTH100 - the link of a virtual environment is not followed


def _interpreter_of(prefix: Path) -> str:
    candidates = (str(prefix / "bin" / name) for name in PYTHONS)
    return next((path for path in candidates if os.access(path, os.X_OK)), "")


def _probed(interpreter: str) -> Interpreter:
    """What the interpreter says of itself. Raises WrongUseError if it is no Python."""
    try:
        done = subprocess.run(
            [interpreter, *_ISOLATED, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
        if not done.returncode:
            found: Interpreter = json.loads(done.stdout)
            return found
    except OSError as error:
        raise WrongUseError(f"--python: {interpreter} does not start: {error.strerror}") from error
    except (ValueError, subprocess.TimeoutExpired):
        pass
    raise WrongUseError(f"--python: {interpreter} is not an interpreter of Python 3")


def _home_of(executable: Path) -> Path:
    """What people call the place of an interpreter: its environment, or the interpreter itself."""
    prefix = executable.parent.parent
    is_environment = (prefix / "pyvenv.cfg").is_file() or (prefix / "conda-meta").is_dir()
    return prefix if is_environment else executable


def _root(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "trainwright" / "environments"


def environment_for(
    files: Sequence[Path], interpreter: Interpreter, environ: Mapping[str, str], say: Callable[[str], None]
) -> Path:
    """The environment with what the files name; made if there is none. Raises WrongUseError."""
    major, minor, *_ = interpreter["version"]
    digest = hashlib.sha256(json.dumps([interpreter[key] for key in ("version", "base", "platform")]).encode())
    for file in files:
        for part in _content(file, environ, frozenset()):
            digest.update(part.encode("utf-8", "surrogateescape") + b"\0")
    folder = _root(environ) / f"{major}.{minor}-{digest.hexdigest()[:16]}"
    if _is_whole(folder):
        return folder
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(folder.with_name(f"{folder.name}.lock"), say) as lock:
        if not _is_whole(folder):
            _make(folder, files, interpreter, environ, say, lock)
    return folder


def _is_whole(folder: Path) -> bool:
    # The Python that it was made with may be gone.
    return (folder / _COMPLETE).is_file() and os.access(folder / "bin" / "python", os.X_OK)


def _content(file: Path, environ: Mapping[str, str], above: frozenset[Path]) -> Iterator[str]:
    """What the environment depends on: the lines of the file and of those that it names, the state of local folders."""
    text = read_option("--requirements", file)
    if file.resolve() in above:
        return
    for line in text.replace("\\\n", " ").splitlines():
        plain = _VARIABLE.sub(lambda found: environ.get(found[1], found[0]), re.sub(r"(^|\s)#.*", "", line).strip())
        if not plain:
            continue
        yield plain
        if nested := _NESTED.fullmatch(plain):
            if "://" not in nested[1]:
                yield from _content(file.parent / nested[1], environ, above | {file.resolve()})
        else:
            yield from _local(plain)


def _local(line: str) -> Iterator[str]:
    """The state of a folder or file that a line names; none for names of packages."""
    is_editable = _EDITABLE.match(line) is not None
    named = _EDITABLE.sub("", line).partition(";")[0].strip()
    named = named.rpartition(" @ ")[2].removeprefix("file://").partition("[")[0]
    path = Path(named)
    if os.sep not in named and named != "." and not named.endswith((".whl", ".gz", ".zip")):
        return
    if not path.exists():
        return
    yield str(path.resolve())
    if path.is_file():
        yield _state(path)
    elif is_editable:
        # The code is used where it lies; what it needs is said in these files.
        yield from (_state(path / name) for name in ("pyproject.toml", "setup.py", "setup.cfg"))
    else:
        for where, folders, names in os.walk(path):
            # What builds leave there is not what they are made of.
            kept = (one for one in folders if one not in _MADE_BY_BUILDS and not one.startswith("."))
            folders[:] = sorted(one for one in kept if not one.endswith(".egg-info"))
            yield from (_state(Path(where, name)) for name in sorted(names))


def _state(file: Path) -> str:
    try:
        found = file.stat()
    except OSError:
        return f"{file} -"
    return f"{file} {found.st_size} {found.st_mtime_ns}"


@contextmanager
def _locked(file: Path, say: Callable[[str], None]) -> Iterator[int]:
    """Hold the lock of an environment; another command may make it at the time. Yields a descriptor of the lock."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another command makes this environment; waiting for it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _make(
    folder: Path,
    files: Sequence[Path],
    interpreter: Interpreter,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    lock: int,
) -> None:
    named = ", ".join(map(str, files))
    version = ".".join(map(str, interpreter["version"]))
    say(f"making an environment of Python {version} from {named}; it is kept in {folder}")
    if folder.exists():
        shutil.rmtree(folder)  # half made
    variables = {name: value for name, value in environ.items() if not name.startswith("PYTHON")}
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]
    try:
        for command in (
            [interpreter["executable"], "-m", "venv", str(folder)],
            [*pip, *(word for file in files for word in ("-r", str(file)))],
        ):
            code, last = _run(command, variables, lock, say)
            if code:
                raise WrongUseError(
                    f"the environment for {named} cannot be made: `{' '.join(command[1:4])}` ended with exit code "
                    f"{code}:\n" + "\n".join(f"  {line}" for line in last)
                )
        draft = folder / f"{_COMPLETE}.new"
        draft.write_text(json.dumps({"files": [str(file.resolve()) for file in files], **interpreter}) + "\n")
        draft.replace(folder / _COMPLETE)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _run(
    command: Sequence[str], environ: Mapping[str, str], lock: int, say: Callable[[str], None]
) -> tuple[int, Sequence[str]]:
    """Run a program, and end it if we are ended; returns its exit code and its last lines."""
    with (
        _sigterm_raises(),
        subprocess.Popen(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[lock],
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            last = _followed(process.stdout.fileno(), say)
            return process.wait(), last
        except BaseException:
            _end(process)
            raise


def _followed(output: int, say: Callable[[str], None]) -> Sequence[str]:
    """Show the lines that say how far it is, also that nothing is new; returns the last lines."""
    last: deque[str] = deque(maxlen=_LINES)
    began = time.monotonic()
    told, rest = "", b""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while True:
            if not selector.select(_STILL_SECONDS):
                say(f"still at it after {time.monotonic() - began:.0f} s{f': {told}' if told else ''}")
                continue
            read = os.read(output, 65536)
            *lines, rest = (rest + read).split(b"\n") if read else [rest, b""]
            for line in (one.decode(errors="replace").strip() for one in lines):
                if line:
                    last.append(line)
                if line.startswith(_TOLD):
                    told = line if len(line) <= 100 else f"{line[:97]}..."
                    say(told)
            if not read:
                return last


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(_END_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """SIGTERM ends this process as Ctrl-C does: what was started is ended first."""

    def on_signal(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
