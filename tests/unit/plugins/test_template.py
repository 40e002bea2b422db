# SPDX-License-Identifier: Apache-2.0
"""Template resolution, patches, initializers, gang scheduling and ports."""

from typing import Any

import pytest
import yaml

from trainwright.api.kubernetes.core.v1 import Container, ContainerPort, EnvVar, VolumeMount
from trainwright.api.trainer.v1alpha1 import TrainingRuntime
from trainwright.plugins.contract import OFFLINE, ClusterFacts, ContainerModel, Info, Refusal
from trainwright.plugins.contract.container import upsert_port
from trainwright.plugins.contract.errors import PipelineError
from trainwright.plugins.contract.facts import Unreadable
from trainwright.plugins.contract.provenance import Ledger
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.pipeline.template import in_merge_order
from trainwright.plugins.registry import Registry, built_in
from trainwright.plugins.testing import Result, runtime, train_job

PIPELINE = Pipeline(Registry.load(candidates=built_in()))
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"

TEMPLATE = """
spec:
  mlPolicy: {numNodes: 1}
  template:
    metadata: {labels: {a: "1"}, name: ignored}
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec:
              template:
                spec:
                  nodeSelector: {zone: a}
                  tolerations: [{key: t1}]
                  initContainers: [{name: i1, image: i}, {name: i2, image: i}]
                  containers:
                    - {name: node, image: base}
                    - {name: side, image: s, env: [{name: A, value: "1"}, {name: B, value: "2"}]}
                  volumes: [{name: v1, emptyDir: {}}, {name: v2, emptyDir: {}}]
        - name: other
          template: {spec: {template: {spec: {containers: [{name: main, image: o}]}}}}
"""


def patch(manager: str = "example.com/a", job: str = "node", metadata: Any = None, **pod: Any) -> dict[str, Any]:
    """An entry of runtimePatches for the pod of one replicated job, and for the JobSet's metadata."""
    template: dict[str, Any] = {"metadata": metadata} if metadata else {}
    if pod:
        template["spec"] = {"replicatedJobs": [{"name": job, "template": {"spec": {"template": {"spec": pod}}}}]}
    return {"manager": manager, "trainingRuntimeSpec": {"template": template}}


def outcome(*patches: dict[str, Any], made: TrainingRuntime | None = None, **fields: Any) -> Result:
    job, made = train_job(runtimePatches=list(patches), **fields), made or runtime(TEMPLATE)
    run = PIPELINE.begin(job, made)
    return Result(run.validate(OFFLINE), run.render(OFFLINE))


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


@pytest.mark.parametrize(
    ("base", "patched", "expected"),
    [
        ("AB", "NB", "NAB"),
        ("AB", "BN", "ABN"),
        ("AB", "BA", "BA"),
        ("ABC", "C", "ABC"),
        ("ABC", "N", "NABC"),
        ("", "XY", "XY"),
        ("AB", "", "AB"),
        ("ABCD", "DNB", "ACDNB"),
    ],
)
def test_the_order_of_merged_lists(base: str, patched: str, expected: str) -> None:
    untouched = [name for name in base if name not in patched]
    assert "".join(in_merge_order(list(base), untouched, list(patched))) == expected


def test_metadata_of_the_jobset() -> None:
    result = outcome(
        patch("example.com/1", metadata={"labels": {"a": "2", "b": "1"}, "name": "x", "finalizers": ["f/f"]}),
        patch("example.com/2", metadata={"labels": {"b": "3"}, "annotations": {"n": "o"}}),
    )
    metadata = result.object("JobSet")["metadata"]
    assert metadata["labels"] == {"a": "2", "b": "3"}
    assert metadata["annotations"] == {"n": "o"}
    assert metadata["name"] == "job"
    assert "finalizers" not in metadata


@pytest.mark.parametrize(
    ("pod", "path", "expected"),
    [
        pytest.param({"tolerations": [{"key": "t2"}]}, "tolerations", [{"key": "t2"}], id="20"),
        pytest.param({"nodeSelector": {"b": "c"}}, "nodeSelector", {"zone": "a", "b": "c"}, id="21"),
        pytest.param({"nodeSelector": {"zone": "z"}}, "nodeSelector", {"zone": "z"}, id="same-key"),
        pytest.param({"nodeSelector": {}}, "nodeSelector", {"zone": "a"}, id="empty"),
        pytest.param({"terminationGracePeriodSeconds": 0}, "terminationGracePeriodSeconds", 0, id="26"),
        pytest.param({"serviceAccountName": "me"}, "serviceAccountName", "me", id="account"),
        pytest.param(
            {"volumes": [{"name": "v3", "emptyDir": {}}, {"name": "v1", "persistentVolumeClaim": {"claimName": "c"}}]},
            "volumes",
            [
                {"name": "v3", "emptyDir": {}},
                {"name": "v1", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "v2", "emptyDir": {}},
            ],
            id="19",
        ),
        pytest.param({"schedulingGates": [{"name": "g"}]}, "schedulingGates", [{"name": "g"}], id="gates"),
    ],
)
def test_fields_of_the_pod(pod: dict[str, Any], path: str, expected: Any) -> None:
    result = outcome(patch(**pod))
    assert result.pod()[path] == expected
    assert result.pod("other") == {"containers": [{"name": "main", "image": "o"}]}


def test_a_patch_can_change_the_order_of_init_containers() -> None:
    result = outcome(patch(initContainers=[{"name": "i2"}, {"name": "i1"}]))
    assert names(result.pod()["initContainers"]) == ["i2", "i1"]


def test_variables_keep_one_value() -> None:
    source = {"fieldRef": {"fieldPath": "metadata.name"}}
    env = [{"name": "NEW", "value": "n"}, {"name": "B", "valueFrom": source}]
    result = outcome(patch(containers=[{"name": "side", "env": env}]))
    assert list(result.env("node", "side").items()) == [("NEW", "n"), ("A", "1"), ("B", source)]


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        ({"value": "1"}, {"value": ""}, {"value": "1"}),
        (
            {"valueFrom": {"fieldRef": {"fieldPath": "a"}}},
            {"value": ""},
            {"valueFrom": {"fieldRef": {"fieldPath": "a"}}},
        ),
        ({"valueFrom": {"fieldRef": {"fieldPath": "a"}}}, {"value": "2"}, {"value": "2"}),
        (
            {"valueFrom": {"fieldRef": {"fieldPath": "a"}}},
            {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ),
        (
            {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"valueFrom": {"secretKeyRef": {"key": "l"}}},
            {"valueFrom": {"secretKeyRef": {"name": "s", "key": "l"}}},
        ),
    ],
)
def test_a_variable_of_a_patch(mine: dict[str, Any], theirs: dict[str, Any], expected: dict[str, Any]) -> None:
    text = yaml.safe_load(TEMPLATE)
    pods = text["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pods["containers"][1]["env"] = [{"name": "A", **mine}]
    made = runtime(yaml.safe_dump(text))
    result = outcome(patch(containers=[{"name": "side", "env": [{"name": "A", **theirs}]}]), made=made)
    assert result.container("node", "side")["env"] == [{"name": "A", **expected}]


def test_managers_add_up_and_the_later_one_wins_by_name() -> None:
    result = outcome(
        patch("example.com/1", nodeSelector={"x": "1", "zone": "b"}),
        patch("example.com/2", nodeSelector={"y": "2", "zone": "c"}, serviceAccountName="me"),
    )
    assert result.pod()["nodeSelector"] == {"zone": "c", "x": "1", "y": "2"}
    (conflict,) = result.rendering.overrides
    assert (conflict.loser, conflict.winner) == ("the patch of example.com/1", "the patch of example.com/2")
    assert "nodeSelector[zone]" in conflict.path


def test_an_empty_affinity_has_no_effect() -> None:
    assert outcome(patch(affinity={})).pod().get("affinity", {}) == {}


def test_security_contexts_merge() -> None:
    first = patch(
        "example.com/1", securityContext={"runAsUser": 1}, containers=[{"name": "side", "securityContext": {}}]
    )
    second = patch("example.com/2", securityContext={"fsGroup": 2})
    result = outcome(first, second)
    assert result.pod()["securityContext"] == {"runAsUser": 1, "fsGroup": 2}


def test_jobs_keep_the_order_of_the_runtime() -> None:
    both = patch(nodeSelector={"x": "1"})
    both["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"].insert(0, {"name": "other"})
    assert names(outcome(both).object("JobSet")["spec"]["replicatedJobs"]) == ["node", "other"]


PATCHES, MANAGER = "spec.runtimePatches", "spec.runtimePatches.manager"


@pytest.mark.parametrize(
    ("patches", "path", "type_"),
    [
        pytest.param([patch("kueue.k8s.io/")], MANAGER, "FieldValueInvalid", id="27-no-path"),
        pytest.param([patch("nodomain")], MANAGER, "FieldValueInvalid", id="27-no-domain"),
        pytest.param([patch("")], MANAGER, "FieldValueRequired", id="27-empty"),
        pytest.param([patch("Upper.com/x")], MANAGER, "FieldValueInvalid", id="no-dns-name"),
        pytest.param([patch("a.com/x y")], MANAGER, "FieldValueInvalid", id="space"),
        pytest.param([patch(job="ghost", nodeSelector={"a": "b"})], PATCHES, "FieldValueInvalid", id="11"),
        pytest.param([patch(containers=[{"name": "ghost"}])], PATCHES, "FieldValueInvalid", id="12"),
        pytest.param([patch(initContainers=[{"name": "node"}])], PATCHES, "FieldValueInvalid", id="13"),
        pytest.param([patch(containers=[{"name": "i1"}])], PATCHES, "FieldValueInvalid", id="14"),
        pytest.param(
            [patch(containers=[{"name": "node", "env": [{"name": "A"}]}])], PATCHES, "FieldValueInvalid", id="15"
        ),
    ],
)
def test_patches_that_are_refused(patches: list[dict[str, Any]], path: str, type_: str) -> None:
    verdict = PIPELINE.begin(train_job(runtimePatches=patches), runtime(TEMPLATE)).validate(OFFLINE)
    assert [(error.path, error.type.value) for error in verdict.errors] == [(path, type_)]


@pytest.mark.parametrize("manager", ["a.com/x", "kueue.x-k8s.io/manager", "a/b/c", "x.y/z~(1)"])
def test_names_of_managers_that_are_fine(manager: str) -> None:
    assert outcome(patch(manager)).verdict.allowed


JOBSET = next(iter(PIPELINE.begin(train_job(), runtime()).references()))
ACTIVE = {"spec": {}, "status": {"replicatedJobsStatus": [
    {"name": name, "ready": 0, "succeeded": 0, "failed": 0, "active": active, "suspended": 0}
    for name, active in (("a", 1), ("b", 2), ("c", 0))
]}}  # fmt: skip
NEW = [patch(nodeSelector={"a": "b"})]


@pytest.mark.parametrize(
    ("before", "after", "patches", "live", "expected"),
    [
        pytest.param(False, False, NEW, None, ["FieldValueForbidden"], id="28"),
        pytest.param(False, True, NEW, None, [], id="29-new"),
        pytest.param(True, False, NEW, None, [], id="29-old"),
        pytest.param(True, True, NEW, None, [], id="29-both"),
        pytest.param(True, True, NEW, ACTIVE, ["FieldValueForbidden"] * 2, id="30"),
        pytest.param(True, True, NEW, Unreadable("down"), ["InternalError"], id="31"),
        pytest.param(False, False, [], ACTIVE, [], id="32"),
    ],
)
def test_when_patches_may_change(before: bool, after: bool, patches: list[Any], live: Any, expected: list[str]) -> None:
    facts = ClusterFacts({JOBSET: live})
    old, new = train_job(suspend=before), train_job(suspend=after, runtimePatches=patches)
    verdict = PIPELINE.begin(new, runtime(TEMPLATE), old).validate(facts)
    assert [error.type.value for error in verdict.errors] == expected
    assert all(error.path == PATCHES for error in verdict.errors)


def job(name: str, step: str | None, main: str, *, replicas: int | None = None, **container: Any) -> dict[str, Any]:
    template: dict[str, Any] = {
        "spec": {"template": {"spec": {"containers": [{"name": main, "image": "i", **container}]}}}
    }
    if step:
        template["metadata"] = {"labels": {STEP: step}}
    return {"name": name, "template": template, **({"replicas": replicas} if replicas else {})}


def made_of(*jobs: dict[str, Any], policy: Any = None, **spec: Any) -> TrainingRuntime:
    text = yaml.safe_dump({"spec": {"template": {"spec": {"replicatedJobs": list(jobs), **spec}}}})
    return runtime(text, **({"mlPolicy": policy} if policy is not None else {}))


def counts(result: Result) -> dict[str, tuple[int, int, int]]:
    return {
        job["name"]: (job["replicas"], job["template"]["spec"]["parallelism"], job["template"]["spec"]["completions"])
        for job in result.object("JobSet")["spec"]["replicatedJobs"]
    }


def test_without_a_policy_the_templates_parallelism_counts() -> None:
    main = job("node", "trainer", "node", resources={"limits": {"cpu": 1}})
    main["template"]["spec"]["parallelism"] = 7
    result = outcome(made=made_of(main), trainer={"resourcesPerNode": {"limits": {"cpu": 9}}})
    assert counts(result) == {"node": (1, 7, 7)}
    assert result.container()["resources"] == {"limits": {"cpu": 1}}
    assert counts(outcome(made=made_of(main), trainer={"numNodes": 3})) == {"node": (1, 3, 3)}


def test_counts_of_templates_are_overwritten() -> None:
    main, extra = job("node", "trainer", "node", replicas=3), job("extra", None, "x", replicas=3)
    main["template"]["spec"] |= {"parallelism": 7, "completions": 9}
    extra["template"]["spec"]["parallelism"] = 0
    result = outcome(made=made_of(main, extra, policy={"numNodes": 2}))
    assert counts(result) == {"node": (1, 2, 2), "extra": (3, 1, 1)}


def test_the_first_of_two_trainers_is_counted_and_both_get_the_image() -> None:
    made = made_of(job("one", "trainer", "node"), job("two", "trainer", "node"), policy={"numNodes": 2})
    result = outcome(made=made, trainer={"numNodes": 5, "image": "mine"})
    assert counts(result) == {"one": (1, 5, 5), "two": (1, 2, 2)}
    assert [result.container(name)["image"] for name in ("one", "two")] == ["mine", "mine"]


def test_resources_merge_and_claims_do_not() -> None:
    resources = {"limits": {"cpu": 8, "memory": "32Gi"}, "claims": [{"name": "c"}]}
    made = made_of(job("node", "trainer", "node", resources=resources), policy={})
    result = outcome(made=made, trainer={"resourcesPerNode": {"limits": {"gpu": 4}, "claims": [{"name": "d"}]}})
    assert result.container()["resources"] == {"limits": {"cpu": 8, "memory": "32Gi", "gpu": 4}}


def test_resources_reach_launcher_and_nodes() -> None:
    made = made_of(
        job("launcher", "trainer", "node"), job("node", None, "node"), policy={"mpi": {"runLauncherAsNode": True}}
    )
    result = outcome(made=made, trainer={"resourcesPerNode": {"limits": {"cpu": 1}}})
    assert [result.container(name)["resources"] for name in ("launcher", "node")] == [{"limits": {"cpu": 1}}] * 2


INITIALIZER = {
    "dataset": {"storageUri": "hf://a/b", "env": [{"name": "CUSTOM", "value": "c"}, {"name": "PRE", "value": "p"}]}
}
MOUNT = [{"name": "initializer", "mountPath": "/w"}]


def initializer_runtime(**container: Any) -> TrainingRuntime:
    return made_of(
        job("dataset-initializer", "dataset-initializer", "dataset-initializer", replicas=3, **container),
        job("node", "trainer", "node"),
    )


def test_variables_of_initializers_keep_the_order_of_the_runtime() -> None:
    env = [{"name": "PRE", "value": "0"}, {"name": "OTHER", "value": "1"}]
    result = outcome(made=initializer_runtime(env=env, volumeMounts=MOUNT), initializer=INITIALIZER)
    expected = [("PRE", "p"), ("OTHER", "1"), ("STORAGE_URI", "hf://a/b"), ("CUSTOM", "c")]
    assert list(result.env("dataset-initializer", "dataset-initializer").items()) == expected


def test_initializers_run_once_also_without_a_section() -> None:
    result = outcome(made=initializer_runtime(env=[{"name": "A", "value": "1"}]))
    assert counts(result)["dataset-initializer"] == (1, 1, 1)
    assert result.env("dataset-initializer", "dataset-initializer") == {"A": "1"}


def test_a_secret_is_appended() -> None:
    section = {
        "dataset": {"storageUri": "", "secretRef": {"name": "k"}, "env": [{"name": "STORAGE_URI", "value": "s3://u/v"}]}
    }
    source = {"configMapRef": {"name": "m"}}
    result = outcome(made=initializer_runtime(envFrom=[source], volumeMounts=MOUNT), initializer=section)
    container = result.container("dataset-initializer", "dataset-initializer")
    assert container["env"] == [{"name": "STORAGE_URI", "value": "s3://u/v"}]
    assert container["envFrom"] == [source, {"secretRef": {"name": "k"}}]


@pytest.mark.parametrize(
    "made",
    [
        made_of(job("node", "trainer", "node")),
        made_of(job("dataset-initializer", "dataset-initializer", "wrong", volumeMounts=MOUNT)),
        made_of(job("dataset-initializer", "dataset-initializer", "dataset-initializer")),
    ],
    ids=["job", "container", "mount"],
)
def test_an_initializer_needs_its_place(made: TrainingRuntime) -> None:
    verdict = PIPELINE.begin(train_job(initializer=INITIALIZER), made).validate(OFFLINE)
    assert [(error.path, error.type.value) for error in verdict.errors] == [("spec.runtimeRef", "FieldValueInvalid")]


@pytest.mark.parametrize(
    ("trainer", "command", "args"),
    [
        pytest.param({"command": ["c"]}, ["c"], ["--base"], id="74"),
        pytest.param({"args": ["a"]}, ["run"], ["a"], id="args"),
        pytest.param({"args": []}, ["run"], None, id="75"),
        pytest.param({}, ["run"], ["--base"], id="none"),
    ],
)
def test_command_and_arguments_are_independent(
    trainer: dict[str, Any], command: list[str], args: list[str] | None
) -> None:
    result = outcome(made=made_of(job("node", "trainer", "node", command=["run"], args=["--base"])), trainer=trainer)
    assert (result.container()["command"], result.container().get("args")) == (command, args)


@pytest.mark.parametrize(
    ("subdomain", "replicas", "count", "expected"),
    [
        pytest.param(None, None, 5, [f"job-node-0-{i}.job" for i in range(5)], id="64"),
        pytest.param("kubeflow.org", None, 1, ["job-node-0-0.kubeflow.org"], id="63"),
        pytest.param(None, 2, 2, [f"job-node-{r}-{i}.job" for r in (0, 1) for i in (0, 1)], id="65"),
    ],
)
def test_host_names(subdomain: str | None, replicas: int | None, count: int, expected: list[str]) -> None:
    network = {"network": {"subdomain": subdomain}} if subdomain else {}
    made = made_of(job("node", "trainer", "node", replicas=replicas), policy={"numNodes": count}, **network)
    info: Info = PIPELINE.begin(train_job(), made).enforced(OFFLINE)
    (pods,) = info.pod_sets
    assert list(pods.hosts()) == expected


def ports(*given: tuple[str | None, int]) -> list[ContainerPort]:
    return [ContainerPort(name=name, container_port=number) for name, number in given]


@pytest.mark.parametrize(
    ("base", "new", "expected"),
    [
        pytest.param([(None, 8080)], (None, 9090), [(None, 9090)], id="43"),
        pytest.param(
            [(None, 8000), (None, 9000)],
            (None, 29500),
            [(None, 8000), (None, 9000), (None, 29500)],
            id="several-without-a-name",
        ),
        pytest.param([("http", 80)], ("http", 8080), [("http", 8080)], id="44-name"),
        pytest.param([("http", 8080)], (None, 8080), [(None, 8080)], id="44-number"),
        pytest.param([("http", 80)], (None, 8080), [("http", 80), (None, 8080)], id="named"),
        pytest.param([(None, 80)], ("x", 81), [(None, 80), ("x", 81)], id="new-name"),
    ],
)
def test_ports(base: list[Any], new: tuple[str | None, int], expected: list[Any]) -> None:
    items = ports(*base)
    upsert_port(items, *ports(new))
    assert [(port.name, port.container_port) for port in items] == expected


def test_mounts_are_keyed_by_path_and_variables_by_name() -> None:
    mounts, env = [VolumeMount(name="a", mount_path="/x")], [EnvVar(name="A", value="1"), EnvVar(name="B")]
    container = ContainerModel(Container(name="c", volume_mounts=mounts, env=env), "c", Ledger())
    container.set_mount(VolumeMount(name="b", mount_path="/x"), why="")
    container.set_mount(VolumeMount(name="b", mount_path="/y"), why="")
    assert [(mount.name, mount.mount_path) for mount in container.mounts] == [("b", "/x"), ("b", "/y")]
    container.set_env("A", "", why="")
    assert [(item.name, item.value) for item in container.env] == [("A", ""), ("B", None)]


@pytest.mark.parametrize("field", ["spec", "runtime"])
def test_what_has_no_template_is_said_so(field: str) -> None:
    wanted = train_job()
    if field == "spec":
        wanted.spec = None
        with pytest.raises(PipelineError, match="the TrainJob has no spec"):
            PIPELINE.begin(wanted, runtime()).render(OFFLINE)
    else:
        made = TrainingRuntime()
        (component,) = PIPELINE.begin(wanted, made).render(OFFLINE).components
        assert component.document["spec"] == {"suspend": False}


def test_a_quantity_that_is_none_refuses_the_template() -> None:
    made = made_of(
        job("node", "trainer", "node", resources={"limits": {"nvidia.com/gpu": "many"}}), policy={"torch": {}}
    )
    with pytest.raises(Refusal, match=r"plugin Torch: resource nvidia\.com/gpu: 'many' is not a quantity"):
        PIPELINE.begin(train_job(trainer={}), made).render(OFFLINE)
