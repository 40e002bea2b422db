# SPDX-License-Identifier: Apache-2.0
"""Makes the environment of `trainwright local run -r FILE`, with uv where it is on the PATH, else with venv and pip.

It is made once for each content of the files, and kept in `$XDG_CACHE_HOME/trainwright/environments`. A file in it,
written last, says that it is whole: one that is not is never used, and made again. Who makes it holds a lock, which the
programs inherit, so that a second command waits for them even if the first one was killed.
"""

import fcntl
import hashlib
import os
import re
import shutil
import signal
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, Popen, TimeoutExpired
from types import FrameType

from trainwright.controller.cli.commands import WrongUseError, read_option

Say = Callable[[str], None]
_WHOLE = "trainwright-complete"
_NESTED = re.compile(r"(?:-r|--requirement|-c|--constraint)(?:\s+|=|(?<=-r)|(?<=-c))(\S+)")
_LOCAL = re.compile(
    r"(?:-e\s+|--editable[\s=]+)?(?:.* @ )?(?:file://)?"
    r"([.~][^\s;\[]*|[^\s;\[]*/[^\s;\[]*|.*\.(?:whl|zip|gz))(?:\[.*)?(?:;.*)?"
)
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
"""As pip and uv have it."""
_BUILT = re.compile(r"build|dist|__.*|\..*|.*\.egg-info")
"""Folders that builds leave in a project, and hidden ones."""


def environment_for(files: Sequence[Path], python: str, identity: str, environ: Mapping[str, str], say: Say) -> Path:
    """The environment with what the files name; made if there is none.

    `identity` tells one Python from another, such as its version, place and machine. Raises WrongUseError.
    """
    digest = hashlib.sha256(identity.encode())
    for part in (part for file in files for part in _content(file, environ, frozenset())):
        digest.update(part.encode("utf-8", "surrogateescape") + b"\0")
    root = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trainwright" / "environments"
    folder = root / digest.hexdigest()[:16]
    if _is_whole(folder):
        return folder
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another command makes this environment; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_whole(folder):
            _make(folder, files, python, environ, say, lock.fileno())
    return folder


def _is_whole(folder: Path) -> bool:
    # The Python that it was made with may be gone.
    return (folder / _WHOLE).is_file() and os.access(folder / "bin" / "python", os.X_OK)


def _content(file: Path, environ: Mapping[str, str], above: frozenset[Path]) -> Iterator[str]:
    """The lines of the file and of those that it names, and the state of local projects that they name."""
    lines = read_option("--requirements", file).replace("\\\n", " ").splitlines()
    for said in filter(None, (re.sub(r"(^|\s)#.*", "", one).strip() for one in lines)):
        yield (line := _VARIABLE.sub(lambda found: environ.get(found[1], found[0]), said))
        if (nested := _NESTED.fullmatch(line)) and "://" not in nested[1]:
            if (path := file.parent / nested[1]).resolve() not in above:
                yield from _content(path, environ, above | {file.resolve()})
        elif (named := _LOCAL.fullmatch(line)) and (path := Path(named[1]).expanduser()).exists():
            yield str(path.resolve())
            # The code of an editable project is used where it lies; what it needs is said in these files.
            names = ("*.toml", "setup.*") if line.startswith(("-e", "--editable")) else ("**/*",)
            for one in sorted(one for name in names for one in path.glob(name)) if path.is_dir() else [path]:
                inner = one.parts[len(path.parts) : -1]  # what builds leave there is not what they are made of
                if one.is_file() and not any(map(_BUILT.fullmatch, inner)):
                    yield f"{one} {one.stat().st_size} {one.stat().st_mtime_ns}"


def _make(folder: Path, files: Sequence[Path], python: str, environ: Mapping[str, str], say: Say, lock: int) -> None:
    named, uv = ", ".join(map(str, files)), shutil.which("uv", path=environ.get("PATH"))
    say(f"making an environment with {'uv' if uv else 'pip'} from {named}; it is kept in {folder}")
    shutil.rmtree(folder, ignore_errors=True)  # half made
    own = str(folder / "bin" / "python")
    pip = [own, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]
    make = [uv, "venv", "--python", python, str(folder)] if uv else [python, "-m", "venv", str(folder)]
    install = [uv, "pip", "install", "--python", own] if uv else pip
    variables = {name: value for name, value in environ.items() if not name.startswith("PYTHON")}
    try:
        for command in (make, [*install, *(word for file in files for word in ("-r", str(file)))]):
            code, last = _run(command, variables, lock, say)
            if code:
                raise WrongUseError(
                    f"the environment for {named} cannot be made: `{' '.join(command[:4])}` ended with exit code "
                    f"{code}:\n" + "\n".join(f"  {line}" for line in last)
                )
        (folder / _WHOLE).touch()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _run(command: Sequence[str], env: Mapping[str, str], lock: int, say: Say) -> tuple[int, Sequence[str]]:
    """Run a program, say its lines, and end it with all that it has started if we are ended."""

    def on_signal(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    last: deque[str] = deque(maxlen=15)
    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        with Popen(
            command, env=env, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, pass_fds=[lock], start_new_session=True
        ) as process:
            try:
                for line in process.stdout or ():
                    if text := line.decode(errors="replace").strip():
                        last.append(text)
                        say(text if len(text) <= 100 else f"{text[:97]}...")
            except BaseException:
                for number in (signal.SIGTERM, signal.SIGKILL):
                    with suppress(ProcessLookupError, TimeoutExpired):
                        os.killpg(process.pid, number)
                        process.wait(5.0)
                raise
        return process.returncode, last
    finally:
        signal.signal(signal.SIGTERM, before)
