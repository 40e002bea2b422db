# SPDX-License-Identifier: Apache-2.0
"""Soak of the wheel: installed alone and with each extra, in an empty environment, on every Python that is here.

Dependencies are the newest that a package index has, as users get them; the locked ones are what all other tests use.
Each environment is used for what it is for: the wheel alone runs the manager against a real API server, renders and
explains. Printed for each: the number of distributions, their size, the time of an import in a new process (the best
of five, compiled modules there), and beside it that time as a ratio to starting the interpreter alone.

For a Python that is not here, pip resolves the extras instead, and says whether there is a wheel of everything. Exit
code 1 if something does not work, or if a Python that pyproject.toml names is missing.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.managers import MANAGER, start_manager
from tests.repository import ROOT
from tests.wheels import built, copy_sources
from trainwright.api import extras
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.waiting import eventually_sync

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SAMPLE = ROOT / "config" / "samples" / "02-torch.yaml"
RUNTIMES = ROOT / "config" / "runtimes"
IMPORTS = {
    "": "trainwright.controller.trainer.assembly.manager",
    "dashboard": "trainwright.controller.dashboard.server",
    "fast": "uvloop",
    "local": "trainwright.controller.cli.local.training",
    "progress": "rich.live",
    "testing": "trainwright.controller.runtime.testing.control_plane",
    "validate": "trainwright.controller.cli.rendering.schemas",
}
"""What is imported to measure an extra; the empty name is the wheel alone."""
LOCAL_JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: wheel}
spec:
  runtimeRef: {name: torch-distributed}
  trainer: {numNodes: 1, command: [python, -c], args: ["print('trained from a wheel')"]}
"""
TEST = """\
def test_a_control_plane_is_there(control_plane):
    assert "default" in control_plane.kubectl("get", "namespaces")
"""


class Broken(Exception):  # noqa: N818 - a finding
    """What does not work, with the output of the command."""


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel."""

    folder: Path
    python: Path

    def run(self, *command: str | Path, code: int | None = 0, stdin: str | None = None) -> str:
        """Both outputs of a program of the environment. Any exit code is right if `code` is None.

        Raises:
            Broken: it ends with another code.
        """
        program = self.python.parent / command[0]
        environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state"), "VIRTUAL_ENV": str(self.folder)}
        environment["PATH"] = f"{self.python.parent}:{environment['PATH']}"
        done = subprocess.run(
            [program, *command[1:]],
            cwd=self.folder,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        if code is not None and done.returncode != code:
            words = " ".join(map(str, command))
            raise Broken(f"{words} ended with {done.returncode} and not {code}:\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr


def expect(text: str, *parts: str) -> None:
    """Raises Broken if a part is missing."""
    for part in parts:
        if part not in text:
            raise Broken(f"{part!r} is not in:\n{text}")


def needed(one: Installed, extra: str) -> str:
    """What is said to install an extra, where nothing of it is installed."""
    command = extras.install(list(extras.LIBRARIES[extra].values()))
    return command.replace(sys.executable, str(one.python))


def alone(one: Installed) -> None:
    """The manager makes a JobSet of a TrainJob; render and explain work; what needs an extra says so."""
    expect(one.run("trainwright", "render", "--filename", SAMPLE), "PET_MASTER_ADDR", needed(one, "validate"))
    expect(one.run("trainwright", "local", "up", code=1), needed(one, "local"))
    crds = [ROOT / "config" / "crd", provide(["jobset-manager"]).manifests["jobset-crd.yaml"]]
    with ControlPlane(crds=crds) as plane:
        start_manager(plane, python=one.python)
        plane.kubectl("apply", "--server-side", f"--kustomize={RUNTIMES}")
        plane.kubectl("apply", "--server-side", f"--filename={SAMPLE}")
        eventually_sync(lambda: plane.kubectl("get", "jobsets", "--output=name"), lambda found: bool(found.split()))
        # No controller makes pods of the JobSet, which is a reason to wait: exit code 3.
        expect(one.run("trainwright", "explain", "torch", f"--kubeconfig={plane.kubeconfig}", code=3), "torch")
        plane.stop_program(MANAGER)


def dashboard(one: Installed) -> None:
    """The page is in the wheel, and the command knows its options."""
    expect(one.run("trainwright", "dashboard", "--help"), "--port")
    page = "from importlib.resources import files; print(files('trainwright.controller.dashboard') / 'page')"
    folder = Path(one.run("python", "-c", page).strip())
    if not (folder / "index.html").is_file():
        raise Broken(f"{folder} has no index.html")


def fast(one: Installed) -> None:
    """The manager runs on uvloop."""
    program = "from trainwright.controller.runtime.manager import process; print(process._loop_factory().__module__)"
    expect(one.run("python", "-c", program), "uvloop")


def local(one: Installed) -> None:
    """A job trains on a local cluster of its own."""
    expect(one.run("trainwright", "local", "run", "-f", "-", stdin=LOCAL_JOB), "trained from a wheel")


def progress(one: Installed) -> None:
    """The command knows its options, with the library for its table."""
    expect(one.run("trainwright", "progress", "--help"), "--")
    one.run("python", "-c", "import rich.live")


def testing(one: Installed) -> None:
    """The fixtures are there without a conftest, and start a control plane."""
    (one.folder / "test_it.py").write_text(TEST)
    expect(one.run("python", "-m", "pytest", "-q", "test_it.py"), "1 passed")


def validate(one: Installed) -> None:
    """Rendering refuses what a rule of CEL refuses, and says nothing of checks that were left out."""
    bad = SAMPLE.read_text().replace("numNodes:", "numNodez:")
    expect(one.run("trainwright", "render", "--filename", "-", code=1, stdin=bad), "numNodez")
    if "not checked" in one.run("trainwright", "render", "--filename", SAMPLE):
        raise Broken("render says that schemas were not checked")


CHECKS: Mapping[str, Callable[[Installed], None]] = {
    "": alone,
    "dashboard": dashboard,
    "fast": fast,
    "local": local,
    "progress": progress,
    "testing": testing,
    "validate": validate,
}


def interpreters(given: list[Path]) -> dict[str, Path | None]:
    """An interpreter of each version, or None: those that are named, then PATH, then those of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found: dict[str, Path | None] = dict.fromkeys(PYTHONS)
    for path in (*given, Path(sys.executable), *on_path(), *sorted(pyenv.glob("3.*/bin/python"))):
        # A shim of pyenv fails unless its version is selected.
        command = [str(path), "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        version = told.stdout.strip()
        if told.returncode == 0 and version in found and found[version] is None:
            found[version] = path
    return found


def on_path() -> Iterator[Path]:
    """python3.11 and so on."""
    for version in PYTHONS:
        if program := shutil.which(f"python{version}"):
            yield Path(program)


def install(python: Path, wheel: Path, extra: str, folder: Path) -> Installed:
    """An empty environment with the wheel and an extra.

    Raises:
        Broken: pip refuses.
    """
    subprocess.run([python, "-m", "venv", folder], check=True)
    one = Installed(folder, folder / "bin" / "python")
    pip = ("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
    one.run(*pip, f"{wheel}[{extra}]" if extra else str(wheel))
    one.run("python", "-m", "pip", "check")
    return one


def measure(one: Installed, extra: str) -> str:
    """Distributions, megabytes, the time of an import, and its ratio to starting Python."""
    listed = json.loads(one.run("python", "-I", ROOT / "hack" / "image_contents.py"))
    parts = [part for part in listed["packages"] if part["name"] not in {"pip", "setuptools"}]
    size = sum(part["size"] for part in parts) / 1e6
    begin = (
        "import time, subprocess, sys\ndef best(code):\n took = []\n for _ in range(5):\n  t = time.perf_counter()\n"
    )
    body = "  subprocess.run([sys.executable, '-c', code], check=True)\n  took.append(time.perf_counter() - t)\n"
    end = f" return min(took)\nprint(best('pass'), best('import {IMPORTS[extra]}'))"
    bare, whole = map(float, one.run("python", "-c", begin + body + end).split())
    return f"{len(parts)} | {size:.0f} | {(whole - bare) * 1000:.0f} ms | {(whole - bare) / bare:.1f}"


def wheels_exist(wheel: Path, extra: str, version: str, folder: Path) -> None:
    """Whether there is a wheel of everything for a Python that is not here.

    Raises:
        Broken: there is not.
    """
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    command += ["--disable-pip-version-check", "--no-input", "--only-binary=:all:", f"--python-version={version}"]
    command += [f"--target={folder}", f"{wheel}[{extra}]" if extra else str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Broken(done.stderr)


def lines(wheel: Path, wanted: Mapping[str, Path | None], names: list[str], folder: Path) -> Iterator[tuple[bool, str]]:
    """For each Python and extra: whether it works, and a line of the table."""
    for version, python in wanted.items():
        for extra in names:
            title = f"| {version} | {extra or 'the wheel alone'} |"
            place = folder / f"{version}-{extra or 'alone'}"
            try:
                if python is None:
                    wheels_exist(wheel, extra, version, place)
                    yield True, f"{title} no interpreter here; pip finds a wheel of everything | | | |"
                    continue
                one = install(python, wheel, extra, place)
                CHECKS[extra](one)
                yield True, f"{title} works | {measure(one, extra)} |"
            except (Broken, ControlPlaneError, TimeoutError, AssertionError) as problem:
                yield False, f"{title} FAILED | | | |\n{problem}"
            finally:
                shutil.rmtree(place, ignore_errors=True)


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1, help="of all environments (default: %(default)s)")
    parser.add_argument("--python", type=Path, action="append", default=[], help="an interpreter to use")
    parser.add_argument("--only", choices=PYTHONS, action="append", help="only this version")
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help="only these; alone: without any (default: all)")
    arguments = parser.parse_args()
    # The environments are those of the wheel, and not of this checkout.
    os.environ.pop("PYTHONPATH", None)
    found = interpreters(arguments.python)
    wanted = {version: path for version, path in found.items() if version in (arguments.only or PYTHONS)}
    names = ["" if name == "alone" else name for name in arguments.extras] or list(CHECKS)
    sound = True
    with tempfile.TemporaryDirectory(prefix="trainwright-wheels-") as folder:
        source = Path(folder) / "source"
        source.mkdir()
        copy_sources(source)
        wheel = built(source, Path(folder))
        print(f"{wheel.name}: {wheel.stat().st_size / 1000:.0f} kB", flush=True)
        print("| Python | extra | | distributions | MB | import | to a bare start |", flush=True)
        print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
        for _ in range(arguments.rounds):
            for works, line in lines(wheel, wanted, names, Path(folder)):
                print(line, flush=True)
                sound = sound and works
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    for version, python in wanted.items():
        if python is None and f"Programming Language :: Python :: {version}" in named:
            print(f"Python {version} is named in pyproject.toml, and there is no interpreter of it here")
            sound = False
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
