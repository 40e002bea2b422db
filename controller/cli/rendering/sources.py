# SPDX-License-Identifier: Apache-2.0
"""Reads TrainJobs and runtimes from files, folders and standard input.

All problems are collected with file and line, so that one run shows every one of them. Documents of other kinds are
ignored in folders; a file that is named on the command line must hold a TrainJob or a runtime.
"""

import copy
import difflib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import msgspec

from trainwright.api import extras
from trainwright.api.base import Object
from trainwright.api.manifest import Document, ManifestError, documents
from trainwright.api.merge import unknown_fields
from trainwright.api.messages import value_text
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob
from trainwright.controller.cli.rendering.schemas import steps_of, validate
from trainwright.controller.local.types.errors import BLOCKING, REQUIRED, WRONG_TYPE, DocumentError
from trainwright.controller.local.values import path_text
from trainwright.controller.trainer.build.runtimes import RuntimeUnsupported, target_of
from trainwright.plugins.contract import Runtime

Path = tuple[str | int, ...]

KINDS: dict[str, type[Object]] = {
    "TrainJob": TrainJob,
    "TrainingRuntime": TrainingRuntime,
    "ClusterTrainingRuntime": ClusterTrainingRuntime,
}
SUFFIXES = (".yaml", ".yml", ".json")
RUNTIME_KINDS = frozenset({"TrainingRuntime", "ClusterTrainingRuntime"})
STDIN = "-"
_STDIN_NAME = "standard input"
SHIPPED = FilePath(__file__).parent / "shipped"
"""The ClusterTrainingRuntimes of config/runtimes: one file for each, with its name."""
_LIST = ("List", "v1")
_NAME = "metadata.name"
_SHOWN = 60
"""Characters of a value in a message."""
_ROUNDS = 4
"""How often a document is validated again without the invalid values."""


@dataclass(slots=True)
class RenderInputs:
    jobs: list[TrainJob] = field(default_factory=list)
    runtimes: list[Runtime] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """One line each: file and line, problem, and what to do."""
    shipped: dict[str, FilePath] = field(default_factory=dict)
    """Files of the shipped runtimes that may be used, by kind and name."""
    unread: bool = False
    """A source could not be read or was empty, so a missing runtime may be there."""
    checked: bool = True
    """Whether the documents were checked against the schemas and rules, which the extra `validate` does."""
    _found: int = 0

    def read(self, sources: Iterable[str], *, namespace: str, wanted: frozenset[str] = frozenset(KINDS)) -> None:
        """Add the objects of the sources. Objects without a namespace get the given one."""
        for source in sources:
            before = self._found, len(self.problems)
            for label, text, named in self._texts(source):
                self._documents(label, text, namespace, wanted, named=named)
            if before == (self._found, len(self.problems)):
                self._unread(_STDIN_NAME if source == STDIN else source, f"it holds no {' or '.join(sorted(wanted))}")

    def _unread(self, source: str, why: str) -> None:
        self.unread = True
        self.problems.append(f"{source}: {why}")

    def use_shipped(self) -> None:
        """Add the shipped runtimes that jobs name and no file has. To read all of them takes longer than to render."""
        kind = ClusterTrainingRuntime.RESOURCE.kind
        self.shipped = {f"{kind} {file.stem}": file for file in SHIPPED.rglob("*-*.yaml")}
        known = {f"{runtime.RESOURCE.kind} {runtime.name}" for runtime in self.runtimes}
        references = [job.spec.runtime_ref for job in self.jobs if job.spec is not None]
        wanted = {f"{reference.kind} {reference.name}" for reference in references} - known
        files = [str(self.shipped[name]) for name in sorted(wanted & self.shipped.keys())]
        self.read(files, namespace="", wanted=RUNTIME_KINDS)

    def _texts(self, source: str) -> Iterator[tuple[str, str, bool]]:
        try:
            if source == STDIN:
                yield _STDIN_NAME, sys.stdin.read(), True
                return
            path = FilePath(source)
            files = [path] if not path.is_dir() else sorted(f for f in path.rglob("*") if f.suffix in SUFFIXES)
            for file in files:
                yield str(file), file.read_text(encoding="utf-8"), file == path
        except OSError as error:
            self._unread(source, f"cannot be read: {error.strerror}")
        except UnicodeDecodeError:
            self._unread(source, "is not UTF-8 text")

    def _documents(self, label: str, text: str, namespace: str, wanted: frozenset[str], *, named: bool) -> None:
        try:
            found = list(documents(text))
        except ManifestError as error:
            self.problems.append(f"{label}:{error.line}: {error.reason}")
            return
        for document in found:
            self._document(label, document, namespace, wanted, named=named)

    def _document(self, label: str, document: Document, namespace: str, wanted: frozenset[str], *, named: bool) -> None:
        data = document.data
        if not isinstance(data, dict):
            self.problems.append(f"{label}:{document.line(())}: must be an object, not {_spoken(data)}")
            return
        kind, version = data.get("kind"), data.get("apiVersion")
        if (kind, version) == _LIST:
            for item in document.items():
                self._document(label, item, namespace, wanted, named=named)
            return
        model = KINDS.get(kind) if isinstance(kind, str) and kind in wanted else None
        if model is None or version != model.RESOURCE.api_version:
            if named:
                self.problems.append(f"{label}:{document.line(('kind',))}: {_stranger(kind, version)}")
            return
        _name(data)
        self.checked = not extras.missing("validate")
        problems = _problems(model, document, checked=self.checked)
        self.problems += [f"{label}:{problem}" for problem in problems]
        if not problems:
            self._add(msgspec.convert(validate(data).stored if self.checked else data, model), namespace)

    def _add(self, found: Object, namespace: str) -> None:
        self._found += 1
        found.set_defaults()
        metadata = found.metadata
        assert metadata is not None  # the schema requires a name
        if found.RESOURCE.namespaced and not metadata.namespace:
            metadata.namespace = namespace
        if isinstance(found, TrainJob):
            try:
                target_of(found)
            except RuntimeUnsupported as error:
                self.problems.append(f"TrainJob {found.name}: {error}")
            else:
                self.jobs.append(found)
        elif isinstance(found, (TrainingRuntime, ClusterTrainingRuntime)):
            self._add_runtime(found)

    def _add_runtime(self, found: Runtime) -> None:
        """The same file may be read twice, as part of a folder too; two different runtimes of one name are a
        mistake."""
        for other in self.runtimes:
            if type(other) is type(found) and (other.namespace, other.name) == (found.namespace, found.name):
                if other != found:
                    name = f"{found.RESOURCE.kind} {found.name}"
                    self.problems.append(
                        f"{name}: the files have two different runtimes of this name; leave one of them out"
                    )
                return
        self.runtimes.append(found)


def _stranger(kind: Any, version: Any) -> str:
    near = difflib.get_close_matches(str(kind), KINDS, n=1, cutoff=0.6) if str(kind) not in KINDS else []
    hint = f"; did you mean {near[0]}?" if near else ""
    of = f"of {version}" if version else "without apiVersion"
    return f"{kind or 'a document without kind'} {of} cannot be rendered{hint}"


def _name(data: dict[str, Any]) -> None:
    """Give an object a name like the one that an API server makes from its generateName."""
    metadata = data.get("metadata")
    if isinstance(metadata, dict) and not metadata.get("name") and isinstance(metadata.get("generateName"), str):
        metadata["name"] = f"{metadata['generateName']}xxxxx"


def _problems(model: type[Object], document: Document, *, checked: bool) -> list[str]:
    """All problems of a document by line. Unless `checked`: only unknown fields, and the first wrong type."""
    metadata = document.data.get("metadata")
    title = f"{document.data['kind']} {metadata.get('name', '') if isinstance(metadata, dict) else ''}".strip()
    unknown = [
        (document.line(path), f"{path_text(path)}: {_unknown_message(str(path[-1]), known)}")
        for path, _, known in unknown_fields(model, document.data)
    ]
    found = _schema_errors(document.data) if checked else _type_errors(model, document.data)
    errors = _at_the_name(found, document.data)
    wrong = [(document.line(steps_of(error.field)), str(error)) for error in errors]
    return [f"{line}: {title}: {text}" for line, text in sorted([*unknown, *wrong])]


def _type_errors(model: type[Object], data: dict[str, Any]) -> list[DocumentError]:
    """The first value that the model cannot hold, or that there is no name."""
    try:
        found = msgspec.convert(data, model)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        return [DocumentError(WRONG_TYPE, place.rstrip("`"), message)]
    return [] if found.name else [DocumentError(REQUIRED, _NAME, "Required value")]


def _at_the_name(errors: list[DocumentError], data: dict[str, Any]) -> Iterator[DocumentError]:
    """Errors of rules about the name are errors of the whole object; report them at the name, unless it has another."""
    known = any(error.field == _NAME for error in errors)
    for error in errors:
        rule = error.message.rpartition(f": {_NAME} ")[2] if not error.field else ""
        if not rule or rule == error.message:
            yield error
        elif not known:
            metadata = data.get("metadata")
            name = metadata.get("name") if isinstance(metadata, dict) else None
            yield DocumentError(
                error.reason, _NAME, f"Invalid value: {value_text(name, _SHOWN)}: {rule}" if name else "Required value"
            )


def _schema_errors(data: dict[str, Any]) -> list[DocumentError]:
    """All errors. Rules are not evaluated while a value has a wrong type, so validate again without that value."""
    found: dict[DocumentError, None] = {}
    for _ in range(_ROUNDS):
        errors = validate(data).errors
        new = [error for error in errors if error not in found]
        found.update(dict.fromkeys(errors))
        data = copy.deepcopy(data)
        removed = [_removed(data, steps_of(error.field)) for error in new if error.reason in BLOCKING]
        if not any(removed):
            break
    return sorted(found, key=lambda error: error.field)


def _removed(data: Any, steps: Path) -> bool:
    for step in steps[:-1]:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return False
    if not steps or not isinstance(data, dict) or steps[-1] not in data:
        return False
    del data[steps[-1]]
    return True


def _spoken(data: Any) -> str:
    names: dict[type, str] = {list: "a list", str: "text", int: "a number", float: "a number", bool: "a truth value"}
    return names.get(type(data), type(data).__name__)


def _unknown_message(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not near:
        lower = {other.lower(): other for other in known}
        near = [lower[name.lower()]] if name.lower() in lower else []
    return f"unknown field; did you mean {near[0]}?" if near else f"unknown field; known are {', '.join(known)}"
