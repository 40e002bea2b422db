# SPDX-License-Identifier: Apache-2.0
"""The objects of a manifest that `trainwright local run --file` is asked to run."""

import sys
from pathlib import Path

import yaml

from trainwright.api.manifest import ManifestError
from trainwright.api.manifest import documents as read_documents
from trainwright.api.objects import Document
from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.cli.local.jobs import TRAINJOB


def documents_of(file: Path) -> list[Document]:
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
    """Print the objects as YAML."""
    print(yaml.safe_dump_all(documents, sort_keys=False), end="")
