# SPDX-License-Identifier: Apache-2.0
"""The tools of the test control plane: the Go modules that they are built from, and where they are found.

Each tool is looked up in this order: the folder that is passed or named by `KUBEBUILDER_ASSETS` (the usual variable for
this), the cache, and last a build from Go modules (`build.py`). `python -m trainwright.controller.runtime.testing`
provides all tools and prints their paths.

The cache lies under the user's cache directory (`XDG_CACHE_HOME` is honoured). Each module and version has a folder of
its own there, so a new version never uses an old binary, and an old checkout still finds its binaries.
"""

import functools
import hashlib
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
MODULES_VARIABLE = "TRAINWRIGHT_CONTROL_PLANE_MODULES"
"""Names a folder whose subfolders replace modules of the same name: tests on other versions of Kubernetes."""

_MODULES = Path(__file__).with_name("modules")


class ControlPlaneError(RuntimeError):
    """A program is missing, does not start, or has ended. The message ends with what to do or with log lines."""


class PortTakenError(ControlPlaneError):
    """A program ended because another one uses its port."""

    def __init__(self, program: str, message: str) -> None:
        super().__init__(message)
        self.program = program


@dataclass(frozen=True)
class GoModule:
    """A Go module, built from the `go.mod` and `go.sum` in the folder of its name."""

    name: str
    path: str
    """Module path, as in the `require` line of its `go.mod`."""
    packages: tuple[tuple[str, str], ...]
    """Names of binaries and their packages."""
    manifests: tuple[tuple[str, str], ...] = ()
    """File name in the cache, and its source in the module: a file, or a folder with YAML files."""
    variables: tuple[tuple[str, str], ...] = ()
    """Go variables that the module's own build sets at link time, and their values; `{version}` is the module's."""
    on_demand: bool = False
    """Whether it is provided only to those who name it, because no control plane runs it."""

    @property
    def folder(self) -> Path:
        """Folder of `go.mod` and `go.sum`.

        Raises:
            ControlPlaneError: the folder is missing, as in a clone without symbolic links; or `MODULES_VARIABLE` names
                something else than a folder.
        """
        if other := os.environ.get(MODULES_VARIABLE, ""):
            if not Path(other).is_dir():
                raise ControlPlaneError(f"{MODULES_VARIABLE} is {other!r}, which is not a folder")
            if (Path(other) / self.name / "go.mod").is_file():
                return Path(other) / self.name
        folder = _MODULES / self.name
        if not (folder / "go.mod").is_file():
            raise ControlPlaneError(
                f"{folder}/go.mod is missing: {_MODULES} must be a symbolic link to hack/control-plane; "
                "clone again with `git clone -c core.symlinks=true`"
            )
        return folder

    @property
    def sources(self) -> list[Path]:
        """`go.mod`, `go.sum`, and the files of a main package of ours."""
        return [self.folder / "go.mod", self.folder / "go.sum", *sorted(self.folder.glob("*.go"))]

    @functools.cached_property
    def version(self) -> str:
        text = (self.folder / "go.mod").read_text()
        match = re.search(rf"^(?:require )?\s*{re.escape(self.path)} (v\S+)", text, re.MULTILINE)
        if match is None:
            raise ControlPlaneError(f"{self.folder}/go.mod does not require {self.path}")
        return match[1]

    @functools.cached_property
    def cache_folder(self) -> Path:
        """Folder of the binaries and manifests of this version; may not exist yet."""
        pins = hashlib.sha256()
        for file in self.sources:
            pins.update(file.read_bytes())
        return cache_root() / f"{self.name}-{self.version}-{pins.hexdigest()[:8]}"


MODULES = (
    GoModule("etcd", "go.etcd.io/etcd/server/v3", (("etcd", "go.etcd.io/etcd/server/v3"),)),
    GoModule(
        "kubernetes",
        "k8s.io/kubernetes",
        tuple(
            (name, f"k8s.io/kubernetes/cmd/{name}")
            for name in ("kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler")
        ),
    ),
    GoModule(
        "jobset",
        "sigs.k8s.io/jobset",
        (("jobset-manager", "sigs.k8s.io/jobset"),),
        (
            ("jobset-crd.yaml", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
            ("jobset-webhooks.yaml", "config/components/webhook/manifests.yaml"),
        ),
    ),
    GoModule(
        "kwok",
        "sigs.k8s.io/kwok",
        (("kwok", "sigs.k8s.io/kwok/cmd/kwok"),),
        (("kwok-node-stages.yaml", "kustomize/stage/node/fast"), ("kwok-pod-stages.yaml", "kustomize/stage/pod/fast")),
    ),
    GoModule(
        "helm",
        "helm.sh/helm/v3",
        (("helm", "helm.sh/helm/v3/cmd/helm"),),
        variables=(
            ("helm.sh/helm/v3/internal/version.version", "{version}"),
            # The version of Kubernetes that `helm template` assumes without a cluster: that of the client library.
            ("helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor", "1"),
            ("helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor", "36"),
        ),
        on_demand=True,
    ),
    # A real node: hack/node. Pins of its own, so that a control plane is not built again when they change.
    GoModule(
        "node",
        "k8s.io/kubernetes",
        tuple((name, f"k8s.io/kubernetes/cmd/{name}") for name in ("kubelet", "kube-proxy")),
        on_demand=True,
    ),
    # DNS of the real node's cluster: a main package of ours with the few plugins that it uses.
    GoModule("coredns", "github.com/coredns/coredns", (("coredns", "."),), on_demand=True),
    # An object storage that speaks the protocol of S3 and checks signatures, regions and conditions.
    GoModule(
        "versitygw",
        "github.com/versity/versitygw",
        (("versitygw", "github.com/versity/versitygw/cmd/versitygw"),),
        on_demand=True,
    ),
    # Queues: what it makes of TrainJobs is tested with its own manager.
    GoModule(
        "kueue",
        "sigs.k8s.io/kueue",
        (("kueue-manager", "sigs.k8s.io/kueue/cmd/kueue"),),
        (
            ("kueue-crds.yaml", "config/components/crd/bases"),
            ("kueue-webhooks.yaml", "config/components/webhook/manifests.yaml"),
        ),
        on_demand=True,
    ),
    # Gang scheduling: the scheduler whose coscheduling plugin starts all pods of a PodGroup or none.
    GoModule(
        "scheduler-plugins",
        "sigs.k8s.io/scheduler-plugins",
        (("coscheduling-scheduler", "sigs.k8s.io/scheduler-plugins/cmd/scheduler"),),
        (("coscheduling-crd.yaml", "manifests/coscheduling/crd.yaml"),),
        # It is a kube-scheduler, which takes the version of Kubernetes that it comes from for its own.
        variables=(("k8s.io/component-base/version.gitVersion", "v1.34.7"),),
        on_demand=True,
    ),
)

TOOLS = tuple(name for module in MODULES if not module.on_demand for name, _ in module.packages)
"""Names of the tools of a control plane."""
ON_DEMAND = tuple(name for module in MODULES if module.on_demand for name, _ in module.packages)
"""Names of the other tools."""


def cache_root() -> Path:
    """`$XDG_CACHE_HOME/trainwright/control-plane`, or the same under `~/.cache`."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    # XDG base directory specification: ignore a relative path.
    base = Path(configured) if configured.startswith("/") else Path.home() / ".cache"
    return base / "trainwright" / "control-plane"


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
        from trainwright.controller.runtime.testing.build import tool_builder  # noqa: PLC0415

        with tool_builder(cache_root()) as builder:
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
