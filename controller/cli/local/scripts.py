# SPDX-License-Identifier: Apache-2.0
"""The TrainJob of `trainwright local run` for a script or a module: what starts it, where, and with which variables."""

import argparse
import difflib
import os
import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from trainwright.api.manifest import ManifestError
from trainwright.api.manifest import documents as read_documents
from trainwright.api.objects import Document
from trainwright.controller.cli.commands import WrongUseError, read_option
from trainwright.controller.cli.local.follower import TRAINJOB
from trainwright.controller.local.node.images import OWN
from trainwright.controller.local.node.outputs import VARIABLE

RUNTIME = "torch-distributed"
_PATH = "PYTHONPATH"
_PYTHON_FILES = (".py", ".pyw", ".pyc", ".pyz")
_MANIFESTS = (".yaml", ".yml", ".json")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_LENGTH = 34
"""Of the part of a generated name that comes from the script: names of pods are longer, and have 63 letters at most."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
"""In double quotes; any other letter behind a backslash stands for itself."""


def documents_of(arguments: argparse.Namespace) -> list[Document]:
    """The objects of the command line: those of the file, or a TrainJob for the script. Raises WrongUseError."""
    if arguments.file is not None:
        _only_for_scripts(arguments)
        return _of_manifest(arguments.file)
    if arguments.function is not None:
        return [_job_of(arguments)]
    if arguments.module is not None:
        # All words are for the module; none of them is a script.
        first = [] if arguments.script is None else [arguments.script]
        arguments.script, arguments.arguments = None, [*first, *arguments.arguments]
    elif arguments.script is None and arguments.passed_on:
        # `run --nodes 2 -- train.py --lr 1`: as other programs that start programs.
        arguments.script, *arguments.passed_on = arguments.passed_on
    if arguments.module is None and arguments.script is None:
        raise WrongUseError("say what to run: a script, a module with --module, or a manifest with --file")
    return [_job_of(arguments)]


def words_of(arguments: argparse.Namespace) -> list[str]:
    """What follows `python` or `torchrun`: the script or the module, and its arguments."""
    given = [*arguments.arguments, *arguments.passed_on]
    # Not resolved: a script that is a link has the name of the link, as with `python`.
    start = ["-m", arguments.module] if arguments.module is not None else [os.path.abspath(arguments.script)]  # noqa: PTH100 - keeps links
    return [_literal(word) for word in (*start, *given)]


def command_of(arguments: argparse.Namespace, starter: Sequence[str]) -> list[str]:
    """The command of a container. `starter`: such as `python` or `torchrun`."""
    if arguments.function is not None:
        return arguments.function.command(starter)  # type: ignore[no-any-return]
    return [*starter, *words_of(arguments)]


def program_of(script: Path, words: Sequence[str]) -> str:
    """A script as a program that is sent with its arguments, to where the file is not. Raises WrongUseError."""
    _check_script(script)
    return f"import sys\nsys.argv[1:] = {[*words]!r}\n{read_option('script', script)}"


def code_folder_of(arguments: argparse.Namespace) -> Path:
    """Where the code is: the folder of the script; of a module, the one in which it is looked for."""
    return Path.cwd() if arguments.script is None else Path(arguments.script).absolute().parent


def folder_of(arguments: argparse.Namespace) -> str:
    """Where the script starts: a folder, or `pod` for one of each pod."""
    if arguments.workdir == OWN:
        return OWN
    return str(Path(arguments.workdir or "").expanduser().resolve())


def _job_of(arguments: argparse.Namespace) -> Document:
    if arguments.script is not None:
        _check_script(Path(arguments.script))
    elif arguments.module is not None and not _MODULE.fullmatch(arguments.module):
        raise WrongUseError(f"--module: {arguments.module!r} is not the name of a module; write it as pkg.main")
    if arguments.workdir not in (None, OWN) and not Path(folder_of(arguments)).is_dir():
        raise WrongUseError(f"--workdir: there is no folder {arguments.workdir}")
    trainer: Document = {"command": command_of(arguments, ["python"])}
    if arguments.nodes is not None:
        trainer["numNodes"] = arguments.nodes
    if found := _variables_of(arguments):
        trainer["env"] = [{"name": name, "value": _literal(value)} for name, value in found.items()]
    stem = Path(arguments.script).stem if arguments.script is not None else ""
    if arguments.module is not None:
        stem = arguments.module.replace(".", "-")
    elif arguments.function is not None:
        stem = arguments.function.name
    name = {"name": arguments.job_name} if arguments.job_name is not None else {"generateName": f"{_name_of(stem)}-"}
    return {
        "apiVersion": TRAINJOB.api_version,
        "kind": TRAINJOB.kind,
        "metadata": {**name, "namespace": "default"},
        "spec": {"runtimeRef": {"name": arguments.runtime or RUNTIME}, "trainer": trainer},
    }


def _variables_of(arguments: argparse.Namespace) -> dict[str, str]:
    found = variables_of(arguments.env, arguments.env_file, os.environ)
    if VARIABLE in found:
        raise WrongUseError(f"{VARIABLE} names the output of the job; set it with --output")
    if arguments.module is not None:
        # `python -m` looks in the folder that it starts in, which --workdir changes.
        found[_PATH] = os.pathsep.join(filter(None, (str(Path.cwd()), found.get(_PATH))))
    return found


def _check_script(script: Path) -> None:
    """Raises WrongUseError for what is not a Python script."""
    if script.is_dir():
        raise WrongUseError(f"{script} is a folder; name a script in it, or a package with --module")
    if not script.exists():
        raise WrongUseError(f"{script}: there is no such file{_similar(script)}")
    if script.suffix in _MANIFESTS:
        raise WrongUseError(f"{script} is not a Python script; a manifest is given with --file")
    if script.suffix == ".ipynb":
        raise WrongUseError(f"{script} is a notebook; make a script of it with: jupyter nbconvert --to script {script}")
    try:
        with script.open("rb") as file:
            first = file.readline(200)
    except OSError as error:
        raise WrongUseError(f"{script}: {error.strerror}") from error
    if script.suffix not in _PYTHON_FILES and not (first.startswith(b"#!") and b"python" in first):
        raise WrongUseError(
            f"{script} is not a Python script: its name does not end with .py, nor does its first line name python"
        )


def _similar(script: Path) -> str:
    """What may have been meant instead of a file that does not exist."""
    if not script.parent.is_dir():
        return ""
    names = [one.name for one in script.parent.iterdir() if one.suffix in _PYTHON_FILES and one.is_file()]
    found = difflib.get_close_matches(script.name, names, n=1, cutoff=0.7)
    return f"; did you mean {script.with_name(found[0])}?" if found else ""


def _name_of(stem: str) -> str:
    """The beginning of a name for the job: part of a DNS label, begins with a letter."""
    plain = unicodedata.normalize("NFKD", stem.casefold())
    kept = (letter for letter in plain if not unicodedata.combining(letter))
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in kept).strip("-")
    if not name[:1].isalpha():
        name = f"script-{name}"
    return name[:_LENGTH].strip("-")


def _only_for_scripts(arguments: argparse.Namespace) -> None:
    """Raises WrongUseError for what a manifest says itself."""
    given = {
        "a script": arguments.script is not None,
        "--module": arguments.module is not None,
        "--runtime": arguments.runtime is not None,
        "--nodes": arguments.nodes is not None,
        "--job-name": arguments.job_name is not None,
        "--workdir": arguments.workdir is not None,
        "--env": bool(arguments.env),
        "--env-file": bool(arguments.env_file),
        "--python": arguments.python is not None,
        "--requirements": bool(arguments.requirements),
        "arguments behind --": bool(arguments.passed_on),
    }
    named = [name for name, is_given in given.items() if is_given]
    if named[:1] == ["a script"]:
        raise WrongUseError("say what to run: a script, or a manifest with --file, not both")
    if named:
        raise WrongUseError(f"{' and '.join(named)}: for a script only; write it into {arguments.file}")


def _of_manifest(file: Path) -> list[Document]:
    """The objects of a file, or of standard input for `-`; one of them is a TrainJob. Raises WrongUseError."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        found = [document.data for document in read_documents(text)]
    except OSError as error:
        raise WrongUseError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WrongUseError(f"{file} is not UTF-8 text") from error
    except ManifestError as error:
        raise WrongUseError(f"{file}: {error}") from error
    for document in found:
        if not isinstance(document, dict) or not document.get("kind"):
            raise WrongUseError(f"{file}: each document must be an object with apiVersion and kind")
    jobs = [document for document in found if document["kind"] == TRAINJOB.kind]
    if len(jobs) != 1:
        raise WrongUseError(f"{file} has {len(jobs)} TrainJobs; it must have one")
    for document in found:
        document.setdefault("metadata", {})
    return found


def show(documents: list[Document]) -> None:
    print(yaml.safe_dump_all(documents, sort_keys=False), end="")


def variables_of(given: Sequence[str], files: Sequence[Path], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables by name. Those that are given go before those of files, later ones before earlier ones.

    `NAME` without a value has that of `environ`. Raises WrongUseError: a file cannot be read, a name is none, or a
    variable is not set.
    """
    found: dict[str, str] = {}
    for file in files:
        for place, line in _lines(file):
            name, value = _variable(line.removeprefix("export ").lstrip(), environ, place)
            found[name] = _unquoted(value, place) if "=" in line else value
    for text in given:
        name, value = _variable(text, environ, f"--env {text}")
        found[name] = value
    for name, value in found.items():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise WrongUseError(f"the value of the variable {name} is not UTF-8 text") from error
    return found


def _literal(text: str) -> str:
    """The text as the field of a container, in which `$(NAME)` stands for a variable and `$$` for `$`."""
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def _lines(file: Path) -> list[tuple[str, str]]:
    lines = read_option("--env-file", file).splitlines()
    numbered = ((f"{file}, line {number}", line.strip()) for number, line in enumerate(lines, 1))
    return [(place, line) for place, line in numbered if line and not line.startswith("#")]


def _variable(text: str, environ: Mapping[str, str], place: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    name = name.rstrip()
    if not _NAME.fullmatch(name):
        raise WrongUseError(f"{place}: {name!r} is not the name of a variable; write NAME=VALUE or NAME")
    if equals:
        return name, value
    if name not in environ:
        raise WrongUseError(f"{place}: {name} is not set in this shell; set it, or write {name}=VALUE")
    return name, environ[name]


def _unquoted(value: str, place: str) -> str:
    """The value of a line of a file: as it stands, or what is in quotes."""
    value = value.strip()
    quote = value[:1]
    if quote not in ("'", '"'):
        return value
    if len(value) < 2 or value[-1] != quote:
        raise WrongUseError(f"{place}: the value begins with {quote} and does not end with it")
    inside = value[1:-1]
    return inside if quote == "'" else _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), inside)
