# SPDX-License-Identifier: Apache-2.0

"""The documents that are put both to an API server and to offline validation.

`wrong` names the fields that an error must speak of; an empty tuple means that the document is accepted. A case with
`old` is an update of that document.
"""

import copy
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

DEFAULT_MANAGER = "trainer.kubeflow.org/trainjob-controller"
POD = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec"
CONTAINER = {"name": "node", "image": "image"}


@dataclass(frozen=True)
class Case:
    """One document, or one change of a document, and what is wrong with it."""

    name: str
    document: Json
    wrong: tuple[str, ...] = ()
    old: Json | None = None
    subresource: str = ""


def job(name: str = "job", /, **spec: Any) -> Json:
    """A TrainJob."""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {"runtimeRef": {"name": "torch"}, **spec},
    }


def runtime(kind: str = "TrainingRuntime", /, **spec: Any) -> Json:
    """A runtime of either kind."""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": kind,
        "metadata": {"name": "runtime"},
        "spec": {"template": {"spec": {}}, **spec},
    }


def patch(manager: str = "example.com/one", **pod: Any) -> Json:
    """An entry of runtimePatches that patches the pods of `node`."""
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


def patched(**pod: Any) -> Json:
    """A TrainJob with one such entry."""
    return job(runtimePatches=[patch(**pod)])


def jobset(**spec: Any) -> Json:
    """A runtime with this JobSet."""
    return runtime(template={"spec": spec})


def replicated(name: str = "node", **more: Any) -> Json:
    """A replicated job with one container."""
    return {"name": name, "template": {"spec": {"template": {"spec": {"containers": [CONTAINER]}}}}, **more}


def pods(**pod: Any) -> Json:
    """A runtime whose pods say this."""
    whole = {"containers": [CONTAINER], **pod}
    return jobset(replicatedJobs=[{"name": "node", "template": {"spec": {"template": {"spec": whole}}}}])


def container(**words: Any) -> Json:
    """A runtime whose container says this."""
    return pods(containers=[{**CONTAINER, **words}])


def without(document: Json, *path: str) -> Json:
    """A copy without one field."""
    made = copy.deepcopy(document)
    inner = made
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return made


def with_value(document: Json, value: Any, *path: str) -> Json:
    """A copy with one field set."""
    made = copy.deepcopy(document)
    inner = made
    for step in path[:-1]:
        inner = inner.setdefault(step, {})
    inner[path[-1]] = value
    return made


_POLICY = "spec.mlPolicy"
_POD_IN_RUNTIME = "spec.template.spec.replicatedJobs[0].template.spec.template.spec"
_COUNTERS = {"active": 0, "failed": 0, "ready": 1, "succeeded": 0, "suspended": 0}
_CONDITION = {
    "type": "Suspended",
    "status": "True",
    "reason": "Suspended",
    "message": "",
    "lastTransitionTime": "2026-11-20T08:30:00Z",
}
_CLAIM: Json = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
_VALUE_FROM = {
    "fileKeyRef": {"key": "k", "path": "p", "volumeName": "v"},
    "configMapKeyRef": {"key": "k"},
    "secretKeyRef": {"key": "k"},
}


def trainjob_cases() -> list[Case]:
    """TrainJobs that are created."""
    many = [{"name": f"E{index}"} for index in range(129)]
    return [
        Case("minimal", job()),
        Case("no spec", without(job(), "spec")),
        Case("empty spec", with_value(job(), {}, "spec"), ("spec.runtimeRef",)),
        Case("null spec", with_value(job(), None, "spec")),
        Case("unknown field in spec", job(nonsense=1)),
        Case("unknown field at the root", {**job(), "nonsense": {"a": 1}}),
        Case("unknown field in a patch", patched(nonsense=True)),
        Case("status is ignored", {**job(), "status": {"jobsStatus": [{"name": "x"}]}}),
        Case("name with capital", job("Job"), ("metadata.name", "")),
        Case("name that begins with a digit", job("1job"), ("",)),
        Case("name with a dot", job("a.b"), ("",)),
        Case("name that ends with a dash", job("job-"), ("metadata.name", "")),
        Case("name of 63", job("a" * 63)),
        Case("name of 64", job("a" * 64), ("",)),
        Case("no name", without(job(), "metadata", "name"), ("metadata.name",)),
        Case("label value too long", with_value(job(), {"a": "b" * 64}, "metadata", "labels"), ("metadata.labels",)),
        Case("label key wrong", with_value(job(), {"a/b/c": "b"}, "metadata", "labels"), ("metadata.labels",)),
        Case("labels", with_value(job(), {"example.com/a": "b"}, "metadata", "labels")),
        Case("runtimeRef null", job(runtimeRef=None), ("spec.runtimeRef",)),
        Case("runtimeRef without name", job(runtimeRef={}), ("spec.runtimeRef.name",)),
        Case("runtimeRef empty name", job(runtimeRef={"name": ""}), ("spec.runtimeRef.name",)),
        Case("runtimeRef long name", job(runtimeRef={"name": "a" * 254}), ("spec.runtimeRef.name",)),
        Case("runtimeRef other kind", job(runtimeRef={"name": "a", "kind": "Other", "apiGroup": "x"})),
        Case("runtimeRef null kind", job(runtimeRef={"name": "a", "kind": None})),
        Case("runtimeRef long kind", job(runtimeRef={"name": "a", "kind": "K" * 254}), ("spec.runtimeRef.kind",)),
        Case(
            "runtimeRef long group", job(runtimeRef={"name": "a", "apiGroup": "g" * 254}), ("spec.runtimeRef.apiGroup",)
        ),
        Case("suspend", job(suspend=True)),
        Case("suspend null", job(suspend=None)),
        Case("suspend text", job(suspend="true"), ("spec.suspend",)),
        Case("managed by Kueue", job(managedBy="kueue.x-k8s.io/multikueue")),
        Case("managed by us", job(managedBy=DEFAULT_MANAGER)),
        Case("managed by nobody", job(managedBy=""), ("spec.managedBy",)),
        Case("managed by another", job(managedBy="example.com/other"), ("spec.managedBy",)),
        Case("managed by too long", job(managedBy="m" * 254), ("spec.managedBy",)),
        Case("deadline", job(activeDeadlineSeconds=1)),
        Case("deadline zero", job(activeDeadlineSeconds=0), ("spec.activeDeadlineSeconds",)),
        Case("deadline beyond int32", job(activeDeadlineSeconds=2**40)),
        Case("deadline fraction", job(activeDeadlineSeconds=1.5), ("spec.activeDeadlineSeconds",)),
        Case("trainer empty", job(trainer={})),
        Case("trainer null", job(trainer=None)),
        Case("trainer list", job(trainer=[]), ("spec.trainer",)),
        Case("nodes zero", job(trainer={"numNodes": 0})),
        Case("nodes negative", job(trainer={"numNodes": -1}), ("spec.trainer.numNodes",)),
        Case("nodes text", job(trainer={"numNodes": "2"}), ("spec.trainer.numNodes",)),
        Case("nodes bool", job(trainer={"numNodes": True}), ("spec.trainer.numNodes",)),
        Case("nodes beyond int32", job(trainer={"numNodes": 2**31}), ("spec.trainer.numNodes",)),
        Case("processes one", job(trainer={"numProcPerNode": 1})),
        Case("processes zero", job(trainer={"numProcPerNode": 0}), ("spec.trainer.numProcPerNode",)),
        Case("processes auto", job(trainer={"numProcPerNode": "auto"}), ("spec.trainer.numProcPerNode",)),
        Case("image", job(trainer={"image": "i" * 500, "command": ["a"], "args": ["b", "b"]})),
        Case("image too long", job(trainer={"image": "i" * 501}), ("spec.trainer.image",)),
        Case("command too many", job(trainer={"command": ["a"] * 129}), ("spec.trainer.command",)),
        Case("args too many", job(trainer={"args": ["a"] * 129}), ("spec.trainer.args",)),
        Case("args null item", job(trainer={"args": ["a", None]}), ("spec.trainer.args[1]",)),
        Case("env", job(trainer={"env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": _VALUE_FROM}]})),
        Case("env too many", job(trainer={"env": many}), ("spec.trainer.env",)),
        Case("env twice", job(trainer={"env": [{"name": "A"}, {"name": "A"}]}), ("spec.trainer.env[1]",)),
        Case("env without name", job(trainer={"env": [{"value": "1"}]}), ("spec.trainer.env[0].name",)),
        Case("env numeric value", job(trainer={"env": [{"name": "A", "value": 1}]}), ("spec.trainer.env[0].value",)),
        Case("resources", job(trainer={"resourcesPerNode": {"limits": {"cpu": 1, "memory": "1.5Gi"}}})),
        Case(
            "resources wrong quantity",
            job(trainer={"resourcesPerNode": {"limits": {"cpu": "lots"}}}),
            ("spec.trainer.resourcesPerNode.limits.cpu",),
        ),
        Case(
            "resource claims twice",
            job(trainer={"resourcesPerNode": {"claims": [{"name": "a"}, {"name": "a"}]}}),
            ("spec.trainer.resourcesPerNode.claims[1]",),
        ),
        Case("dataset", job(initializer={"dataset": {"storageUri": "hf://a/b", "secretRef": {}}})),
        Case("dataset empty source", job(initializer={"dataset": {"storageUri": ""}})),
        Case(
            "dataset no scheme",
            job(initializer={"dataset": {"storageUri": "a/b"}}),
            ("spec.initializer.dataset.storageUri",),
        ),
        Case(
            "dataset bare scheme",
            job(initializer={"dataset": {"storageUri": "hf://"}}),
            ("spec.initializer.dataset.storageUri",),
        ),
        Case(
            "dataset scheme with digit",
            job(initializer={"dataset": {"storageUri": "3f://a"}}),
            ("spec.initializer.dataset.storageUri",),
        ),
        Case(
            "dataset long source",
            job(initializer={"dataset": {"storageUri": "hf://" + "a" * 2044}}),
            ("spec.initializer.dataset.storageUri",),
        ),
        Case("dataset env too many", job(initializer={"dataset": {"env": many}}), ("spec.initializer.dataset.env",)),
        Case("model", job(initializer={"model": {"storageUri": "s3+x.y-z://a", "secretRef": {"name": "s"}}})),
        Case(
            "model no scheme",
            job(initializer={"model": {"storageUri": "://a"}}),
            ("spec.initializer.model.storageUri",),
        ),
        Case(
            "model env twice",
            job(initializer={"model": {"env": [{"name": "A"}] * 2}}),
            ("spec.initializer.model.env[1]",),
        ),
        Case("patch", patched(nodeSelector={"a": "b"}, tolerations=[{"key": "k"}])),
        Case("patch null time", job(runtimePatches=[{**patch(), "time": None}])),
        Case("patch time", job(runtimePatches=[{**patch(), "time": "2026-11-20T08:30:00Z"}])),
        Case("patch wrong time", job(runtimePatches=[{**patch(), "time": "soon"}]), ("spec.runtimePatches[0].time",)),
        Case("patch without manager", job(runtimePatches=[{}]), ("spec.runtimePatches[0].manager",)),
        Case("patch empty manager", job(runtimePatches=[{"manager": ""}]), ("spec.runtimePatches[0].manager",)),
        Case("patch long manager", job(runtimePatches=[{"manager": "m" * 254}]), ("spec.runtimePatches[0].manager",)),
        Case("patch manager twice", job(runtimePatches=[patch(), patch()]), ("spec.runtimePatches[1]",)),
        Case("patches too many", job(runtimePatches=[patch(f"m/{i}") for i in range(17)]), ("spec.runtimePatches",)),
        Case("patch metadata", job(runtimePatches=[_metadata_patch()])),
        Case("patch grace", patched(terminationGracePeriodSeconds=0)),
        Case(
            "patch negative grace", patched(terminationGracePeriodSeconds=-1), (f"{POD}.terminationGracePeriodSeconds",)
        ),
        Case("patch long account", patched(serviceAccountName="s" * 254), (f"{POD}.serviceAccountName",)),
        Case("patch volumes", patched(volumes=[{"name": "a", "configMap": {}}, {"name": "b", "iscsi": _iscsi()}])),
        Case("patch volume twice", patched(volumes=[{"name": "a"}] * 2), (f"{POD}.volumes[1]",)),
        Case("patch volume without name", patched(volumes=[{}]), (f"{POD}.volumes[0].name",)),
        Case("patch too many volumes", patched(volumes=_named(129)), (f"{POD}.volumes",)),
        Case("patch containers", patched(containers=[{"name": "node", "env": [{"name": "A"}]}])),
        Case("patch container twice", patched(containers=[{"name": "a"}] * 2), (f"{POD}.containers[1]",)),
        Case("patch container empty name", patched(containers=[{"name": ""}]), (f"{POD}.containers[0].name",)),
        Case("patch container long name", patched(containers=[{"name": "c" * 254}]), (f"{POD}.containers[0].name",)),
        Case("patch too many containers", patched(containers=_named(65)), (f"{POD}.containers",)),
        Case("patch too many init containers", patched(initContainers=_named(65)), (f"{POD}.initContainers",)),
        Case("patch too many tolerations", patched(tolerations=[{}] * 129), (f"{POD}.tolerations",)),
        Case("patch too many secrets", patched(imagePullSecrets=_named(65)), (f"{POD}.imagePullSecrets",)),
        Case("patch secret without name", patched(imagePullSecrets=[{}])),
        Case("patch secrets without name", patched(imagePullSecrets=[{}, {}]), (f"{POD}.imagePullSecrets[1]",)),
        Case("patch too many gates", patched(schedulingGates=_named(17)), (f"{POD}.schedulingGates",)),
        Case("patch gate twice", patched(schedulingGates=[{"name": "g"}] * 2), (f"{POD}.schedulingGates[1]",)),
        Case(
            "patch mounts of one volume",
            patched(containers=[{"name": "a", "volumeMounts": [_mount("/a"), _mount("/b")]}]),
            (f"{POD}.containers[0].volumeMounts[1]",),
        ),
        Case("patch selector value", patched(nodeSelector={"a": 1}), (f"{POD}.nodeSelector.a",)),
        Case("patch job without name", job(runtimePatches=[_jobs_patch({})]), (_JOBS_PATH + "[0].name",)),
        Case("patch job twice", job(runtimePatches=[_jobs_patch({"name": "a"}, {"name": "a"})]), (_JOBS_PATH + "[1]",)),
        Case("patch too many jobs", job(runtimePatches=[_jobs_patch(*_named(101))]), (_JOBS_PATH,)),
        Case(
            "resources quantity with a line break",
            job(trainer={"resourcesPerNode": {"limits": {"cpu": "1\n"}}}),
            ("spec.trainer.resourcesPerNode.limits.cpu",),
        ),
        Case("name with a line break", job("job\n"), ("metadata.name", "")),
        Case("two things wrong", job(suspend=1, trainer={"numNodes": -1}), ("spec.suspend", "spec.trainer.numNodes")),
        Case(
            "two rules broken",
            job(managedBy="x", trainer={"numProcPerNode": 0}),
            ("spec.managedBy", "spec.trainer.numProcPerNode"),
        ),
    ]


_JOBS_PATH = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs"


def _jobs_patch(*jobs: Json) -> Json:
    return {"manager": "a/b", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": list(jobs)}}}}


def _metadata_patch() -> Json:
    metadata = {
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "finalizers": ["e"],
        "name": "f",
        "namespace": "g",
        "generateName": "dropped",
        "ownerReferences": [],
    }
    return {"manager": "a/b", "trainingRuntimeSpec": {"template": {"metadata": metadata}}}


def _named(count: int) -> list[Json]:
    return [{"name": f"n{index}"} for index in range(count)]


def _mount(path: str) -> Json:
    return {"name": "v", "mountPath": path}


def _iscsi() -> Json:
    return {"iqn": "i", "lun": 0, "targetPortal": "t"}


def update_cases() -> list[Case]:
    """TrainJobs and runtimes that are changed."""
    security = {"runAsUser": 1}
    full = patched(
        serviceAccountName="a",
        volumes=[{"name": "a"}, {"name": "b"}],
        initContainers=[{"name": "a"}],
        containers=[{"name": "a"}, {"name": "b"}],
        imagePullSecrets=[{"name": "a"}],
        securityContext=security,
        terminationGracePeriodSeconds=1,
    )
    changed: Json = {
        "serviceAccountName": "b",
        "volumes": [{"name": "c"}],
        "initContainers": [{"name": "b"}],
        "containers": [{"name": "c"}],
        "imagePullSecrets": [{"name": "b"}],
        "securityContext": {"runAsUser": 2},
        "terminationGracePeriodSeconds": 2,
    }
    pod = full["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]["template"][
        "spec"
    ]["template"]["spec"]
    whole = job(trainer={"numNodes": 1}, initializer={"model": {}}, activeDeadlineSeconds=5)
    claims = [{"templates": [{"metadata": {}, **_CLAIM}]}]
    policies = jobset(
        network={"enableDNSHostnames": True},
        successPolicy={"operator": "All"},
        failurePolicy={"maxRestarts": 1},
        startupPolicy={"startupPolicyOrder": "AnyOrder"},
        volumeClaimPolicies=claims,
        replicatedJobs=[replicated("a"), replicated("b", dependsOn=[{"name": "a", "status": "Ready"}])],
    )
    spec = policies["spec"]["template"]["spec"]
    invalid = jobset(replicatedJobs=[replicated(replicas=1)])
    cases = [
        Case("nothing changed", job(), old=job()),
        Case("suspended", job(suspend=True), old=job()),
        Case("runtimeRef changed", job(runtimeRef={"name": "other"}), ("spec.runtimeRef",), old=job()),
        Case(
            "runtimeRef kind written out",
            job(runtimeRef={"name": "torch", "kind": "ClusterTrainingRuntime"}),
            old=job(),
        ),
        Case("trainer changed", job(trainer={"numNodes": 2}), ("spec.trainer",), old=job(trainer={"numNodes": 1})),
        Case("trainer added", job(trainer={"numNodes": 2}), old=job()),
        Case("trainer removed", job(initializer={"model": {}}, activeDeadlineSeconds=5), old=whole),
        Case(
            "trainer env reordered",
            job(trainer={"env": [{"name": "B"}, {"name": "A"}]}),
            old=job(trainer={"env": [{"name": "A"}, {"name": "B"}]}),
        ),
        Case(
            "trainer args reordered",
            job(trainer={"args": ["b", "a"]}),
            ("spec.trainer",),
            old=job(trainer={"args": ["a", "b"]}),
        ),
        Case(
            "initializer changed",
            with_value(whole, {"dataset": {}}, "spec", "initializer"),
            ("spec.initializer",),
            old=whole,
        ),
        Case(
            "deadline changed",
            with_value(whole, 6, "spec", "activeDeadlineSeconds"),
            ("spec.activeDeadlineSeconds",),
            old=whole,
        ),
        Case("deadline removed", without(whole, "spec", "activeDeadlineSeconds"), old=whole),
        Case("manager changed", job(managedBy="kueue.x-k8s.io/multikueue"), ("spec.managedBy",), old=job()),
        Case("manager removed", job(), ("spec.managedBy",), old=job(managedBy="kueue.x-k8s.io/multikueue")),
        Case("spec removed", without(job(), "spec"), old=job()),
        Case("patch added", job(runtimePatches=[patch("new/one"), *full["spec"]["runtimePatches"]]), old=full),
        Case("patch removed", job(), old=full),
        Case("patch selector changed", patched(**pod, nodeSelector={"a": "b"}), old=full),
        Case(
            "patch containers reordered",
            patched(**{**pod, "containers": [{"name": "b"}, {"name": "a"}]}),
            old=full,
        ),
        Case("runtime unchanged", policies, old=policies),
        Case("runtime replicas changed", jobset(replicatedJobs=[replicated(replicas=3)]), old=invalid),
        Case("status is left alone", {**job(), "status": {"nonsense": 1}}, old=job()),
    ]
    cases += [
        Case(f"patch {name} changed", patched(**{**pod, name: value}), (f"{POD}.{name}",), old=full)
        for name, value in changed.items()
    ]
    cases += [Case(f"patch {name} removed", patched(**without(pod, name)), old=full) for name in changed]
    new: Json = {
        "network": {"enableDNSHostnames": False},
        "successPolicy": {"operator": "Any"},
        "failurePolicy": {"maxRestarts": 2},
        "startupPolicy": {"startupPolicyOrder": "InOrder"},
        "volumeClaimPolicies": [*claims, {"templates": []}],
    }
    for name, value in new.items():
        wrong = [f"spec.template.spec.{name}"]
        if name == "startupPolicy":
            wrong.append("spec.template.spec")
        cases.append(Case(f"runtime {name} changed", jobset(**{**spec, name: value}), tuple(wrong), old=policies))
        cases.append(Case(f"runtime {name} removed", jobset(**without(spec, name)), old=policies))
    depends = [replicated("a"), replicated("b", dependsOn=[{"name": "a", "status": "Complete"}])]
    path = "spec.template.spec.replicatedJobs[1].dependsOn"
    cases.append(
        Case("runtime dependsOn changed", jobset(**{**spec, "replicatedJobs": depends}), (path,), old=policies)
    )
    return cases


def runtime_cases() -> list[Case]:
    """Runtimes that are created."""
    depends: Json = {"dependsOn": [{"name": "a", "status": "Ready"}]}
    in_order = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
    jobs = "spec.template.spec.replicatedJobs"
    claims = "spec.template.spec.volumeClaimPolicies"
    targets = f"{_POLICY}.torch.envInjection.targets"
    return [
        Case("runtime", runtime()),
        Case("cluster runtime", runtime("ClusterTrainingRuntime", mlPolicy={"numNodes": 1})),
        Case("runtime without spec", without(runtime(), "spec")),
        Case("runtime empty spec", with_value(runtime(), {}, "spec"), ("spec",)),
        Case("runtime empty template", runtime(template={}), ("spec.template",)),
        Case("runtime unknown template field", runtime(template={"nonsense": 1}), ("spec.template",)),
        Case("policy nodes", runtime(mlPolicy={"numNodes": -5})),
        Case("policy torch", runtime(mlPolicy={"torch": {}})),
        Case("policy torch old field", runtime(mlPolicy={"torch": {"numProcPerNode": "auto"}})),
        Case("policy two", runtime(mlPolicy={"torch": {}, "jax": {}}), (_POLICY,)),
        Case("policy all", runtime(mlPolicy={n: {} for n in ("torch", "mpi", "flux", "jax", "xgboost")}), (_POLICY,)),
        Case("policy jax", runtime(mlPolicy={"jax": {"nonsense": 1}})),
        Case("policy xgboost", runtime(mlPolicy={"xgboost": {}})),
        Case("policy mpi", runtime(mlPolicy={"mpi": {}})),
        Case("policy mpi zero", runtime(mlPolicy={"mpi": {"numProcPerNode": 0}}), (f"{_POLICY}.mpi.numProcPerNode",)),
        Case("policy mpi none", runtime(mlPolicy={"mpi": {"mpiImplementation": ""}})),
        Case(
            "policy mpi other",
            runtime(mlPolicy={"mpi": {"mpiImplementation": "Intel"}}),
            (f"{_POLICY}.mpi.mpiImplementation",),
        ),
        Case(
            "policy mpi long path",
            runtime(mlPolicy={"mpi": {"sshAuthMountPath": "/" * 4097}}),
            (f"{_POLICY}.mpi.sshAuthMountPath",),
        ),
        Case("policy mpi nulls", runtime(mlPolicy={"mpi": {"mpiImplementation": None, "runLauncherAsNode": None}})),
        Case("policy flux", runtime(mlPolicy={"flux": {}})),
        Case(
            "policy flux zero", runtime(mlPolicy={"flux": {"numProcPerNode": 0}}), (f"{_POLICY}.flux.numProcPerNode",)
        ),
        Case("injection", _injection("init", "side")),
        Case("injection into node", _injection("a", "node"), (f"{targets}[0].containerNames",)),
        Case("injection into none", _injection(), (f"{targets}[0].containerNames",)),
        Case("injection twice", _injection("a", "a"), (f"{targets}[0].containerNames[1]",)),
        Case("injection too many", _injection(*"abcdefghi"), (f"{targets}[0].containerNames",)),
        Case("injection long name", _injection("c" * 64), (f"{targets}[0].containerNames[0]",)),
        Case(
            "injection without job",
            runtime(mlPolicy={"torch": {"envInjection": {"targets": [{"containerNames": ["a"]}]}}}),
            (f"{targets}[0].jobName",),
        ),
        Case("gang", runtime(podGroupPolicy={"coscheduling": {}})),
        Case("gang timeout", runtime(podGroupPolicy={"coscheduling": {"scheduleTimeoutSeconds": -1}})),
        Case("gang both", runtime(podGroupPolicy={"coscheduling": {}, "volcano": {}})),
        Case("gang volcano", runtime(podGroupPolicy={"volcano": {"networkTopology": {}}})),
        Case(
            "gang volcano mode",
            runtime(podGroupPolicy={"volcano": {"networkTopology": {"mode": "x"}}}),
            ("spec.podGroupPolicy.volcano.networkTopology.mode",),
        ),
        Case("jobs", jobset(replicatedJobs=[replicated()])),
        Case("jobs twice", jobset(replicatedJobs=[replicated(), replicated()]), (f"{jobs}[1]",)),
        Case("job without name", jobset(replicatedJobs=[without(replicated(), "name")]), (f"{jobs}[0].name",)),
        Case("job without template", jobset(replicatedJobs=[{"name": "a"}]), (f"{jobs}[0].template",)),
        Case("job negative replicas", jobset(replicatedJobs=[replicated(replicas=-1)])),
        Case("job depends", jobset(replicatedJobs=[replicated("a"), replicated("b", **depends)])),
        Case(
            "job depends wrong",
            jobset(replicatedJobs=[replicated(dependsOn=[{"name": "a", "status": "Failed"}])]),
            (f"{jobs}[0].dependsOn[0].status",),
        ),
        Case(
            "job depends on six",
            jobset(replicatedJobs=[replicated(dependsOn=[{"name": f"{i}", "status": "Ready"} for i in range(6)])]),
            (f"{jobs}[0].dependsOn",),
        ),
        Case("order", jobset(**in_order, replicatedJobs=[replicated()])),
        Case("order and depends", jobset(**in_order, replicatedJobs=[replicated(**depends)]), ("spec.template.spec",)),
        Case("order without jobs", jobset(**in_order), ("spec.template.spec",)),
        Case(
            "order unknown",
            jobset(startupPolicy={"startupPolicyOrder": "x"}),
            ("spec.template.spec.startupPolicy.startupPolicyOrder",),
        ),
        Case("success without operator", jobset(successPolicy={}), ("spec.template.spec.successPolicy.operator",)),
        Case("failure", jobset(failurePolicy={})),
        Case(
            "failure rule",
            jobset(failurePolicy={"rules": [{"action": "x"}]}),
            ("spec.template.spec.failurePolicy.rules[0].action", "spec.template.spec.failurePolicy.rules[0].name"),
        ),
        Case("ttl negative", jobset(ttlSecondsAfterFinished=-1), ("spec.template.spec.ttlSecondsAfterFinished",)),
        Case(
            "claims",
            jobset(volumeClaimPolicies=[{"templates": [{"metadata": {"name": "a"}, **_CLAIM}], "retentionPolicy": {}}]),
        ),
        Case(
            "claims with namespace",
            jobset(volumeClaimPolicies=[{"templates": [{"metadata": {"name": "a", "namespace": "b"}, **_CLAIM}]}]),
            (f"{claims}[0]",),
        ),
        Case(
            "claims empty namespace",
            jobset(volumeClaimPolicies=[{"templates": [{"metadata": {"namespace": ""}, **_CLAIM}]}]),
        ),
        Case("claims without metadata", jobset(volumeClaimPolicies=[{"templates": [_CLAIM]}]), (f"{claims}[0]",)),
        Case("claims without templates", jobset(volumeClaimPolicies=[{}]), (f"{claims}[0]",)),
        Case("pod without containers", _pod_without_containers(), (f"{_POD_IN_RUNTIME}.containers",)),
        Case("pod containers twice", pods(containers=[CONTAINER, CONTAINER]), (f"{_POD_IN_RUNTIME}.containers[1]",)),
        Case("container port", container(ports=[{"containerPort": 80}])),
        Case(
            "container port twice",
            container(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]),
            (f"{_POD_IN_RUNTIME}.containers[0].ports[1]",),
        ),
        Case("container ports", container(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}])),
        Case("container probe", container(livenessProbe={"grpc": {"port": 1}, "httpGet": {"port": "http"}})),
        Case(
            "container probe port",
            container(livenessProbe={"httpGet": {"port": 1.5}}),
            (f"{_POD_IN_RUNTIME}.containers[0].livenessProbe.httpGet.port",),
        ),
        Case("container env", container(env=[{"name": "A", "valueFrom": _VALUE_FROM}], envFrom=[{"secretRef": {}}])),
        Case("container resources", container(resources={"limits": {"nvidia.com/gpu": 8, "cpu": "500m"}})),
        Case("pod volumes", pods(volumes=_volumes())),
        Case("pod secrets", pods(imagePullSecrets=[{}, {"name": "a"}])),
        Case(
            "pod spread twice",
            pods(topologySpreadConstraints=[_SPREAD, _SPREAD]),
            (f"{_POD_IN_RUNTIME}.topologySpreadConstraints[1]",),
        ),
        Case("pod unknown enum value", pods(restartPolicy="Sometimes")),
        Case(
            "pod grace text",
            pods(terminationGracePeriodSeconds="1"),
            (f"{_POD_IN_RUNTIME}.terminationGracePeriodSeconds",),
        ),
    ]


_SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def _injection(*containers: str) -> Json:
    targets = [{"jobName": "job", "containerNames": list(containers)}]
    return runtime(mlPolicy={"torch": {"envInjection": {"targets": targets}}})


def _pod_without_containers() -> Json:
    return jobset(replicatedJobs=[{"name": "node", "template": {"spec": {"template": {"spec": {}}}}}])


def _volumes() -> list[Json]:
    sources: Json = {
        "azureDisk": {"diskName": "a", "diskURI": "b"},
        "rbd": {"image": "i", "monitors": ["m"]},
        "scaleIO": {"gateway": "g", "secretRef": {}, "system": "s"},
        "iscsi": _iscsi(),
        "projected": {"sources": [{"configMap": {}}, {"secret": {"items": [{"key": "k", "path": "p"}]}}]},
        "emptyDir": {"sizeLimit": "1Gi"},
        "ephemeral": {"volumeClaimTemplate": {"metadata": {"name": "a", "uid": "dropped"}, **_CLAIM}},
    }
    return [{"name": name.lower(), name: source} for name, source in sources.items()]


def status_cases() -> list[Case]:
    """Writes of a TrainJob's status."""
    prefix = "status.trainerStatus"
    jobs = [{"name": "node", **_COUNTERS}]
    time = {"lastUpdatedTime": "2026-11-20T08:30:00Z"}
    named: list[tuple[str, Json, tuple[str, ...]]] = [
        ("status", {"conditions": [_CONDITION], "jobsStatus": jobs}, ()),
        ("status empty", {}, ("status",)),
        ("status condition twice", {"conditions": [_CONDITION, _CONDITION]}, ("status.conditions[1]",)),
        (
            "status condition incomplete",
            {"conditions": [without(_CONDITION, "reason")]},
            ("status.conditions[0].reason",),
        ),
        (
            "status condition status",
            {"conditions": [{**_CONDITION, "status": "Yes"}]},
            ("status.conditions[0].status",),
        ),
        (
            "status condition reason",
            {"conditions": [{**_CONDITION, "reason": "a b"}]},
            ("status.conditions[0].reason",),
        ),
        ("status condition type", {"conditions": [{**_CONDITION, "type": "-"}]}, ("status.conditions[0].type",)),
        (
            "status too many conditions",
            {"conditions": [{**_CONDITION, "type": f"T{index}"} for index in range(9)]},
            ("status.conditions",),
        ),
        ("status job twice", {"jobsStatus": jobs * 2}, ("status.jobsStatus[1]",)),
        (
            "status job incomplete",
            {"jobsStatus": [{"name": "a"}]},
            tuple(f"status.jobsStatus[0].{n}" for n in _COUNTERS),
        ),
        ("status job negative", {"jobsStatus": [{**jobs[0], "ready": -1}]}, ("status.jobsStatus[0].ready",)),
        (
            "progress",
            {"trainerStatus": {**time, "progressPercentage": 100, "metrics": [{"name": "a", "value": "1"}]}},
            (),
        ),
        ("progress without time", {"trainerStatus": {"progressPercentage": 1}}, (prefix,)),
        ("progress above", {"trainerStatus": {**time, "progressPercentage": 101}}, (f"{prefix}.progressPercentage",)),
        ("progress below", {"trainerStatus": {**time, "progressPercentage": -1}}, (f"{prefix}.progressPercentage",)),
        (
            "progress estimate",
            {"trainerStatus": {**time, "estimatedRemainingSeconds": -1}},
            (f"{prefix}.estimatedRemainingSeconds",),
        ),
        (
            "progress empty metric",
            {"trainerStatus": {**time, "metrics": [{"name": "", "value": ""}]}},
            (f"{prefix}.metrics[0].name", f"{prefix}.metrics[0].value"),
        ),
        (
            "progress too many metrics",
            {"trainerStatus": {**time, "metrics": [{"name": "a", "value": "1"}] * 257}},
            (f"{prefix}.metrics",),
        ),
    ]
    return [
        Case(name, {**job(), "status": words}, wrong, old=job(), subresource="status") for name, words, wrong in named
    ]


ALL = [*trainjob_cases(), *runtime_cases(), *update_cases(), *status_cases()]
