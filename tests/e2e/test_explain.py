# SPDX-License-Identifier: Apache-2.0
"""Seeded faults on the real control plane: each is caused as it would be, and the first sentence must be right.

All faults are planted side by side, each in a namespace of its own; those that stop what others need come last.
What a kubelet would report, and what Kueue and Volcano would write, is written by hand. A clock that is ahead skips the
patience of checks.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.installation import WITHOUT_ADMISSION, install, kustomized
from tests.repository import ROOT
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import name_of
from trainwright.api.times import format_time, wall_clock
from trainwright.api.volcano.v1beta1 import PodGroup
from trainwright.controller.cli.explain import explaining_plugins
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.client.discovery import Discovery
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.explain import Explanation, Reader
from trainwright.controller.trainer.explain.kinds import QUOTA

pytestmark = pytest.mark.parity

Document = dict[str, Any]
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
U: Document = {"nodeSelector": {"nowhere": "yes"}}
"""The pods find no node, so that their status can be written."""
NEVER: Document = {"restartPolicy": "Never"}


def anything(group: str, version: str, kind: str, plural: str, *, namespaced: bool = True) -> Document:
    """A definition of a foreign kind that takes any object."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [{**served, "subresources": {}}],
        },
    }


KUEUE = [
    anything("kueue.x-k8s.io", "v1beta2", "Workload", "workloads"),
    anything("kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues"),
    anything("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues", namespaced=False),
]


class Place:
    """One namespace with one job `j`."""

    def __init__(self, control_plane: ControlPlane, client: Client, namespace: str) -> None:
        self.control_plane = control_plane
        self.client = client
        self.discovery = Discovery(client)
        self.namespace = namespace

    async def create(self, kind: str, api_version: str, name: str, **fields: Any) -> Document:
        metadata = {"name": name, "namespace": self.namespace, **fields.pop("metadata", {})}
        document = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
        return await self.client.create(document, kind=await self.discovery.resource(api_version, kind))

    async def patch_pod(self, pod: Document, status: Document) -> None:
        """Write what a kubelet would."""
        patch = {"status": status}
        await self.client.patch(
            Pod.RESOURCE, name_of(pod), self.namespace, patch, type="strategic", subresource="status"
        )

    async def runtime(self, pod: Document | None = None, **more: Any) -> None:
        """A runtime with one replicated job `node`, whose pods have these fields."""
        job = more.pop("job", {})
        steps = more.pop("steps", ())
        replicated = [replicated_job(step, step, {**(pod or {})}, {}) for step in steps]
        node = replicated_job("node", "trainer", pod or {}, job)
        if steps:
            node["dependsOn"] = [{"name": step, "status": "Complete"} for step in steps]
        template = {"spec": {**more.pop("jobset", {}), "replicatedJobs": [*replicated, node]}}
        spec = {"mlPolicy": {"numNodes": 1}, "template": template, **more}
        await self.create("TrainingRuntime", "trainer.kubeflow.org/v1alpha1", "r", spec=spec)

    async def job(self, name: str = "j", *, nodes: int = 1, **spec: Any) -> Document:
        reference = {"kind": "TrainingRuntime", "name": "r"}
        trainer = {"numNodes": nodes, **spec.pop("trainer", {})}
        metadata = spec.pop("metadata", {})
        whole = {"runtimeRef": reference, "trainer": trainer, **spec}
        return await self.create("TrainJob", "trainer.kubeflow.org/v1alpha1", name, spec=whole, metadata=metadata)

    async def pods(self, number: int = 1) -> list[Document]:
        """The pods of the job as soon as there are so many."""

        async def look() -> list[Document]:
            selector = "jobset.sigs.k8s.io/jobset-name=j"
            found = (await self.client.list(Pod.RESOURCE, self.namespace, label_selector=selector)).items
            index = "batch.kubernetes.io/job-completion-index"
            return sorted(found, key=lambda pod: int(pod["metadata"]["labels"].get(index, 0)))

        return await eventually(look, lambda found: len(found) == number, what=f"{number} pods in {self.namespace}")

    async def held(self, status: Document, number: int = 1) -> None:
        """Bind the pods to a node that is not there, and write what its kubelet would."""
        for pod in await self.pods(number):
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name_of(pod), "namespace": self.namespace},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "gone"},
            }
            path = f"/api/v1/namespaces/{self.namespace}/pods/{name_of(pod)}/binding"
            headers = {"Content-Type": "application/json"}
            await self.client.send(Request("POST", path, {}, headers, json.dumps(binding).encode()))
            if status:
                await self.patch_pod(pod, status)


def replicated_job(name: str, step: str, pod: Document, job: Document) -> Document:
    container: Document = {"name": name, "image": "example.com/none", **pod.get("container", {})}
    spec = {key: value for key, value in pod.items() if key != "container"}
    template = {**job, "template": {"spec": {"containers": [container], **spec}}}
    return {"name": name, "template": {"metadata": {"labels": {STEP: step}}, "spec": template}}


def waiting(reason: str, message: str, *, restarts: int = 0, last: Document | None = None) -> Document:
    status: Document = {
        "name": "node",
        "image": "example.com/none",
        "imageID": "",
        "ready": False,
        "restartCount": restarts,
    }
    status["state"] = {"waiting": {"reason": reason, "message": message}}
    if last is not None:
        status["lastState"] = {"terminated": last}
    return {"containerStatuses": [status]}


def ended(code: int, *, reason: str = "Error", ago: float = 10) -> Document:
    finished = format_time(wall_clock() - timedelta(seconds=ago))
    state = {"exitCode": code, "reason": reason, "finishedAt": finished, "startedAt": finished}
    status = {"name": "node", "image": "example.com/none", "imageID": "", "ready": False, "restartCount": 0}
    return {"phase": "Failed", "containerStatuses": [{**status, "state": {"terminated": state}}]}


# ---------------------------------------------------------------------- the faults

Plant = Callable[[Place], Awaitable[None]]
FAULTS: dict[str, tuple[Plant, str, int, float]] = {}
"""By number: how it is caused, how the first sentence begins, the exit code, and the patience in seconds."""


def fault(number: int, sentence: str, code: int, *, patience: float = 0) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        FAULTS[str(number)] = (plant, sentence, code, patience)
        return plant

    return register


@fault(1, "RuntimeMissing: TrainingRuntime r does not exist in namespace", 1)
async def runtime_missing(place: Place) -> None:
    await place.job()


@fault(3, "QueueFull: the job waits in queue q: 8 more nvidia.com/gpu are needed than are unused now", 3)
async def queue_full(place: Place) -> None:
    await place.runtime(U)
    job = await place.job(suspend=True, metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}})
    await place.create("LocalQueue", "kueue.x-k8s.io/v1beta2", "q", spec={})
    owner = {"apiVersion": job["apiVersion"], "kind": "TrainJob", "name": "j", "uid": job["metadata"]["uid"]}
    message = (
        "couldn't assign flavors to pod set node: insufficient unused quota for nvidia.com/gpu in flavor f, "
        "8 more needed"
    )
    condition = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
    await place.create(
        "Workload",
        "kueue.x-k8s.io/v1beta2",
        "trainjob-j",
        metadata={"ownerReferences": [{**owner, "controller": True}]},
        spec={"queueName": "q"},
        status={"conditions": [condition]},
    )


@fault(15, "NameTooLong: the name jjjj", 1)
async def name_too_long(place: Place) -> None:
    await place.runtime(U)
    await place.job("j" * 60)


@fault(16, "NameTaken: JobSet j exists already and was not made for this job", 1)
async def name_taken(place: Place) -> None:
    job = {"template": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}], **U}}}}}
    spec = {"suspend": True, "replicatedJobs": [{"name": "other", **job}]}
    await place.create("JobSet", "jobset.x-k8s.io/v1alpha2", "j", spec=spec)
    await place.runtime(U)
    await place.job()


@fault(18, "BuildFailed: the MPI plugin refuses the job: ", 1)
async def plugin_refuses(place: Place) -> None:
    await place.runtime(U, mlPolicy={"numNodes": 1, "mpi": {"mpiImplementation": ""}})
    await place.job()


@fault(22, "JobNotCreated: JobSet cannot create Job j-node-0: a Job of that name exists", 1)
async def job_taken(place: Place) -> None:
    pod = {"containers": [{"name": "c", "image": "i"}], **U, **NEVER}
    await place.create("Job", "batch/v1", "j-node-0", spec={"template": {"spec": pod}})
    await place.runtime(U)
    await place.job()


@fault(24, "ServiceTaken: the nodes cannot find each other: Service j selects app=web", 1)
async def service_taken(place: Place) -> None:
    await place.create("Service", "v1", "j", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]})
    await place.runtime(U)
    await place.job(nodes=2)
    await place.held({}, 2)


@fault(27, "QuotaExceeded: 0 of 1 node pods could be created: ResourceQuota q allows 4 nvidia.com/gpu", 1)
async def quota_exceeded(place: Place) -> None:
    await place.create("ResourceQuota", "v1", "q", spec={"hard": {"requests.nvidia.com/gpu": "4"}})

    async def counted() -> object:
        quota = await place.client.get(QUOTA, "q", place.namespace)
        return quota.get("status", {}).get("hard")

    await eventually(counted)
    await place.runtime({"container": {"resources": {"limits": {"nvidia.com/gpu": "8"}}}, **U})
    await place.job()


@fault(28, "PodSecurityRefused: namespace ", 1)
async def pod_security(place: Place) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    await asyncio.to_thread(place.control_plane.kubectl, "label", "namespace", place.namespace, label)
    await place.runtime(U)
    await place.job()


@fault(34, "NoFreeNode: 1 of 1 pod waits for 8 nvidia.com/gpu: there are nodes of that size", 3, patience=10)
async def no_free_node(place: Place) -> None:
    pool = place.namespace
    room = {"cpu": "32", "memory": "64Gi", "pods": "10", "nvidia.com/gpu": "8"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": pool, "labels": {"pool": pool}, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"capacity": room, "allocatable": room},
    }
    await asyncio.to_thread(place.control_plane.apply, node)
    resources = {"limits": {"nvidia.com/gpu": "8"}}
    container = {"name": "c", "image": "i", "resources": resources}
    await place.create("Pod", "v1", "full", spec={"nodeSelector": {"pool": pool}, "containers": [container]})

    async def bound() -> object:
        return (await place.client.get(Pod.RESOURCE, "full", place.namespace))["spec"].get("nodeName")

    await eventually(bound, what="a node for the pod that fills it")
    await place.runtime({"container": {"resources": resources}, "nodeSelector": {"pool": pool}})
    await place.job()


@fault(35, "NodesTooSmall: no node has 5k nvidia.com/gpu (the largest has 1k)", 1, patience=10)
async def nodes_too_small(place: Place) -> None:
    await place.runtime({"container": {"resources": {"limits": {"nvidia.com/gpu": "5000"}}}})
    await place.job()


@fault(36, "NoNodeMatches: no node has the label nowhere=yes, which the runtime asks for", 1, patience=10)
async def no_node_matches(place: Place) -> None:
    await place.runtime(U)
    await place.job(nodes=2)


@fault(38, "ClaimMissing: PersistentVolumeClaim data does not exist in namespace", 1, patience=10)
async def claim_missing(place: Place) -> None:
    await place.runtime({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]})
    await place.job()


@fault(40, "SchedulerMissing: no scheduler has looked at 1 of 1 pod: their schedulerName is volcano", 1, patience=60)
async def scheduler_missing(place: Place) -> None:
    await place.runtime({"schedulerName": "volcano"})
    await place.job()


@fault(42, "GangDoesNotFit: all 2 pods have to start at the same time", 3, patience=10)
async def gang_does_not_fit(place: Place) -> None:
    await place.runtime({"schedulerName": "volcano"}, podGroupPolicy={"volcano": {}})
    await place.job(nodes=2)
    await place.pods(2)
    message = "2/2 tasks in gang unschedulable\n1 node is too small"
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": message}
    condition |= {"lastTransitionTime": format_time(wall_clock()), "transitionID": "x"}
    status = {"status": {"phase": "Pending", "conditions": [condition]}}
    await place.client.patch(PodGroup.RESOURCE, "j", place.namespace, status)


@fault(44, "GangCannotForm: the gang wants 3 pods at once, and 2 of them are created only after dataset-initializer", 1)
async def gang_cannot_form(place: Place) -> None:
    await place.runtime(U, steps=("dataset-initializer",), podGroupPolicy={"coscheduling": {}})
    await place.job(nodes=2)
    await place.pods(1)


@fault(46, "ImageMissing: 4 of 4 pods cannot pull example.com/none:v9: there is no such image or tag", 1)
async def image_missing(place: Place) -> None:
    await place.runtime(U)
    await place.job(nodes=4, trainer={"image": "example.com/none:v9"})
    message = 'Back-off pulling image "example.com/none:v9": ErrImagePull: rpc error: example.com/none:v9: not found'
    await place.held(waiting("ImagePullBackOff", message), 4)


@fault(49, "VariableSourceMissing: variable TOKEN of container node comes from Secret s, which has no key k", 1)
async def variable_source_missing(place: Place) -> None:
    reference = {"secretKeyRef": {"name": "s", "key": "k"}}
    await place.runtime({"container": {"env": [{"name": "TOKEN", "valueFrom": reference}]}, **U})
    await place.job()
    await place.held(waiting("CreateContainerConfigError", f"couldn't find key k in Secret {place.namespace}/s"))


@fault(52, "InitializerFailed: init container fetch of rank 0 failed with exit code 1, so training has not begun", 1)
async def init_container_fails(place: Place) -> None:
    await place.runtime({"initContainers": [{"name": "fetch", "image": "i"}], **U, **NEVER})
    await place.job()
    status = ended(1)["containerStatuses"][0] | {"name": "fetch"}
    await place.held({"initContainerStatuses": [status], **waiting("PodInitializing", "")})


@fault(55, "OutOfMemory: rank 2 was killed for memory (OOMKilled, exit code 137): container node may use 16Gi", 1)
async def out_of_memory(place: Place) -> None:
    container = {"resources": {"limits": {"memory": "16Gi"}}}
    await place.runtime({"container": container, **U, **NEVER}, job={"backoffLimit": 9})
    await place.job(nodes=4)
    pods = await place.pods(4)
    await place.patch_pod(pods[2], ended(137, reason="OOMKilled"))


@fault(56, "RankFailed: rank 3 failed with exit code 1; 3 others were stopped after it", 1)
async def rank_fails(place: Place) -> None:
    await place.runtime({**U, **NEVER}, job={"backoffLimit": 9})
    await place.job(nodes=4)
    for index, pod in enumerate(await place.pods(4)):
        status = ended(1, ago=12) if index == 3 else ended(143, ago=10)
        await place.patch_pod(pod, status)


@fault(57, "CrashLoop: container node of rank 0 has failed 4 times, last with exit code 1; after 6", 1)
async def crash_loop(place: Place) -> None:
    await place.runtime({**U, "restartPolicy": "OnFailure"})
    await place.job()
    last = ended(1)["containerStatuses"][0]["state"]["terminated"]
    await place.held({"phase": "Running", **waiting("CrashLoopBackOff", "back-off", restarts=4, last=last)})


@fault(58, "Preempted: rank 1 had to give way to a pod of higher priority", 3)
async def preempted(place: Place) -> None:
    await place.runtime({**U, **NEVER}, job={"backoffLimit": 9})
    await place.job(nodes=2)
    running: Document = {"name": "node", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
    running["state"] = {"running": {"startedAt": format_time(wall_clock())}}
    ready = {"type": "Ready", "status": "True"}
    await place.held({"phase": "Running", "conditions": [ready], "containerStatuses": [running]}, 2)
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    pods = await place.pods(2)
    status = {**ended(143), "conditions": [target, {**ready, "status": "False"}]}
    await place.patch_pod(pods[1], status)


@fault(60, "NodeLost: node gone, on which rank 0 ran, does not exist any more; the pod is made again", 3)
async def node_lost(place: Place) -> None:
    await place.runtime({**U, **NEVER}, job={"backoffLimit": 9})
    await place.job()
    await place.held({})


@fault(62, "RestartsExhausted: the job failed after 4 attempts; the last: rank 0 failed with exit code 1", 1)
async def restarts_exhausted(place: Place) -> None:
    policy = {"failurePolicy": {"maxRestarts": 3}}
    await place.runtime({**U, **NEVER}, job={"backoffLimit": 0}, jobset=policy)
    await place.job()
    for attempt in range(4):

        async def present(attempt: int = attempt) -> Document | None:
            selector = f"jobset.sigs.k8s.io/jobset-name=j,jobset.sigs.k8s.io/restart-attempt={attempt}"
            found = (await place.client.list(Pod.RESOURCE, place.namespace, label_selector=selector)).items
            return found[0] if found else None

        pod = await eventually(present, what=f"attempt {attempt}")
        assert pod is not None
        await place.patch_pod(pod, ended(1))


@fault(63, "DeadlineExceeded: the job ran out of its time of 1 s (spec.activeDeadlineSeconds)", 1)
async def deadline(place: Place) -> None:
    await place.runtime(U)
    await place.job(activeDeadlineSeconds=1)


# ---------------------------------------------------------------------- those that stop what others need


@fault(
    14, "ManagerForbidden: the manager (kubeflow-system/kubeflow-trainer-controller-manager) may not patch jobsets", 1
)
async def manager_forbidden(place: Place) -> None:
    await place.runtime(U)
    await asyncio.to_thread(take_patch_of_jobsets, place.control_plane)
    await place.job()


@fault(13, "WebhookUnreachable: jobsets/j cannot be made: webhook mjobset.kb.io does not answer; is the JobSet", 3)
async def webhook_unreachable(place: Place) -> None:
    await asyncio.to_thread(give_rights, place.control_plane)
    await place.runtime(U)
    await asyncio.to_thread(place.control_plane.stop_program, "jobset-manager")
    await place.job()


@fault(21, "JobSetControllerSilent: JobSet j exists and the JobSet controller has not looked at it", 1, patience=60)
async def jobset_controller_silent(place: Place) -> None:
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        listed = json.loads(place.control_plane.kubectl("get", kind, "--output=json"))["items"]
        for one in listed:
            if "jobset" in one["metadata"]["name"]:
                place.control_plane.kubectl("delete", kind, one["metadata"]["name"])
    await place.runtime(U)
    await place.job()


LAST = ("14", "13", "21")
"""In this order, after all others."""


def take_patch_of_jobsets(control_plane: ControlPlane) -> None:
    """Take the right from the manager's roles."""
    for role in json.loads(control_plane.kubectl("get", "clusterroles", "--output=json"))["items"]:
        name, rules = role["metadata"]["name"], role.get("rules") or []
        hit = [rule for rule in rules if "kubeflow" in name and "jobsets" in rule.get("resources", ())]
        for rule in hit:
            rule["verbs"] = [verb for verb in rule["verbs"] if verb != "patch"]
        if hit:
            patch = json.dumps({"rules": rules})
            control_plane.kubectl("patch", "clusterrole", name, "--type=merge", "--patch", patch)


def give_rights(control_plane: ControlPlane) -> None:
    """Install the manager's roles as they are."""
    roles = [one for one in kustomized(control_plane, "default") if one["kind"] == "ClusterRole"]
    control_plane.kubectl("replace", "--filename=-", stdin="\n---\n".join(map(json.dumps, roles)))


# ---------------------------------------------------------------------- planting and asking


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Client]:
    transport = HTTPTransport(load_config(kubeconfig))
    try:
        yield Client(transport)
    finally:
        await transport.close()


async def told(place: Place, number: str) -> Explanation:
    """Plant one fault, and ask until the sentence is the expected one."""
    plant, sentence, _, patience = FAULTS[number]
    await plant(place)
    reader = Reader(
        place.client, explaining_plugins(), now=lambda: wall_clock() + timedelta(seconds=patience and patience + 1)
    )
    name = "j" * 60 if number == "15" else "j"

    async def look() -> Explanation:
        return await reader.explain(place.namespace, name)

    return await eventually(look, lambda found: said(found).startswith(sentence), seconds=60, what=f"fault {number}")


def said(found: Explanation) -> str:
    return f"{found.cause.reason}: {found.cause.message}"


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest) -> Iterator[dict[str, Explanation | BaseException]]:
    """What is said of each fault that a test of this run asks for."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    asked = {str(item.callspec.params["number"]) for item in items if "number" in item.fixturenames}
    crds = [ROOT / "config" / "crd", *sorted((ROOT / "tests" / "conformance" / "crds").glob("*.yaml"))]
    with ControlPlane.complete(crds=crds) as control_plane:
        control_plane.apply(*KUEUE)
        install(control_plane).start()
        yield asyncio.run(all_told(control_plane, asked))


async def all_told(control_plane: ControlPlane, asked: Collection[str]) -> dict[str, Explanation | BaseException]:
    async with connected(control_plane.kubeconfig) as client:

        async def one(number: str) -> Explanation:
            labels = {WITHOUT_ADMISSION: "true"}
            namespace = await asyncio.to_thread(control_plane.create_namespace, f"fault-{number}", labels=labels)
            return await told(Place(control_plane, client, namespace), number)

        first = [number for number in FAULTS if number in asked and number not in LAST]
        limit = asyncio.Semaphore(8)

        async def limited(number: str) -> Explanation:
            async with limit:
                return await one(number)

        found = await asyncio.gather(*map(limited, first), return_exceptions=True)
        answers = dict(zip(first, found, strict=True))
        for number in [number for number in LAST if number in asked]:
            (answers[number],) = await asyncio.gather(one(number), return_exceptions=True)
        return answers


@pytest.mark.parametrize("number", list(FAULTS))
def test_the_first_sentence_is_right(answers: dict[str, Explanation | BaseException], number: str) -> None:
    found = answers[number]
    if isinstance(found, BaseException):
        raise found
    assert said(found).startswith(FAULTS[number][1])
    assert found.exit_code == FAULTS[number][2], said(found)
    assert found.unread == ()


def test_12_jobset_is_not_installed(control_plane: ControlPlane, namespace: str) -> None:
    async def explained() -> Explanation:
        async with connected(control_plane.kubeconfig) as client:
            place = Place(control_plane, client, namespace)
            await place.runtime(U)
            await place.job()
            return await Reader(client).explain(namespace, "j")

    found = asyncio.run(explained())
    assert said(found).startswith("JobSetMissing: JobSet is not installed in this cluster")
    assert found.exit_code == 1
