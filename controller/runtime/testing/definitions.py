# SPDX-License-Identifier: Apache-2.0
"""Installing CustomResourceDefinitions, and waiting until objects of theirs can be stored."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainwright.controller.runtime.testing.errors import ControlPlaneError
from trainwright.controller.runtime.testing.readiness import has_condition

_WAIT_SECONDS = 60
_POLL_SECONDS = 0.05
_MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")


def install_definitions(
    paths: Sequence[Path], *, kubectl: Callable[..., str], field_manager: str, serves: Callable[[str], bool]
) -> None:
    """Apply what is in the files and folders, and wait until the API server serves it.

    Args:
        paths: files and folders of manifests; other objects among them are applied too.
        kubectl: runs it with the arguments given and returns its output.
        field_manager: whose the objects are.
        serves: whether a GET of a path of the API server is answered with success.

    Raises:
        ControlPlaneError: a path does not exist, a folder holds no manifests, a definition was refused, or it is not
            served after a minute.
    """
    files = [f"--filename={file}" for path in paths for file in _manifests(path)]
    kubectl("apply", "--server-side", f"--field-manager={field_manager}", *files)
    # Not `kubectl wait`, which fails on a definition that has no conditions yet; and a definition that is
    # Established may still be answered 429 for a moment, while its storage is made.
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        answer = json.loads(kubectl("get", "--output=json", *files))
        # The files may hold other objects too, which are served as soon as they are there.
        objects = answer["items"] if answer["kind"] == "List" else [answer]
        waiting = [
            crd["metadata"]["name"]
            for crd in objects
            if crd["kind"] == "CustomResourceDefinition" and not _is_served(crd, serves)
        ]
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise ControlPlaneError(f"not served after {_WAIT_SECONDS} s: {', '.join(waiting)}")
        time.sleep(_POLL_SECONDS)


def _is_served(crd: Mapping[str, Any], serves: Callable[[str], bool]) -> bool:
    group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
    return has_condition(crd, "Established") and all(
        serves(f"/apis/{group}/{version['name']}/{plural}?limit=1")
        for version in crd["spec"]["versions"]
        if version["served"]
    )


def _manifests(path: Path) -> list[Path]:
    """The file itself, or a folder's manifests but for the kustomization, which is no object."""
    if not path.is_dir():
        return [path]
    found = sorted(
        file for file in path.iterdir() if file.suffix in _MANIFEST_SUFFIXES and file.stem.lower() != "kustomization"
    )
    if not found:
        suffixes = ", ".join(f"*{suffix}" for suffix in _MANIFEST_SUFFIXES)
        raise ControlPlaneError(f"{path} holds no CRDs ({suffixes})")
    return found
