# SPDX-License-Identifier: Apache-2.0
"""Kueue's own specs for TrainJobs as programs, built once from its Go module into the cache of the control plane.

The module is the one that `hack/control-plane/kueue` pins. The specs are built as in its own checkout, with the
versions of its `go.mod`. Beside the programs lies the part of that checkout that they read: definitions and webhooks.
The manager of Kubeflow Trainer comes with them, in the version whose library Kueue computes pods with.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainwright.controller.runtime.testing.build import find_go, provide
from trainwright.controller.runtime.testing.tools import MODULES, ControlPlaneError, cache_root

PROJECT = "project"
"""The folder of the part of the checkout."""
ORIGINAL = "trainer-controller-manager"
"""The manager of Kubeflow Trainer."""
DEFINITIONS, WEBHOOKS = "original-crds", "original-webhook"
"""Folders of its manifests."""
_TRAINER = "github.com/kubeflow/trainer/v2"
_KUEUE = next(module for module in MODULES if module.name == "kueue")
_DEFINITIONS = {
    "mpi-operator": ("github.com/kubeflow/mpi-operator", "manifests/base"),
    "training-operator-crds": ("github.com/kubeflow/training-operator", "manifests/base/crds"),
    "ray-operator-crds": ("github.com/ray-project/kuberay/ray-operator", "config/crd/bases"),
    "jobset-operator": ("sigs.k8s.io/jobset", "config/components/crd/bases"),
    "cluster-autoscaler": ("k8s.io/autoscaler/cluster-autoscaler/apis", "config/crd"),
    "appwrapper-crds": ("github.com/project-codeflare/appwrapper", "config/crd/bases"),
    "clusterprofile": ("sigs.k8s.io/cluster-inventory-api", "config/crd/bases"),
}
"""What `make dep-crds` copies there, but for Kubeflow Trainer's: folder, module, and folder in it."""
_TWICE = "kubeflow.org_mpijobs.yaml"
"""In two of the modules; the Makefile leaves out the training operator's."""


@dataclass(frozen=True)
class Suite:
    """The specs of one package that concern TrainJobs."""

    package: str
    focus: str = ""
    """What Ginkgo takes as `--focus`; empty: all are about TrainJobs."""
    labels: str = ""
    """Its `--label-filter`: the suite waits for those other projects that it names, or for all without it."""
    on_cluster: bool = False
    """Whether it needs a cluster with all managers; the others start an API server."""

    @property
    def program(self) -> str:
        return f"{self.package.rsplit('/', 1)[1]}.test"


SUITES = (
    Suite("test/integration/singlecluster/controller/jobs/trainjob"),
    Suite("test/integration/singlecluster/webhook/jobs", focus="Trainjob Webhook"),
    Suite("test/integration/multikueue", focus="TrainJob"),
    Suite("test/e2e/singlecluster", focus="TrainJob", labels="feature:trainjob || feature:tas", on_cluster=True),
    Suite("test/e2e/tas", focus="TrainJob", on_cluster=True),
)


def built() -> Path:
    """The folder of the programs and of the part of the checkout; builds it first, which takes minutes.

    Raises:
        ControlPlaneError: no Go toolchain, no network, or a compile error.
    """
    # The name changes with the version and with the pins.
    folder = cache_root() / _KUEUE.cache_folder.name.replace("kueue", "kueue-specs", 1)
    if not folder.is_dir():
        cache_root().mkdir(parents=True, exist_ok=True)
        with (cache_root() / ".kueue-specs.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                with tempfile.TemporaryDirectory(prefix=".build-kueue-specs-", dir=cache_root()) as scratch:
                    _build(Path(scratch)).replace(folder)
    return folder


def _build(scratch: Path) -> Path:
    pins, made = scratch / "pins", scratch / "made"
    for folder in (pins, made):
        folder.mkdir()
    for pin in _KUEUE.sources:
        shutil.copyfile(pin, pins / pin.name)
    go, environment = find_go(scratch, (1, 26))

    def run(folder: Path, *arguments: str) -> str:
        return _run([str(go), *arguments], folder, environment)

    def folder_of(folder: Path, module: str) -> Path:
        run(folder, "mod", "download", module)
        return Path(run(folder, "list", "-m", "-f", "{{.Dir}}", module).strip())

    kueue = folder_of(pins, _KUEUE.path)
    print(f"building the specs of Kueue {_KUEUE.version} …", file=sys.stderr, flush=True)
    packages = [f"./{suite.package}" for suite in SUITES]
    run(kueue, "test", "-c", "-trimpath", "-ldflags", "-s -w", "-o", f"{made}{os.sep}", *packages)
    run(kueue, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(made / ORIGINAL), f"{_TRAINER}/cmd/{ORIGINAL}")
    manifests = folder_of(kueue, _TRAINER) / "manifests" / "base"
    _copy(manifests / "crds", made / DEFINITIONS)
    _copy(manifests / "webhook", made / WEBHOOKS)
    project = made / PROJECT
    for name, (module, source) in _DEFINITIONS.items():
        _copy(folder_of(kueue, module) / source, project / "dep-crds" / name)
    (project / "dep-crds" / "training-operator-crds" / _TWICE).unlink()
    _copy(kueue / "config" / "components" / "webhook", project / "config" / "components" / "webhook")
    _copy(kueue / "hack" / "testing", project)
    output = project / "config" / "components" / "crd" / "_output"
    output.mkdir(parents=True)
    kubectl = str(provide(["kubectl"])["kubectl"])
    definitions = _run([kubectl, "kustomize", str(kueue / "config" / "components" / "crd")], scratch, os.environ)
    (output / "crds-with-webhooks.yaml").write_text(_lean(definitions))
    return made


def _copy(source: Path, target: Path) -> None:
    """The YAML files of a folder, which may be changed, other than those of a module, and without descriptions.

    Those of Ray alone are megabytes. A busy API server does not serve such definitions within the ten seconds that the
    specs wait for them.
    """
    target.mkdir(parents=True, exist_ok=True)
    for file in source.glob("*.yaml"):
        (target / file.name).write_text(_lean(file.read_text()))


def _lean(text: str) -> str:
    return "---\n".join(f"{json.dumps(_undescribed(one))}\n" for one in yaml.load_all(text, Loader=yaml.CSafeLoader))


def _undescribed(value: Any) -> Any:
    if isinstance(value, list):
        return [_undescribed(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: _undescribed(one) for name, one in value.items() if name != "description" or not isinstance(one, str)}


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ControlPlaneError(f"{' '.join(command[:3])} failed in {folder}:\n{done.stderr[-2000:]}")
    return done.stdout
