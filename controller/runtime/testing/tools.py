# SPDX-License-Identifier: Apache-2.0
"""The tools of the test control plane: the Go modules that they are built from, and their place in the cache.

The cache lies under the user's cache directory (`XDG_CACHE_HOME` is honoured). Each module and version has a folder of
its own there, so a new version never uses an old binary, and an old checkout still finds its binaries.
"""

import functools
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

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
