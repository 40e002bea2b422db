# SPDX-License-Identifier: Apache-2.0
"""Where the programs of the test control plane come from.

Each tool is looked for in this order: the folder given explicitly or in `KUBEBUILDER_ASSETS` (the name that this field
uses everywhere), the cache, and last a build from Go modules (`build.py`). The cache lies under the user's cache
directory (`XDG_CACHE_HOME` is obeyed), one folder per module and version, so that a new version never meets an old
binary and an old checkout still finds its own.

`python -m trainwright.controller.runtime.testing` provides everything and prints where it is.
"""

import functools
import hashlib
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from trainwright.controller.runtime.testing.errors import ControlPlaneError

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
_MODULES = Path(__file__).with_name("modules")


@dataclass(frozen=True)
class Module:
    """One Go module that is built on its own, from the `go.mod` and `go.sum` in the folder of its name."""

    name: str
    path: str
    """Module path, as in the `require` line of its `go.mod`."""
    packages: tuple[tuple[str, str], ...]
    """Binary name and the package that is built into it."""
    manifests: tuple[tuple[str, str], ...] = ()
    """File name in the cache, and the file or folder (all its YAML files) within the module that it is copied from."""

    @property
    def folder(self) -> Path:
        """Folder of `go.mod` and `go.sum`.

        Raises:
            ControlPlaneError: the folder is not there, as in a clone without symbolic links.
        """
        folder = _MODULES / self.name
        if not (folder / "go.mod").is_file():
            raise ControlPlaneError(
                f"{folder}/go.mod is missing: {_MODULES} must be a symbolic link to hack/control-plane; "
                "clone again with `git clone -c core.symlinks=true`"
            )
        return folder

    @functools.cached_property
    def version(self) -> str:
        """The version that `go.mod` requires; stated there only."""
        text = (self.folder / "go.mod").read_text()
        match = re.search(rf"^(?:require )?\s*{re.escape(self.path)} (v\S+)", text, re.MULTILINE)
        if match is None:
            raise ControlPlaneError(f"{self.folder}/go.mod does not require {self.path}")
        return match[1]

    @functools.cached_property
    def cache_folder(self) -> Path:
        """Where the built binaries and the manifests of this version lie, whether or not they exist yet."""
        pins = hashlib.sha256()
        for name in ("go.mod", "go.sum"):
            pins.update((self.folder / name).read_bytes())
        return cache_root() / f"{self.name}-{self.version}-{pins.hexdigest()[:8]}"


MODULES = (
    Module("etcd", "go.etcd.io/etcd/server/v3", (("etcd", "go.etcd.io/etcd/server/v3"),)),
    Module(
        "kubernetes",
        "k8s.io/kubernetes",
        tuple(
            (name, f"k8s.io/kubernetes/cmd/{name}")
            for name in ("kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler")
        ),
    ),
    Module(
        "jobset",
        "sigs.k8s.io/jobset",
        (("jobset-manager", "sigs.k8s.io/jobset"),),
        (
            ("jobset-crd.yaml", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
            ("jobset-webhooks.yaml", "config/components/webhook/manifests.yaml"),
        ),
    ),
    Module(
        "kwok",
        "sigs.k8s.io/kwok",
        (("kwok", "sigs.k8s.io/kwok/cmd/kwok"),),
        (("kwok-node-stages.yaml", "kustomize/stage/node/fast"), ("kwok-pod-stages.yaml", "kustomize/stage/pod/fast")),
    ),
)

TOOLS = tuple(name for module in MODULES for name, _ in module.packages)
"""Every tool that can be asked for."""


def cache_root() -> Path:
    """`$XDG_CACHE_HOME/trainwright/control-plane`, or the same under `~/.cache`."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG base directory specification: a relative path is invalid and is ignored.
    base = Path(configured) if configured.startswith("/") else Path.home() / ".cache"
    return base / "trainwright" / "control-plane"


@dataclass(frozen=True)
class Binaries:
    """Tools and manifests that were found or built."""

    paths: dict[str, Path]
    """Tool name to executable."""
    manifests: dict[str, Path]
    """Manifest file name to file."""

    def __getitem__(self, tool: str) -> Path:
        return self.paths[tool]


def assets_folder(explicit: Path | None = None) -> Path | None:
    """The folder of ready-made binaries that the caller or the environment names, if any.

    Raises:
        ControlPlaneError: it is named but cannot serve: no folder, or etcd or kube-apiserver missing in it.
    """
    named = str(explicit) if explicit is not None else os.environ.get(ASSETS_VARIABLE, "")
    if not named:
        return None
    source = "the assets folder" if explicit is not None else ASSETS_VARIABLE
    remedy = f"point it at a folder with etcd and kube-apiserver, or leave {ASSETS_VARIABLE} unset to build them"
    folder = Path(named)
    if not folder.is_dir():
        raise ControlPlaneError(f"{source} is {named!r}, which is no folder: {remedy}")
    for tool in ("etcd", "kube-apiserver"):
        if not _is_executable(folder / tool):
            raise ControlPlaneError(f"{source} is {named!r}, which has no executable {tool}: {remedy}")
    return folder


def provide(tools: Collection[str] = TOOLS, *, assets: Path | None = None) -> Binaries:
    """Find the tools and the manifests that belong to them, building what is missing.

    Safe to call from several processes at once: one builds, the others wait for it.

    Args:
        tools: names out of `TOOLS`.
        assets: folder of ready-made binaries; `KUBEBUILDER_ASSETS` when not given.

    Raises:
        ControlPlaneError: an unusable assets folder, a cache that cannot be written to, no way to build, or a build
            that failed.
    """
    folder = assets_folder(assets)
    found = _look_up(tools, folder)
    if found is None:
        # Imported only when something is missing: a warm start need not load it.
        from trainwright.controller.runtime.testing.build import Builder  # noqa: PLC0415

        wanted = {
            module: [name for name in names if folder is None or not _is_executable(folder / name)]
            for module in MODULES
            if (names := [name for name, _ in module.packages if name in tools])
        }
        with Builder(cache_root()) as builder:
            builder.make(wanted)
        found = _look_up(tools, folder)
    if found is None:
        raise ControlPlaneError(
            f"the build finished but {cache_root()} does not hold what it should; is it being deleted?"
        )
    return found


def _look_up(tools: Collection[str], assets: Path | None) -> Binaries | None:
    """Everything asked for, or nothing when anything is missing."""
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
