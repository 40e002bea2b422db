# SPDX-License-Identifier: Apache-2.0
"""Installs CustomResourceDefinitions and waits until their objects can be stored."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainwright.api import manifest
from trainwright.controller.runtime.testing.component import has_condition
from trainwright.controller.runtime.testing.errors import ControlPlaneError
from trainwright.controller.runtime.testing.stored import StoredObjects
from trainwright.controller.runtime.testing.waiting import GaveUp, eventually_sync, is_empty

_WAIT_SECONDS = 60
_DEFINITION = "CustomResourceDefinition"
_MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")


def install_definitions(
    paths: Sequence[Path], *, stored: StoredObjects, field_manager: str, serves: Callable[[str], bool]
) -> None:
    """Apply the manifests in files and folders, and wait until the API server serves the CRDs.

    Other objects in them are applied too. `serves` says whether the API server answers a GET of a path with success.

    Raises ControlPlaneError: a path does not exist, a folder holds no manifests, a definition was refused, or it is not
    served after a minute.
    """
    documents = [document for path in paths for file in manifests(path) for document in _documents(file)]
    stored.apply(*documents, field_manager=field_manager)
    # The files may contain other objects, which are served at once.
    names = [one["metadata"]["name"] for one in documents if one["kind"] == _DEFINITION]

    # While its storage is made, a CRD that is Established can be answered with 429.
    def waiting() -> list[str]:
        crds = {name: stored.get(_DEFINITION, name) for name in names}
        return [name for name, crd in crds.items() if crd is None or not _is_served(crd, serves)]

    try:
        eventually_sync(waiting, is_empty, seconds=_WAIT_SECONDS)
    except GaveUp as error:
        raise ControlPlaneError(
            f"the API server does not serve {', '.join(error.last)} after {_WAIT_SECONDS} s"
        ) from error


def _is_served(crd: Mapping[str, Any], serves: Callable[[str], bool]) -> bool:
    group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
    return has_condition(crd, "Established") and all(
        serves(f"/apis/{group}/{version['name']}/{plural}?limit=1")
        for version in crd["spec"]["versions"]
        if version["served"]
    )


def manifests(path: Path) -> list[Path]:
    """The file itself, or the manifests of a folder without its kustomization."""
    if not path.is_dir():
        return [path]
    found = sorted(
        file for file in path.iterdir() if file.suffix in _MANIFEST_SUFFIXES and file.stem.lower() != "kustomization"
    )
    if not found:
        suffixes = ", ".join(f"*{suffix}" for suffix in _MANIFEST_SUFFIXES)
        raise ControlPlaneError(f"{path} contains no CRDs ({suffixes})")
    return found


def _documents(file: Path) -> list[dict[str, Any]]:
    try:
        return _parsed(file, file.stat().st_mtime_ns)
    except (OSError, ValueError) as error:
        raise ControlPlaneError(f"the manifest {file} cannot be read: {error}") from error


@functools.lru_cache(maxsize=64)
def _parsed(file: Path, _changed: int) -> list[dict[str, Any]]:
    """Definitions are long, and each control plane of a session has the same."""
    found = []
    for document in manifest.documents(file.read_text()):
        listed = document.items() if isinstance(document.data, dict) and document.data.get("kind") == "List" else ()
        found += [one.data for one in listed] or [document.data]
    return [one for one in found if one]
