# SPDX-License-Identifier: Apache-2.0
"""From template and TrainJob to the JobSet: what reaches which container, and what stays as the runtime has it."""

from typing import Any

import pytest

from tests.unit.plugins.blueprints import (
    PIPELINE,
    STEP,
    blueprint,
    container,
    errors,
    job_template,
    outcome,
    pods,
    verdict,
)
from trainwright.controller.cli.rendering.schemas import validate
from trainwright.plugins.contract import OFFLINE
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.plainml import PlainMLPlugin
from trainwright.plugins.registry import Registry
from trainwright.plugins.testing import train_job

MOUNT = [{"name": "initializer", "mountPath": "/workspace"}]


def patched(name: str = "node", *, metadata: Any = None, **pod: Any) -> list[dict[str, Any]]:
    template: dict[str, Any] = {"metadata": metadata} if metadata else {}
    template |= {"spec": {"template": {"spec": pod}}} if pod else {}
    spec = {"replicatedJobs": [{"name": name, "template": template}]}
    return [{"manager": "example.com/a", "trainingRuntimeSpec": {"template": {"spec": spec}}}]


def test_metadata_of_a_jobs_template_is_merged_as_it_is() -> None:
    """As recorded: what Kubernetes does not take of it, it refuses itself."""
    metadata = {"name": "x", "finalizers": ["a.com/f"], "labels": {"l": "1"}}
    template = outcome(blueprint({}), runtimePatches=patched(metadata=metadata)).replicated_job()["template"]
    assert template["metadata"] == {**metadata, "labels": {STEP: "trainer", "l": "1"}}


def test_a_patch_may_move_the_step() -> None:
    made = blueprint({"numNodes": 2}, job_template(), job_template("other", None))
    result = outcome(
        made, trainer={"image": "mine"}, runtimePatches=patched("other", metadata={"labels": {STEP: "trainer"}})
    )
    assert pods(result) == {"node": 2, "other": 2}
    assert [result.container(name)["image"] for name in ("node", "other")] == ["mine", "mine"]


@pytest.mark.parametrize("name", ["dataset-initializer", "model-initializer", "node"])
@pytest.mark.parametrize(
    ("kind", "refused"), [pytest.param("containers", True, id="15"), pytest.param("initContainers", False, id="16")]
)
def test_variables_of_reserved_containers(name: str, kind: str, refused: bool) -> None:
    job = job_template("node", "trainer", container(), container(name) if name != "node" else container("x"))
    job["template"]["spec"]["template"]["spec"]["initContainers"] = [container(name)] if kind != "containers" else []
    pod: dict[str, Any] = {kind: [{"name": name, "env": [{"name": "A", "value": "1"}]}]}
    patch = patched(**pod)
    expected = [("spec.runtimePatches", "FieldValueInvalid")] if refused else []
    assert errors(verdict(blueprint({}, job), runtimePatches=patch)) == expected


@pytest.mark.parametrize(("seconds", "fine"), [(300, True), (0, True), (-1, False)])
def test_a_grace_period_is_not_negative(seconds: int, fine: bool) -> None:
    spec = {"runtimeRef": {"name": "x"}, "runtimePatches": patched(terminationGracePeriodSeconds=seconds)}
    job = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "j"}, "spec": spec}
    fields = [error.field for error in validate(job).errors]
    assert bool(fields) is not fine
    assert all(field.endswith("terminationGracePeriodSeconds") for field in fields)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"value": ""}, {"value": ""}, id="46"),
        pytest.param({}, {"value": ""}, id="nothing"),
        pytest.param(
            {"value": "x", "valueFrom": {"fieldRef": {"fieldPath": "a", "apiVersion": "v1"}}},
            {"valueFrom": {"fieldRef": {"fieldPath": "a"}}},
            id="source-wins",
        ),
        pytest.param(
            {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
            {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
            id="secret",
        ),
    ],
)
def test_variables_of_the_job_as_they_arrive(given: dict[str, Any], expected: dict[str, Any]) -> None:
    result = outcome(blueprint({}), trainer={"env": [{"name": "A", **given}]})
    assert result.container()["env"] == [{"name": "A", **expected}]


def test_regular_containers_come_first_by_name() -> None:
    job = job_template(
        "node", "trainer", container("twin", image="regular"), initContainers=[container("twin"), container("only")]
    )
    (pod_set,) = PIPELINE.begin(train_job(), blueprint({}, job)).enforced(OFFLINE).pod_sets
    twin, only = pod_set.any_container("twin"), pod_set.any_container("only")
    assert twin is not None
    assert only is not None
    assert (twin.image, only.image) == ("regular", "base")
    assert pod_set.container("only") is None


def dataset(**fields: Any) -> dict[str, Any]:
    name = "dataset-initializer"
    return job_template(name, name, container(name, **fields))


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        pytest.param({"storageUri": ""}, {"STORAGE_URI": ""}, id="73"),
        pytest.param({}, {"STORAGE_URI": "own"}, id="absent"),
        pytest.param({"storageUri": "hf://a/b"}, {"STORAGE_URI": "hf://a/b"}, id="given"),
        pytest.param(
            {"storageUri": "hf://a/b", "env": [{"name": "STORAGE_URI", "value": "s3://c/d"}]},
            {"STORAGE_URI": "s3://c/d"},
            id="69",
        ),
    ],
)
def test_the_address_of_an_initializer(section: dict[str, Any], expected: dict[str, str]) -> None:
    made = blueprint({}, dataset(env=[{"name": "STORAGE_URI", "value": "own"}], volumeMounts=MOUNT), job_template())
    assert outcome(made, initializer={"dataset": section}).env("dataset-initializer", "dataset-initializer") == expected


def test_a_job_without_a_step_is_left_alone() -> None:
    named = job_template("model-initializer", None, container("model-initializer", volumeMounts=MOUNT))
    named["replicas"] = 4
    result = outcome(blueprint({}, named, job_template()), initializer={"model": {"storageUri": "hf://a/b"}})
    assert result.container("model-initializer", "model-initializer") == container(
        "model-initializer", volumeMounts=MOUNT
    )
    assert result.replicated_job("model-initializer")["replicas"] == 4


def test_the_trainers_settings_are_for_the_trainer() -> None:
    job = job_template("dataset-initializer", "dataset-initializer", container())
    trainer = {"image": "mine", "command": ["a"], "args": ["b"], "env": [{"name": "A", "value": "1"}]}
    result = outcome(blueprint({}, job, job_template()), trainer=trainer)
    assert result.container("dataset-initializer") == container()
    assert result.container()["image"] == "mine"


@pytest.mark.parametrize(("suspend", "expected"), [(True, True), (False, False), (None, None)])
def test_suspend_is_the_jobs(suspend: bool | None, expected: bool | None) -> None:
    made, job = blueprint({}, suspend=True), train_job()
    assert job.spec is not None
    job.spec.suspend = suspend
    (jobset,) = PIPELINE.begin(job, made).render(OFFLINE).components
    assert jobset.document["spec"].get("suspend") is expected


@pytest.mark.parametrize("step", ["dataset", "model"])
@pytest.mark.parametrize(("mounts", "fine"), [(MOUNT, True), ([], False)])
def test_a_claim_may_provide_the_volume(step: str, mounts: list[Any], fine: bool) -> None:
    name = f"{step}-initializer"
    claims = [{"templates": [{"metadata": {"name": "initializer"}, "spec": {}}]}]
    made = blueprint(
        {}, job_template(name, name, container(name, volumeMounts=mounts)), job_template(), volumeClaimPolicies=claims
    )
    found = verdict(made, initializer={step: {"storageUri": "hf://a/b"}})
    assert errors(found) == ([] if fine else [("spec.runtimeRef", "FieldValueInvalid")])


TEMPLATE: dict[str, Any] = {
    "coordinator": {"replicatedJob": "node"},
    "failurePolicy": {"maxRestarts": 3, "restartStrategy": "Recreate"},
    "managedBy": "kueue.x-k8s.io/multikueue",
    "network": {"publishNotReadyAddresses": True},
    "startupPolicy": {"startupPolicyOrder": "InOrder"},
    "successPolicy": {"operator": "All"},
    "ttlSecondsAfterFinished": 5,
}


def test_what_only_the_runtime_says_is_kept() -> None:
    depending = {**job_template(), "dependsOn": [{"name": "first", "status": "Complete"}], "groupName": "group"}
    jobset = outcome(blueprint({}, job_template("first", None), depending, **TEMPLATE)).object("JobSet")["spec"]
    assert {name: jobset[name] for name in TEMPLATE} == TEMPLATE
    assert jobset["replicatedJobs"][1]["dependsOn"] == depending["dependsOn"]
    assert jobset["replicatedJobs"][1]["groupName"] == "group"


@pytest.mark.parametrize("targets", [None, []])
def test_injection_without_targets_changes_nothing(targets: Any) -> None:
    policy = {"torch": {"envInjection": {"targets": targets} if targets is not None else {}}}
    assert outcome(blueprint(policy), trainer={}).env() == outcome(blueprint({"torch": {}}), trainer={}).env()


def test_targets_are_set_up_without_a_trainer_section() -> None:
    targets = [{"jobName": "helper", "containerNames": ["side"]}]
    helper = job_template("helper", None, container("side"))
    for nodes in (1, 4):
        policy = {"numNodes": nodes, "torch": {"envInjection": {"targets": targets}}}
        result = outcome(blueprint(policy, job_template(), helper))
        assert len(result.env("helper", "side")) == 5
        assert result.env("helper", "side")["PET_NNODES"] == str(nodes)
        assert "ports" not in result.container("helper", "side")


def test_torchtune_counts_the_nodes_of_the_runtime_when_it_builds() -> None:
    """As recorded: admission looks at the TrainJob's own number alone."""
    made = blueprint({"numNodes": 2, "torch": {}}, name="torchtune-llama3.2-1b")
    reference = {"name": "torchtune-llama3.2-1b", "kind": "TrainingRuntime"}
    result = outcome(
        made, runtimeRef=reference, trainer={"command": ["tune", "run"], "args": ["model.lora_attn_modules=[q]"]}
    )
    assert result.verdict.allowed
    assert result.container()["command"][3:] == ["full_finetune_distributed", "--config", "llama3_2/1B_full_multinode"]


@pytest.mark.parametrize(
    ("policy", "plain"),
    [("torch", False), ("mpi", False), ("jax", False), ("xgboost", True), ("flux", True), (None, True)],
)
def test_plain_ml_serves_who_has_no_plugin_that_does_it(policy: str | None, plain: bool) -> None:
    made = blueprint({policy: {}} if policy else {})
    alone = Pipeline(Registry.of(PlainMLPlugin()))
    info = alone.begin(train_job(trainer={"numNodes": 3, "env": [{"name": "A", "value": "1"}]}), made).enforced(OFFLINE)
    assert info.pod_sets[0].count == (3 if plain else 1)
    assert info.trainer_container is not None
    assert [variable.name for variable in info.trainer_container.env] == (["A"] if plain else [])


def test_the_jobs_variables_are_for_the_main_container() -> None:
    job = job_template("node", "trainer", container("side"), container(), initContainers=[container("first")])
    result = outcome(blueprint({}, job), trainer={"env": [{"name": "A", "value": "1"}]})
    assert {name: dict(result.env("node", name)) for name in ("side", "node", "first")} == {
        "side": {},
        "node": {"A": "1"},
        "first": {},
    }


CPU = {"limits": {"cpu": 8}}


@pytest.mark.parametrize(
    ("own", "given", "expected"),
    [
        pytest.param(CPU, {"limits": {"cpu": 9}}, {"limits": {"cpu": 9}}, id="same"),
        pytest.param(CPU, {"requests": {"cpu": 1}}, {**CPU, "requests": {"cpu": 1}}, id="apart"),
        pytest.param(CPU, {}, CPU, id="empty"),
        pytest.param(CPU, {"limits": {"memory": 0}}, {"limits": {"cpu": 8, "memory": 0}}, id="zero"),
    ],
)
def test_resources_merge_by_name(own: dict[str, Any], given: dict[str, Any], expected: dict[str, Any]) -> None:
    made = blueprint({}, job_template("node", "trainer", container(resources=own), container("side", resources=own)))
    result = outcome(made, trainer={"resourcesPerNode": given})
    assert result.container()["resources"] == expected
    assert result.container("node", "side")["resources"] == own


@pytest.mark.parametrize(
    ("nodes", "length", "excess"),
    [(1, 48, 0), (1, 49, 1), (11, 47, 0), (11, 49, 2), (1, 60, 12)],
)
def test_names_that_jobset_would_refuse_are_warned_of(nodes: int, length: int, excess: int) -> None:
    """The longest is that of a pod: 63 characters with `-node-0-0-abcde`."""
    job = train_job(f"trainer: {{numNodes: {nodes}}}", metadata={"name": "j" * length})
    made = PIPELINE.begin(job, blueprint({"numNodes": 1})).validate(OFFLINE)
    assert made.allowed
    if excess:
        (warning,) = made.warnings
        assert f"too long by {excess} characters: with replicated job node" in str(warning)
    else:
        assert made.warnings == ()
    assert PIPELINE.begin(job, blueprint({"numNodes": 1}), job).validate(OFFLINE).warnings == ()
