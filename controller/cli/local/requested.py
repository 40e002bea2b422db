# SPDX-License-Identifier: Apache-2.0
"""What `trainwright local run` is asked to run: the objects of a manifest, or a TrainJob for a script."""

import argparse
import sys
import unicodedata
from pathlib import Path

import yaml

from trainwright.api.manifest import ManifestError
from trainwright.api.manifest import documents as read_documents
from trainwright.api.objects import Document
from trainwright.controller.cli.local.jobs import TRAINJOB

RUNTIME = "torch-distributed"
"""The runtime of scripts."""


class WrongUseError(Exception):
    """The command cannot do what it is asked; the text says why."""


def documents_of(arguments: argparse.Namespace) -> list[Document]:
    """The objects of the command line: those of the file, or a TrainJob for the script. Raises WrongUseError."""
    if arguments.script is None and arguments.file is None and arguments.passed_on:
        # `run --nodes 2 -- train.py --lr 1`: as other programs that start programs.
        arguments.script, *arguments.passed_on = arguments.passed_on
    if (arguments.file is None) == (arguments.script is None):
        raise WrongUseError("say what to run: a manifest with --file, or a script")
    if arguments.file is not None:
        _only_for_scripts(arguments)
    if arguments.file is None:
        return [_job_of(arguments)]
    try:
        text = sys.stdin.read() if str(arguments.file) == "-" else arguments.file.read_text(encoding="utf-8")
        found = [document.data for document in read_documents(text)]
    except OSError as error:
        raise WrongUseError(f"{arguments.file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WrongUseError(f"{arguments.file} is not UTF-8 text") from error
    except ManifestError as error:
        raise WrongUseError(f"{arguments.file}: {error}") from error
    for document in found:
        if not isinstance(document, dict) or not document.get("kind"):
            raise WrongUseError(f"{arguments.file}: each document must be an object with apiVersion and kind")
    jobs = [document for document in found if document["kind"] == TRAINJOB.kind]
    if len(jobs) != 1:
        raise WrongUseError(f"{arguments.file} has {len(jobs)} TrainJobs; it must have one")
    for document in found:
        document.setdefault("metadata", {})
    return found


def _job_of(arguments: argparse.Namespace) -> Document:
    script = Path(arguments.script)
    if not script.is_file():
        raise WrongUseError(f"{script}: there is no such file")
    if script.suffix in (".yaml", ".yml", ".json"):
        raise WrongUseError(f"{script} is not a Python script; a manifest is given with --file")
    if arguments.workdir is not None and not arguments.workdir.is_dir():
        raise WrongUseError(f"--workdir: there is no folder {arguments.workdir}")
    trainer: Document = {"command": ["python", *script_of(arguments)]}
    if arguments.nodes is not None:
        trainer["numNodes"] = arguments.nodes
    return {
        "apiVersion": TRAINJOB.api_version,
        "kind": TRAINJOB.kind,
        "metadata": {"name": arguments.job_name or _name_of(script), "namespace": "default"},
        "spec": {"runtimeRef": {"name": arguments.runtime or RUNTIME}, "trainer": trainer},
    }


def _name_of(script: Path) -> str:
    """A name for the job of a script: a DNS label that starts with a letter."""
    plain = unicodedata.normalize("NFKD", script.stem.casefold())
    kept = (letter for letter in plain if not unicodedata.combining(letter))
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in kept).strip("-")
    if not name[:1].isalpha():
        name = f"script-{name}"
    return name[:40].strip("-")


def script_of(arguments: argparse.Namespace) -> list[str]:
    """The script and its arguments."""
    return [str(Path(arguments.script).resolve()), *arguments.arguments, *arguments.passed_on]


def _only_for_scripts(arguments: argparse.Namespace) -> None:
    """Raises WrongUseError for what a manifest says itself."""
    given = {
        "--runtime": arguments.runtime is not None,
        "--nodes": arguments.nodes is not None,
        "--job-name": arguments.job_name is not None,
        "--workdir": arguments.workdir is not None,
        "arguments behind --": bool(arguments.passed_on),
    }
    if named := [name for name, is_given in given.items() if is_given]:
        raise WrongUseError(f"{' and '.join(named)}: for a script only; write it into {arguments.file}")


def show(documents: list[Document]) -> None:
    """Print the objects as YAML."""
    print(yaml.safe_dump_all(documents, sort_keys=False), end="")
