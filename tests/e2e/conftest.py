# SPDX-License-Identifier: Apache-2.0
"""Our manager in the shared cluster, as config/ installs it, and the objects that its tests use."""

import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.installation import WITHOUT_ADMISSION, forbidden, install
from tests.local_chain import LocalChain
from tests.managers import MANAGER
from tests.rungs import LOCAL, REAL, is_local
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.audit import AuditedCall
from trainwright.controller.runtime.testing.waiting import eventually_sync
from trainwright.plugins.testing import replicated_job, runtime_document

NOWHERE = {"nodeSelector": {"example.com/nowhere": "yes"}}
"""Of a runtime's pods: no node has this label, so they wait for one, and the job stays on its way."""


LOCAL_CHAIN = pytest.param(LOCAL, marks=pytest.mark.local_is_enough)
REAL_CHAIN = pytest.param(REAL, marks=pytest.mark.real_control_plane("the whole chain"))
ON_BOTH = pytest.mark.parametrize("chain", [LOCAL_CHAIN, REAL_CHAIN], indirect=True, scope="session")
"""Runs tests on the local cluster, too: API server, controllers and node of ours."""


_LOG = pytest.StashKey[Path]()
"""Of the manager in the shared cluster, which is removed with the cluster."""
_LAST_LINES = 40


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the manager said last, where a test of the shared cluster has failed."""
    report = yield
    log = item.config.stash.get(_LOG, None)
    is_shared = bool({"manager", "chain"} & set(getattr(item, "fixturenames", ())))
    # There is no file any more at the teardown of the last test, with which the cluster itself ends.
    if report.failed and is_shared and log is not None and log.is_file():
        lines = log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        report.sections.append(("the manager's last lines", "\n".join(lines)))
    return report


class Trainer:
    """The cluster with our manager in it, as a user sees it from one namespace."""

    patience = 180.0
    """Seconds until an explanation has to be there."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._file: list[dict[str, Any]] | None = None

    def runtime(self, name: str, **pod: Any) -> str:
        """Create a TrainingRuntime with one container; `pod` holds more fields of its pods. Returns its name."""
        self.create("TrainingRuntime", name, runtime_document(name, replicated_job(pod=pod))["spec"])
        return name

    def job(self, name: str, runtime: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        """Create a TrainJob of a TrainingRuntime."""
        reference = {"kind": "TrainingRuntime", "name": runtime}
        self.create("TrainJob", name, {"runtimeRef": reference, **spec}, annotations)

    def create(
        self,
        kind: str,
        name: str,
        spec: dict[str, Any],
        annotations: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
    ) -> None:
        metadata: dict[str, Any] = {"name": name, "namespace": self.namespace}
        metadata |= {"annotations": annotations} if annotations else {}
        metadata |= {"labels": labels} if labels else {}
        document = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
        if self._file is not None:
            self._file.append(document)
        else:
            self.cluster.stored.create(document)

    @contextmanager
    def one_file(self) -> Iterator[None]:
        """What is created in the block is created when the block ends, in that order and without a pause."""
        self._file = []
        yield
        documents, self._file = self._file, None
        for document in documents:
            self.cluster.stored.create(document)

    def kubectl(self, *arguments: str) -> str:
        return self.cluster.kubectl("--namespace", self.namespace, *arguments)

    def patch(self, kind: str, name: str, body: object, **options: str) -> None:
        """See `Stored.patch`."""
        self.cluster.stored.patch(kind, name, body, self.namespace, **options)

    def delete(self, kind: str, name: str, *, cascade: str = "background") -> None:
        """Delete an object, and wait until it is gone."""
        self.cluster.stored.delete(kind, name, self.namespace, cascade=cascade)

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """The object, or None."""
        found = self.cluster.stored.get(kind, name, self.namespace)
        if found is not None:
            found["metadata"].pop("managedFields", None)
        return found

    def calls(self) -> list[AuditedCall]:
        """The calls of our manager to the API server. On the local cluster other controllers are in its process."""
        found = self.cluster.audit_log.calls(user_agent=MANAGER)
        return [call for call in found if "trainwright-local" not in call.user_agent]

    def pods(self) -> list[dict[str, Any]]:
        """All pods that are not on their way out."""
        found = self.cluster.stored.list("pods", self.namespace)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def conditions(self, name: str) -> dict[str, tuple[str, str]]:
        """Status and reason of each condition of a TrainJob, by type."""
        return conditions_of(self.get("trainjob", name) or {})

    def trainwright(self, *arguments: str) -> str:
        """Standard output of a command, for an administrator."""
        environment = {**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig)}
        command = [str(Path(sys.executable).parent / "trainwright"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout

    def explain(self, name: str) -> str:
        """What `trainwright explain` says, as an administrator without the manager's help."""
        return self.trainwright("explain", name, f"--namespace={self.namespace}")

    def told(self, name: str, *words: str) -> str:
        """Wait until the explanation has all of these words; returns it."""
        return eventually_sync(
            lambda: self.explain(name), lambda text: all(word in text for word in words), seconds=self.patience
        )


def conditions_of(document: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition of an object, by type."""
    found = document.get("status", {}).get("conditions", [])
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in found}


@pytest.fixture(scope="session")
def manager(cluster: ControlPlane, pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """The cluster, with what config/default installs and our manager, which has the rights of its role only."""
    # It leads all the time: a machine whose disk stalls for ten seconds must not end it under a hundred tests.
    election = {"leaderElect": True, "leaseDuration": "60s", "renewDeadline": "50s", "retryPeriod": "2s"}
    install(cluster).start(leaderElection=election)
    pytestconfig.stash[_LOG] = cluster.folder / f"{MANAGER}.log"
    yield cluster
    cluster.stop_program(MANAGER)
    # It may have looked well nonetheless: some calls are tried again, or done without.
    assert forbidden(cluster) == []


@pytest.fixture(scope="session")
def local_chain() -> Iterator[ControlPlane]:
    """The local cluster, which has our manager and all of config/."""
    with LocalChain(audit=True) as running:
        yield running


@pytest.fixture(scope="session")
def chain(request: pytest.FixtureRequest) -> ControlPlane:
    """A cluster with our manager: the one of the parameter, see ON_BOTH, or that of `--control-plane`."""
    wanted = getattr(request, "param", LOCAL if is_local(request.config) else REAL)
    name = "local_chain" if wanted == LOCAL else "manager"
    found: ControlPlane = request.getfixturevalue(name)
    return found


@pytest.fixture
def trainer(chain: ControlPlane) -> Trainer:
    """The cluster with our manager, and a namespace of the test's own."""
    return Trainer(chain, chain.create_namespace())


@pytest.fixture
def unadmitted(chain: ControlPlane) -> Trainer:
    """The same, but our webhooks are not called for this namespace, as before they are installed."""
    return Trainer(chain, chain.create_namespace(labels={WITHOUT_ADMISSION: "true"}))


@pytest.fixture
def own_trainer(pytestconfig: pytest.Config) -> Iterator[Trainer]:
    """A whole chain with our manager for one test alone, which may crash parts of it."""
    with ControlPlane.complete(crds=[pytestconfig.rootpath / "config" / "crd"], audit=True) as control_plane:
        # What a dead leader held is soon free.
        election = {"leaderElect": True, "leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}
        install(control_plane).start(leaderElection=election)
        yield Trainer(control_plane, control_plane.create_namespace())
