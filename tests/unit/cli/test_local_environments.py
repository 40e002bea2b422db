# SPDX-License-Identifier: Apache-2.0
"""`trainwright local run`: which Python starts a script, and how the environment of `-r` is made."""

import argparse
import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import alive
from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.cli.local import environments
from trainwright.controller.cli.local.environments import Chosen, active, chosen, unless_mapped
from trainwright.controller.cli.local.requirements import environment_for
from trainwright.controller.local.node.images import DEFAULT, Environment
from trainwright.controller.runtime.testing.waiting import eventually_sync

OURS = Path(sys.prefix)


def program(path: Path, text: str) -> Path:
    """A program of shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def shell(*folders: Path, **variables: Path) -> dict[str, str]:
    """The variables of a shell with these folders on PATH."""
    return {"PATH": os.pathsep.join(map(str, folders)), **{name: str(value) for name, value in variables.items()}}


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    program(tmp_path / "venv" / "bin" / "python", "")
    return tmp_path / "venv"


@pytest.fixture
def conda(tmp_path: Path) -> Path:
    program(tmp_path / "conda" / "bin" / "python", "")
    return tmp_path / "conda"


def test_the_environment_that_is_active_in_the_shell_is_found(venv: Path, conda: Path, tmp_path: Path) -> None:
    assert active(shell()) == Chosen()
    found = Chosen(str(venv), f"Python of {venv}, the active virtual environment", is_found=True)
    assert active(shell(venv / "bin", VIRTUAL_ENV=venv)) == found
    assert active(shell(VIRTUAL_ENV=venv)) == found
    assert active(shell(CONDA_PREFIX=conda)).said == f"Python of {conda}, the active conda environment"
    # One in the other: the inner one is what `python` starts.
    both = {"VIRTUAL_ENV": venv, "CONDA_PREFIX": conda}
    assert active(shell(venv / "bin", conda / "bin", **both)).python == str(venv)
    assert active(shell(conda / "bin", venv / "bin", **both)).python == str(conda)
    gone = active(shell(VIRTUAL_ENV=tmp_path / "gone"))
    assert gone.said == f"{tmp_path / 'gone'}, the active virtual environment, has no Python: using that of {OURS}"
    assert not gone.python


def test_our_own_environment_needs_no_word(venv: Path) -> None:
    assert active(shell(VIRTUAL_ENV=OURS)) == Chosen()
    # Its `bin` was put before that of the active one.
    assert active(shell(OURS / "bin", venv / "bin", VIRTUAL_ENV=venv)) == Chosen()


def test_what_images_yaml_says_goes_before_what_is_found_and_after_what_is_asked_for(venv: Path) -> None:
    found = active(shell(VIRTUAL_ENV=venv))
    mapped = Environment(name="opt/torch", folders=("/opt/torch/bin",))
    assert unless_mapped(found, [DEFAULT]) == found
    assert unless_mapped(found, [mapped]) == Chosen(
        said=f"using /opt/torch of images.yaml, not {venv}, which is active"
    )
    asked = Chosen(str(venv))
    assert unless_mapped(asked, [mapped]) == asked


def given(python: str | None = None, *files: Path) -> argparse.Namespace:
    return argparse.Namespace(python=python, requirements=list(files))


def unsaid(line: str) -> None:
    raise AssertionError(line)


@pytest.mark.parametrize("text", ["interpreter", "environment", "name"])
def test_python_is_an_interpreter_an_environment_or_a_name(tmp_path: Path, text: str) -> None:
    own = tmp_path / "own"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", own], check=True)
    words = {"interpreter": str(own / "bin" / "python"), "environment": str(own), "name": "python3"}
    found = chosen(given(words[text]), shell(own / "bin"), unsaid)
    assert Path(found.python) == own if text == "environment" else Path(found.python).parent == own / "bin"
    version = ".".join(map(str, sys.version_info[:3]))
    assert (found.said, found.is_found) == (f"Python {version} of {own}", False)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("absent", "there is no interpreter or environment absent"),
        ("empty", "empty is not an environment: it has no bin/python"),
        ("./file", "file does not start: Permission denied"),
        ("./other", "other is not an interpreter of Python 3"),
        ("./fails", "fails is not an interpreter of Python 3"),
    ],
)
def test_what_is_no_python_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    program(tmp_path / "other", "echo hello")
    program(tmp_path / "fails", "exit 3")
    with pytest.raises(WrongUseError, match=r"^--python: ") as raised:
        chosen(given(name), shell(), unsaid)
    assert str(raised.value).endswith(text)


# ---------------------------------------------------------------------- requirements

FAKE = """
if [ "$2" = venv ]; then
    mkdir -p "$3/bin"; cp "$0" "$3/bin/python"
else
    echo "Collecting everything"
    . {folder}/pip
fi
"""
"""A Python whose `-m venv` makes another one of it, and whose `-m pip` does what the test says."""


class Made:
    """Environments that a fake Python makes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self._python = program(folder / "python", FAKE.format(folder=folder))
        self.pip("true")
        self.file = folder / "requirements.txt"
        self.file.write_text("torch\n")

    def pip(self, text: str) -> None:
        (self.folder / "pip").write_text(f"{text}\n")

    def of(self, *files: Path, version: tuple[int, int, int] = (3, 11, 1), **variables: str) -> Path:
        """The environment; `said` has the lines about it."""
        environ = {"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", "XDG_CACHE_HOME": str(self.folder / "cache")}
        environ |= variables
        self.said.clear()
        return environment_for(files or (self.file,), str(self._python), str(version), environ, self.said.append)

    def left(self) -> list[str]:
        """What lies in the cache, without locks."""
        root = self.folder / "cache" / "trainwright" / "environments"
        return [path.name for path in root.iterdir() if path.suffix != ".lock"]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.chdir(tmp_path)
    return Made(tmp_path)


def test_an_environment_is_made_once_for_each_content(made: Made) -> None:
    first = made.of()
    assert made.said[0].startswith("making an environment with pip from ")
    assert "Collecting everything" in made.said
    assert made.of() == first
    assert made.said == []
    # What does not change what is installed changes nothing.
    made.file.write_text("# with a comment\n\ntorch   # and another\n")
    copy = made.folder / "copy.txt"
    copy.write_text("torch\n")
    assert {made.of(), made.of(copy)} == {first}
    made.file.write_text("torch==2\n")
    assert len({first, made.of(), made.of(made.file, copy), made.of(version=(3, 11, 2))}) == 4
    assert len(made.left()) == 4


def test_the_content_is_that_of_all_files_and_folders_that_are_named(made: Made) -> None:
    package = made.folder / "package"
    (package / "build").mkdir(parents=True)
    (package / "pyproject.toml").write_text("[project]\n")
    (package / "code.py").write_text("")
    (made.folder / "more.txt").write_text("numpy\n")
    (made.folder / "bounds.txt").write_text("numpy<3\n")
    made.file.write_text("-r more.txt\n--constraint=bounds.txt\n./package[all]\n-r requirements.txt\n")
    seen = [made.of()]
    for name, text in (("more.txt", "scipy\n"), ("bounds.txt", "numpy<2\n"), ("package/code.py", "import os\n")):
        (made.folder / name).write_text(text)
        seen.append(made.of())
    assert len(set(seen)) == 4
    for left in ("build", "a.egg-info"):
        (package / left).mkdir(exist_ok=True)
        (package / left / "code.py").write_text("left by a build")
    assert made.of() == seen[-1]
    # What is installed as editable is used where it lies.
    (package / "inner").mkdir()
    package /= "inner"
    made.file.write_text("-e package/inner\n")
    before = made.of()
    (package / "code.py").write_text("import sys, os\n")
    assert made.of() == before
    for name in ("pyproject.toml", "setup.cfg"):
        (package / name).write_text("[project]\nname = 'a'\n")
        assert made.of() != before
        before = made.of()


def test_variables_in_the_files_are_filled_in(made: Made) -> None:
    (made.folder / "numpy-1.txt").write_text("numpy==1\n")
    (made.folder / "numpy-2.txt").write_text("numpy==2\n")
    made.file.write_text("-r numpy-${VERSION}.txt\n")
    assert made.of(VERSION="1") != made.of(VERSION="2")


@pytest.mark.parametrize(
    ("name", "text"), [("absent.txt", "No such file or directory"), ("raw.txt", "is not UTF-8 text")]
)
def test_a_file_that_cannot_be_read_is_refused(made: Made, name: str, text: str) -> None:
    (made.folder / "raw.txt").write_bytes(b"\xff")
    made.file.write_text(f"-r {name}\n")
    with pytest.raises(WrongUseError, match=rf"--requirements: .*{name}.*{text}"):
        made.of()


def test_uv_makes_it_where_it_is_on_the_path(made: Made) -> None:
    ran, own = made.folder / "ran", made.folder / "python"
    text = f'echo "$@" >>{ran}; [ "$1" != venv ] || {{ mkdir -p "$4/bin"; cp "$3" "$4/bin/"; }}'
    program(made.folder / "bin" / "uv", text)
    folder = made.of()
    assert made.of() == folder
    assert ran.read_text().splitlines() == [
        f"venv --python {own} {folder}",
        f"pip install --python {folder}/bin/python -r {made.file}",
    ]


def test_a_half_made_environment_is_never_used(made: Made) -> None:
    made.pip("echo 'No matching distribution for torch'; exit 1")
    with pytest.raises(WrongUseError, match=r"(?s)-m pip install` ended with exit code 1:\n.*\n  No matching"):
        made.of()
    assert made.left() == []
    # As after a power cut.
    made.pip("true")
    whole = made.of()
    (whole / "trainwright-complete").unlink()
    (whole / "rest").touch()
    assert made.of() == whole
    assert made.said
    assert not (whole / "rest").exists()
    # The Python that it was made with is gone.
    (whole / "bin" / "python").unlink()
    assert made.of() == whole
    assert made.said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_makes_the_environment(made: Made, number: signal.Signals) -> None:
    made.pip(f"sleep 600 & echo $! >{made.folder}/pid; echo 'Downloading torch'; wait")

    def on_line(line: str) -> None:
        if line == "Downloading torch":
            os.kill(os.getpid(), number)

    made.said = Lines(on_line)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises((KeyboardInterrupt, SystemExit)) as raised:
        made.of()
    assert (raised.value.code if isinstance(raised.value, SystemExit) else 130) == 128 + number
    assert made.left() == []
    eventually_sync(lambda: not alive(int((made.folder / "pid").read_text())))
    assert signal.getsignal(signal.SIGTERM) == before


class Lines(list[str]):
    """Lines that are said, each of which is looked at."""

    def __init__(self, look: Callable[[str], None]) -> None:
        super().__init__()
        self._look = look

    def append(self, line: str) -> None:
        super().append(line)
        self._look(line)


def test_two_commands_at_once_make_one_environment(made: Made) -> None:
    folder = made.of()
    (folder / "trainwright-complete").unlink()
    lock = folder.with_name(f"{folder.name}.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    found: list[Path] = []
    waiting = threading.Thread(target=lambda: found.append(made.of()))
    waiting.start()
    eventually_sync(lambda: made.said == ["another command makes this environment; waiting for it"])
    # The other one is done.
    (folder / "trainwright-complete").touch()
    lock.close()
    waiting.join(30)
    assert found == [folder]
    assert len(made.said) == 1


def test_requirements_use_the_python_that_is_named_or_active(
    venv: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def probed(interpreter: str) -> environments.Interpreter:
        asked.append(interpreter)
        return environments.Interpreter(executable=interpreter, version=[3, 12, 0], base="/", platform="")

    monkeypatch.setattr(environments, "_probed", probed)
    monkeypatch.setattr(environments, "environment_for", lambda *_: tmp_path / "made")
    file = Path("requirements.txt")
    for arguments, variables in (
        (given(None, file), shell(VIRTUAL_ENV=venv)),
        (given(None, file), shell()),
        (given(str(venv), file), shell()),
    ):
        found = chosen(arguments, variables, unsaid)
        assert found == Chosen(str(tmp_path / "made"), f"Python of {tmp_path / 'made'}, made from requirements.txt")
    assert asked == [str(venv / "bin" / "python"), sys.executable, str(venv / "bin" / "python")]
