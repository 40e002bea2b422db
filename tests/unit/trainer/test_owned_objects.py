# SPDX-License-Identifier: Apache-2.0
"""What a job owns is made again when it is deleted, for each plugin and each kind.

When all is quiet, what is stored is what a manager that starts then would apply: it has nothing to write.
"""

from typing import Any

import pytest

from tests.repository import ROOT
from tests.virtual_trainer import VirtualTrainer
from trainwright.api.config.v1alpha1 import StatusServer
from trainwright.api.kubernetes.core.v1 import Namespace, Secret
from trainwright.api.objects import Document, controller_of, name_of, uid_of
from trainwright.controller.runtime.testing.objects import build, config_map
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.simulation.virtual import VirtualCluster
from trainwright.controller.trainer.build import objects
from trainwright.plugins.testing import replicated_job, runtime_document

pytestmark = pytest.mark.virtual_cluster(crds=[ROOT / "config" / "crd", ROOT / "tests" / "conformance" / "crds"])
GROUPS = {"coscheduling": "podgroups.scheduling.x-k8s.io", "volcano": "podgroups.scheduling.volcano.sh"}
KINDS = ("secrets", "jobsets", "configmaps", *GROUPS.values())
QUIET_SECONDS = 60.0


def runtime(space: str, *jobs: Document, **spec: Any) -> Document:
    made = runtime_document("runtime", *jobs, namespace=space, **spec)
    made["spec"]["mlPolicy"]["numNodes"] = 2
    made["spec"]["template"]["metadata"] = {"annotations": {"of": "the runtime"}}
    return made


MPI = {"mpi": {"mpiImplementation": "OpenMPI", "runLauncherAsNode": True}}
RUNTIMES: dict[str, Any] = {
    "torch": {"policy": {"torch": {}}},
    "coscheduling": {"podGroupPolicy": {"coscheduling": {}}},
    "volcano": {"podGroupPolicy": {"volcano": {}}},
    "mpi": {"jobs": (replicated_job("launcher", step="trainer"), replicated_job()), "policy": MPI},
    "flux": {"policy": {"flux": {}}},
    "tune": {"policy": {"torch": {}}},
}
COMMON = {"configmaps job-tls-config", "configmaps job-runtime-snapshot", "jobsets job"}
MADE = {
    "torch": COMMON,
    **{name: COMMON | {f"{kind} job"} for name, kind in GROUPS.items()},
    "mpi": COMMON | {"configmaps job-mpi-hostfile", "secrets job-mpi-ssh-auth"},
    "flux": COMMON | {"configmaps job-flux-entrypoint", "secrets job-flux-curve"},
    "tune": COMMON | {"configmaps job-progress-writer"},
}
"""Kind and name of what a job of each runtime owns."""


class Life:
    """A job of a runtime in a namespace of its own."""

    def __init__(self, trainer: VirtualTrainer, name: str, space: str) -> None:
        self.trainer, self.stored, self.name, self.space = trainer, trainer.stored, name, space
        if self.stored.get("namespace", space) is None:
            self.stored.create(build(Namespace.RESOURCE, space))

    def job(self, **spec: Any) -> None:
        shape = {**RUNTIMES[self.name]}
        made = runtime(self.space, *shape.pop("jobs", ()), **shape)
        self.stored.create(made)
        spec["runtimeRef"], marks = {"name": "runtime", "kind": "TrainingRuntime"}, None
        if self.name == "tune":
            spec["trainer"], marks = {"command": ["tune", "run"]}, {"trainwright.dev/progress": "file"}
        self.trainer.job(namespace=self.space, annotations=marks, **spec)

    def owned(self) -> dict[str, Document]:
        """What the job owns, by kind and name."""
        found = {}
        for kind in KINDS:
            for obj in self.stored.list(kind, self.space):
                owner = controller_of(obj)
                if owner is not None and owner.name == "job":
                    found[f"{kind} {name_of(obj)}"] = obj
        return found

    def quiet(self) -> None:
        self.trainer.advance(QUIET_SECONDS)

    def delete(self, what: str) -> None:
        kind, name = what.split()
        self.stored.delete(kind, name, self.space)


def start(trainer: VirtualTrainer) -> None:
    gates = {"TrainJobStatus": True, "ProgressPull": True}
    trainer.start(feature_gates=gates, status_server=StatusServer(port=free_port()))


def nothing_is_left_to_do(trainer: VirtualTrainer, *lives: Life) -> None:
    """A manager that starts now changes nothing."""

    def versions() -> list[tuple[str, str, str]]:
        return [
            (life.space, what, obj["metadata"]["resourceVersion"])
            for life in lives
            for what, obj in life.owned().items()
        ]

    trainer.cluster.kill(trainer.replica)
    before = versions()
    start(trainer)
    trainer.advance(QUIET_SECONDS)
    assert versions() == before


@pytest.fixture
def trainer(virtual_cluster: VirtualCluster) -> VirtualTrainer:
    """What the status server is verified with is there."""
    trainer = VirtualTrainer(virtual_cluster)
    trainer.stored.create(build(Namespace.RESOURCE, "kubeflow-system"))
    certificate = {"ca.crt": "Y2VydGlmaWNhdGU="}
    trainer.stored.create(build(Secret.RESOURCE, "kubeflow-trainer-webhook-cert", "kubeflow-system", data=certificate))
    return trainer


@pytest.mark.parametrize("name", RUNTIMES)
def test_each_object_of_a_job_is_made_again_and_put_right(name: str, trainer: VirtualTrainer) -> None:
    start(trainer)
    lives = [Life(trainer, name, space) for space in ("deleted-twice", "deleted-after-a-change", "changed")]
    deleted_twice(lives[0])
    deleted_after_a_change(lives[1])
    changed_while_suspended(lives[2])
    nothing_is_left_to_do(trainer, *lives)


def made(life: Life) -> set[str]:
    life.job()
    life.quiet()
    assert set(life.owned()) == MADE[life.name]
    return MADE[life.name]


def deleted(life: Life, what: str) -> None:
    life.delete(what)
    if what.startswith("secrets"):
        # The manager may not see Secrets. It makes them again when pods of the job are to start.
        life.delete("jobsets job")
    life.quiet()
    assert set(life.owned()) == MADE[life.name], f"{life.space}: after {what} was deleted"


def deleted_twice(life: Life) -> None:
    # The first of them in a new life is the PodGroup, if there is one.
    for what in sorted(made(life), key=lambda one: (not one.startswith("podgroups"), one)):
        deleted(life, what)
        deleted(life, what)


def deleted_after_a_change(life: Life) -> None:
    for what in sorted(made(life)):
        changed = what.replace(" ", ".").lower()
        life.stored.patch("trainjob", "job", {"metadata": {"labels": {"changed": changed}}}, life.space)
        life.quiet()
        deleted(life, what)


def changed_while_suspended(life: Life) -> None:
    life.job(suspend=True)
    life.quiet()
    before = life.owned()
    for _ in range(2):
        # The second time, what is seen is what was seen before it was put right.
        for what, obj in before.items():
            if change := change_of(what, obj):
                kind, name = what.split()
                life.stored.patch(kind, name, change, life.space)
        life.quiet()
        assert {what: content(obj) for what, obj in life.owned().items()} == {
            what: content(obj) for what, obj in before.items()
        }


def change_of(what: str, obj: Document) -> Document:
    """A patch of what the manager sets of an object and may set again while its job is suspended."""
    if what.startswith("configmaps") and not what.endswith("-runtime-snapshot"):
        return {"data": dict.fromkeys(obj["data"], "other")}
    if what.startswith("jobsets"):
        return {"metadata": {"annotations": {"of": "somebody else"}}}
    return {"spec": {"minMember": 7}} if what.startswith("podgroups") else {}


def content(obj: Document) -> Document:
    """What a user of the object sees of it."""
    kept = {name: value for name, value in obj.items() if name not in {"metadata", "status"}}
    return {**kept, **{name: obj["metadata"].get(name) for name in ("labels", "annotations", "ownerReferences")}}


@pytest.mark.parametrize(("name", "kind"), GROUPS.items())
def test_a_podgroup_of_somebody_else_is_used_until_it_goes(name: str, kind: str, trainer: VirtualTrainer) -> None:
    life = Life(trainer, name, "default")
    version = "v1alpha1" if name == "coscheduling" else "v1beta1"
    theirs = {"apiVersion": f"{kind.partition('.')[2]}/{version}", "kind": "PodGroup", "spec": {"minMember": 1}}
    life.stored.create({**theirs, "metadata": {"name": "job", "namespace": "default"}})
    start(trainer)
    life.job()
    life.quiet()
    assert "jobsets job" in life.owned()
    assert f"{kind} job" not in life.owned()
    assert life.stored.wait(kind, "job", namespace="default")["spec"]["minMember"] == 1
    life.delete(f"{kind} job")
    life.quiet()
    assert life.owned()[f"{kind} job"]["spec"]["minMember"] == 2
    nothing_is_left_to_do(trainer, life)


@pytest.mark.parametrize(
    ("name", "secret", "others"),
    [
        ("mpi", "job-mpi-ssh-auth", []),
        ("flux", "job-flux-curve", []),
        ("mpi", "job-mpi-ssh-auth", ["job-mpi-hostfile"]),
    ],
)
def test_the_secret_of_a_deleted_job_of_that_name_is_waited_out(
    name: str, secret: str, others: list[str], trainer: VirtualTrainer
) -> None:
    start(trainer)
    life = Life(trainer, name, "default")
    gone = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "job", "uid": "x"}}
    earlier = life.stored.create(build(Secret.RESOURCE, secret, owner=gone))
    for other in others:
        life.stored.create(config_map(other, owner=gone))
    life.job()
    for other in others:
        # The first build has met it: the garbage collector takes it before the Secret.
        trainer.advance(1)
        assert "jobsets job" not in life.owned()
        life.delete(f"configmaps {other}")
    trainer.advance(objects.SETTLE_SECONDS - 1.5)
    # All ConfigMaps are there, and the Secret of the deleted job is not used.
    assert {*life.owned()} - {f"secrets {secret}"} == MADE[name] - {f"secrets {secret}", "jobsets job"}
    life.delete(f"secrets {secret}")
    life.quiet()
    assert set(life.owned()) == MADE[name]
    assert uid_of(life.owned()[f"secrets {secret}"]) != uid_of(earlier)
    nothing_is_left_to_do(trainer, life)
