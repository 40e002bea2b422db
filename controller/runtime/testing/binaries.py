# SPDX-License-Identifier: Apache-2.0
"""Finds the programs of the test control plane.

Each tool is looked up in this order: the folder that is passed or named by `KUBEBUILDER_ASSETS` (the usual variable for
this), the cache, and last a build from Go modules (`build.py`).

`python -m trainwright.controller.runtime.testing` provides all tools and prints their paths.
"""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from trainwright.controller.runtime.testing.errors import ControlPlaneError
from trainwright.controller.runtime.testing.tools import MODULES, TOOLS, cache_root

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"


@dataclass(frozen=True)
class Binaries:
    """Tools and manifests that exist."""

    paths: dict[str, Path]
    """Tool name to executable."""
    manifests: dict[str, Path]
    """Manifest file name to file."""

    def __getitem__(self, tool: str) -> Path:
        return self.paths[tool]


def assets_folder(explicit: Path | None = None) -> Path | None:
    """The folder of existing binaries that the caller or the environment names, if any.

    Raises:
        ControlPlaneError: it is not a folder, or etcd or kube-apiserver is missing in it.
    """
    named = str(explicit) if explicit is not None else os.environ.get(ASSETS_VARIABLE, "")
    if not named:
        return None
    source = "the assets folder" if explicit is not None else ASSETS_VARIABLE
    remedy = f"point it at a folder with etcd and kube-apiserver, or leave {ASSETS_VARIABLE} unset to build them"
    folder = Path(named)
    if not folder.is_dir():
        raise ControlPlaneError(f"{source} is {named!r}, which is not a folder: {remedy}")
    for tool in ("etcd", "kube-apiserver"):
        if not _is_executable(folder / tool):
            raise ControlPlaneError(f"{source} is {named!r}, which has no executable {tool}: {remedy}")
    return folder


def provide(tools: Collection[str] = TOOLS, *, assets: Path | None = None) -> Binaries:
    """Find the tools and their manifests; build what is missing.

    Safe to call from several processes at once: one builds, the others wait. `tools` are names out of `TOOLS` and
    `ON_DEMAND`, `assets` is a folder of existing binaries (default: `KUBEBUILDER_ASSETS`). Raises ControlPlaneError.
    """
    if not tools:
        return Binaries({}, {})
    folder = assets_folder(assets)
    found = look_up(tools, folder)
    if found is None:
        wanted = {
            module: [name for name in names if folder is None or not _is_executable(folder / name)]
            for module in MODULES
            if (names := [name for name, _ in module.packages if name in tools])
        }
        # Imported only when something is missing: a warm start need not load it.
        from trainwright.controller.runtime.testing.build import ToolBuilder  # noqa: PLC0415

        with ToolBuilder(cache_root()) as builder:
            builder.make(wanted)
        found = look_up(tools, folder)
    if found is None:
        raise ControlPlaneError(
            f"the build has finished, but {cache_root()} is incomplete; is another program deleting it?"
        )
    return found


def look_up(tools: Collection[str], assets: Path | None) -> Binaries | None:
    """All tools, or None if one is missing: nothing is built."""
    paths: dict[str, Path] = {}
    manifests: dict[str, Path] = {}
    for module in MODULES:
        wanted = [name for name, _ in module.packages if name in tools]
        for name in wanted:
            candidates = [assets / name] if assets is not None else []
            candidates.append(module.cache_folder / name)
            path = next((candidate for candidate in candidates if _is_executable(candidate)), None)
            if path is None:
                return None
            paths[name] = path
        for name, _ in module.manifests if wanted else ():
            manifests[name] = module.cache_folder / name
            if not manifests[name].is_file():
                return None
    return Binaries(paths, manifests)


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
