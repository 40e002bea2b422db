# SPDX-License-Identifier: Apache-2.0
"""The user's own kubeconfig: entries of a local cluster are put in and taken out. Only `--merge-kubeconfig` does it.

What the file had before is kept in a copy beside it, and everything else in it stays, except comments. kubectl's own
lock keeps two programs from writing at once:
https://github.com/kubernetes/client-go/blob/master/tools/clientcmd/config.go
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from trainwright.controller.local.credentials import write_private
from trainwright.controller.runtime import ConfigurationError

COPY = ".before-trainwright"
"""At the end of the name of the copy."""
_RECORD = "merged.json"
"""In the cluster's folder: which file has its entries, and the context that was current before."""
_SECTIONS = ("clusters", "users", "contexts")
_CURRENT = "current-context"


def user_file() -> Path:
    """The file that kubectl changes: the first one of KUBECONFIG, or ~/.kube/config."""
    named = [one for one in os.environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    return Path(named[0]).expanduser() if named else Path.home() / ".kube" / "config"


def merge(folder: Path, file: Path, *, use_context: bool) -> str:
    """Put the entries of a cluster into a kubeconfig, which is made if there is none; returns the name of the context.

    Raises:
        ConfigurationError: the file is not a kubeconfig, or locked, or the cluster's own.
        OSError: it cannot be read or written.
    """
    own = folder / "kubeconfig"
    if file.resolve() == own.resolve():
        raise ConfigurationError(f"KUBECONFIG names the cluster's own file already: {file}")
    made = yaml.safe_load(own.read_text(encoding="utf-8"))
    context: str = made[_CURRENT]
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(file):
        document = _read(file)
        before = document.get(_CURRENT) or ""
        for section in _SECTIONS:
            document[section] = [*_others(document, section, context), *made[section]]
        if use_context:
            document[_CURRENT] = context
        _write(file, document)
    with suppress(FileNotFoundError):
        earlier = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        before = earlier["before"] if before == context else before
    record = {"file": str(file.resolve()), "context": context, "before": before}
    write_private(folder / _RECORD, json.dumps(record).encode())
    return context


def take_out(folder: Path) -> Path | None:
    """Take the entries of a cluster out of the kubeconfig that has them; returns its path, or None if none has.

    If the cluster's context is the current one, that of before is. Raises ConfigurationError, OSError.
    """
    try:
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    file, context = Path(record["file"]), record["context"]
    if file.exists():
        with _locked(file):
            document = _read(file)
            for section in _SECTIONS:
                document[section] = _others(document, section, context)
            if document.get(_CURRENT) == context:
                known = [one.get("name") for one in document["contexts"]]
                document[_CURRENT] = record["before"] if record["before"] in known else ""
            _write(file, document)
    (folder / _RECORD).unlink()
    return file


def _others(document: dict[str, Any], section: str, name: str) -> list[Any]:
    return [one for one in document.get(section) or () if not isinstance(one, dict) or one.get("name") != name]


def _read(file: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        document = None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{file}: {error}") from error
    if document is None:
        document = {"apiVersion": "v1", "kind": "Config"}
    lists = isinstance(document, dict) and all(isinstance(document.get(one) or [], list) for one in _SECTIONS)
    if not lists or document.get("kind", "Config") != "Config":
        raise ConfigurationError(f"{file} is not a kubeconfig")
    return dict(document)


def _write(file: Path, document: dict[str, Any]) -> None:
    """Replace the file at once. A link stays one: the file that it names is replaced."""
    file = file.resolve()
    copy = file.with_name(file.name + COPY)
    # A file that is as we write it has no comments to lose; the copy of one that had them stays.
    if file.exists() and not (copy.exists() and file.read_bytes() == _text(_read(file))):
        shutil.copy2(file, copy)
    write_private(file, _text(document))


def _text(document: dict[str, Any]) -> bytes:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode()


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold the lock that kubectl takes before it writes. Raises ConfigurationError."""
    lock = file.with_name(f"{file.name}.lock")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError as error:
        raise ConfigurationError(
            f"{file} is locked by another program; if none runs, delete {lock} and try again"
        ) from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
