# SPDX-License-Identifier: Apache-2.0
"""Kueue's own specs for TrainJobs, with our definitions in the place of Kubeflow Trainer's, and with our manager.

`make soak SOAK_ARGS=kueue` runs them. The integration specs start API servers of their own, in which Kueue's
controllers run inside the test, and nobody acts on a TrainJob. The end-to-end specs run on a control plane with the
real controllers, scheduler and JobSet, with Kueue's manager and ours. Its nodes pretend, under the names and labels of
Kueue's clusters of kind, and pods end where agnhost would. Those specs wait until the Deployments of all managers are
available, so there are such, whose pods pretend, too.

Left out: `test/e2e/multikueue`, which needs three clusters that reach one another (the integration specs have
MultiKueue), and `test/e2e/upgrade`, which installs older versions of Kueue.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests import kueue
from tests.installation import UNSHARE, install, kustomized
from tests.pretending import pods_run_on
from tests.repository import ROOT
from tests.soak._kueue_build import PROJECT, SUITES, Suite, built
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.component import start_guarded
from trainwright.controller.runtime.testing.programs import pretend_nodes

LOGS = ROOT / "build" / "kueue-specs"
SUITE_SECONDS = 480.0
"""Longest time for one suite; they take a minute each, two on a busy machine."""
_ENDS = {"key": ".spec.containers.[].args.[]", "operator": "In", "values": ["entrypoint-tester"]}
"""Pods that agnhost would end at once; others run until they are deleted."""
_DEPLOYMENTS = {
    kueue.NAMESPACE: "kueue-controller-manager",
    "jobset-system": "jobset-controller-manager",
    "kubeflow-system": "kubeflow-trainer-controller-manager",
    "kubeflow": "training-operator",
    "mpi-operator": "mpi-operator",
    "appwrapper-system": "appwrapper-controller-manager",
    "lws-system": "lws-controller-manager",
    "default": "kuberay-operator",
}
"""Those for which the specs wait, also where they use nothing of the project; by namespace."""

Document = dict[str, Any]


@dataclass(frozen=True)
class Spec:
    """One spec that was chosen."""

    name: str
    passed: bool
    seconds: float
    why_not: str = ""
    """What failed, or why it skipped itself, which counts as not passed."""


def run_all() -> int:
    """Run every suite and print a line for each spec; gives exit code 1 if one did not pass, or a suite ran none."""
    try:
        folder = built()
        with _project(folder / PROJECT) as project:
            outcomes = [_run(suite, folder, project, {}) for suite in SUITES if not suite.on_cluster]
            with _cluster(folder / PROJECT) as cluster:
                there = {"KUBECONFIG": str(cluster.kubeconfig)}
                outcomes += [_run(suite, folder, project, there) for suite in SUITES if suite.on_cluster]
    except ControlPlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    specs = [spec for found, _ in outcomes for spec in found]
    print(f"{sum(spec.passed for spec in specs)} of {len(specs)} specs of Kueue passed")
    return 0 if all(went_well for _, went_well in outcomes) else 1


def _run(suite: Suite, folder: Path, project: Path, environment: Mapping[str, str]) -> tuple[list[Spec], bool]:
    """The specs of a suite, and whether there were some, all passed, and the suite ended well."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log, report = LOGS / f"{suite.program}.log", project / f"{suite.program}.json"
    options = {"json-report": report, "focus": suite.focus, "label-filter": suite.labels, "no-color": "true"}
    options["timeout"] = f"{SUITE_SECONDS:g}s"
    # Its API servers end with it, also where it could not stop them.
    alone = [*UNSHARE, "--mount-proc", "--pid", "--fork", "--kill-child"]
    command = [*alone, str(folder / suite.program), *(f"--ginkgo.{name}={value}" for name, value in options.items())]
    began = time.monotonic()
    with log.open("wb") as output:
        process, lifeline = start_guarded(
            command, output=output, errors=subprocess.STDOUT, environment={**_environment(project), **environment}
        )
        try:
            code = process.wait()
        finally:
            os.close(lifeline)  # if it still runs, its guard ends it now
            process.wait()
    specs = specs_of(json.loads(report.read_text())) if report.is_file() else []
    well = code == 0 and bool(specs) and all(spec.passed for spec in specs)
    print(f"{suite.package}: {len(specs)} specs in {time.monotonic() - began:.0f} s, exit code {code}", flush=True)
    for spec in specs:
        print(f"  {'passed' if spec.passed else 'FAILED'} {spec.seconds:5.1f} s  {spec.name}")
        if spec.why_not:
            print(f"         {spec.why_not}")
    if not well:
        print(f"  see {log}" if specs else f"  no spec ran: see {log}", flush=True)
    return specs, well


def specs_of(reports: list[Document]) -> list[Spec]:
    """The chosen specs of Ginkgo's JSON report; one that was not chosen is skipped without a reason."""
    found = [one for report in reports for one in report["SpecReports"] or () if one["LeafNodeType"] == "It"]
    specs = []
    for one in found:
        why_not = one.get("Failure", {}).get("Message", "")
        if one["State"] != "skipped" or why_not:
            name = " ".join([*one["ContainerHierarchyTexts"], one["LeafNodeText"]])
            passed = one["State"] == "passed"
            reason = "" if passed else f"{one['State']}: {why_not}"
            specs.append(Spec(name, passed, one["RunTime"] / 1e9, reason))
    return specs


@contextmanager
def _project(parts: Path) -> Iterator[Path]:
    """A folder as Kueue's checkout after `make dep-crds`, with our definitions, and programs for its API servers."""
    with tempfile.TemporaryDirectory(prefix="kueue-specs-") as made:
        project, assets = Path(made), Path(made) / "assets"
        (project / "config").symlink_to(parts / "config")
        (project / "dep-crds").mkdir()
        for folder in (parts / "dep-crds").iterdir():
            (project / "dep-crds" / folder.name).symlink_to(folder)
        (project / "dep-crds" / "kf-trainer-crds").symlink_to(ROOT / "config" / "crd")
        assets.mkdir()
        for name, path in provide(["etcd", "kube-apiserver", "kubectl"]).paths.items():
            (assets / name).symlink_to(path)
        yield project


def _environment(project: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PROJECT_DIR": str(project / "Makefile"),
        "KUBEBUILDER_ASSETS": str(project / "assets"),
        "ARTIFACTS": str(project / "artifacts"),
        "E2E_TEST_AGNHOST_IMAGE": "example.com/agnhost:1",
    }


@contextmanager
def _cluster(parts: Path) -> Iterator[ControlPlane]:
    """The whole chain with Kueue and our manager."""
    with ControlPlane(controller_manager=True, scheduler=True, jobset=True, kwok_nodes=1, audit=True) as plane:
        pods_run_on(plane, except_for=_ENDS)
        plane.apply(*_nodes(parts))
        plane.install_crds(ROOT / "config" / "crd")
        kueue.install(plane)
        install(plane).start()
        plane.apply(*kustomized(plane, "runtimes"), *_pretended_managers())
        kueue.start(plane, leaderElection={"leaderElect": True, "resourceNamespace": kueue.NAMESPACE})
        yield plane


def _nodes(parts: Path) -> Iterator[Document]:
    """The workers of Kueue's clusters; those of both are one cluster here."""
    labels: dict[str, dict[str, str]] = {}
    for file in ("kind-cluster.yaml", "kind-cluster-tas.yaml"):
        workers = [one for one in yaml.safe_load((parts / file).read_text())["nodes"] if one["role"] == "worker"]
        for number, worker in enumerate(workers, 1):
            labels.setdefault(f"kind-worker{number if number > 1 else ''}", {}).update(worker["labels"])
    for node, (name, own) in zip(pretend_nodes(len(labels)), labels.items(), strict=True):
        node["metadata"]["name"] = name
        node["metadata"]["labels"].update({**own, "kubernetes.io/hostname": name})
        yield node


def _pretended_managers() -> Iterator[Document]:
    """Deployments in the place of the managers, which run as processes, and what the specs read of Kueue's."""
    for namespace, name in _DEPLOYMENTS.items():
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        labels = {"pretends": name}
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "manager", "image": "none"}]}}
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod},
        }
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kueue-webhook-service", "namespace": kueue.NAMESPACE},
        "spec": {"selector": {"pretends": "kueue-controller-manager"}, "ports": [{"port": 443}]},
    }
    configuration = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config", "namespace": kueue.NAMESPACE},
        "data": {"controller_manager_config.yaml": json.dumps(configuration)},
    }


if __name__ == "__main__":
    sys.exit(run_all())
