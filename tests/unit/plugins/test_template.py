# SPDX-License-Identifier: Apache-2.0
"""Parts of the pipeline that its documents do not show, and what no rendering of tests/conformance can say."""

from typing import Any

import msgspec
import pytest
import yaml

from tests.cases import cases
from tests.repository import ROOT
from tests.unit.plugins.blueprints import PIPELINE, blueprint, container, job_template, outcome
from trainwright.api.kubernetes.core.v1 import Container, ContainerPort, EnvVar, VolumeMount
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime
from trainwright.controller.cli.rendering.schemas import validate
from trainwright.plugins.contract import OFFLINE, ContainerModel
from trainwright.plugins.contract.container import Ledger, upsert_port
from trainwright.plugins.contract.errors import PipelineError
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.pipeline.template import in_merge_order
from trainwright.plugins.plainml import PlainMLPlugin
from trainwright.plugins.registry import Registry, Selection, built_in
from trainwright.plugins.testing import Result, runtime, train_job

CASES = cases(__file__)

RECOVERY = Registry.load(Selection(enabled=frozenset({"Recovery"})), built_in())


@pytest.mark.parametrize(("base", "patched", "expected"), CASES["the_order_of_merged_lists"])
def test_the_order_of_merged_lists(base: str, patched: str, expected: str) -> None:
    untouched = [name for name in base if name not in patched]
    assert "".join(in_merge_order(list(base), untouched, list(patched))) == expected


@pytest.mark.parametrize(
    ("subdomain", "replicas", "count", "expected"),
    [
        (None, 1, 5, [f"job-node-0-{i}.job" for i in range(5)]),
        ("kubeflow.org", 1, 1, ["job-node-0-0.kubeflow.org"]),
        (None, 2, 2, [f"job-node-{r}-{i}.job" for r in (0, 1) for i in (0, 1)]),
    ],
)
def test_host_names(subdomain: str | None, replicas: int, count: int, expected: list[str]) -> None:
    network: dict[str, Any] = {"network": {"subdomain": subdomain}} if subdomain else {}
    made = blueprint({"numNodes": count}, {**job_template(), "replicas": replicas}, **network)
    (pods,) = PIPELINE.begin(train_job(), made).enforced(OFFLINE).pod_sets
    assert list(pods.hosts()) == expected


def ports(*given: tuple[str | None, int]) -> list[ContainerPort]:
    return [ContainerPort(name=name, container_port=number) for name, number in given]


@pytest.mark.parametrize(("base", "new", "expected"), CASES["ports"])
def test_ports(base: list[Any], new: tuple[str | None, int], expected: list[Any]) -> None:
    items = ports(*base)
    upsert_port(items, *ports(new))
    assert [[port.name, port.container_port] for port in items] == expected


def test_mounts_are_keyed_by_path_and_variables_by_name() -> None:
    mounts, env = [VolumeMount(name="a", mount_path="/x")], [EnvVar(name="A", value="1"), EnvVar(name="B")]
    model = ContainerModel(Container(name="c", volume_mounts=mounts, env=env), "c", Ledger())
    model.set_mount(VolumeMount(name="b", mount_path="/x"), why="")
    model.set_mount(VolumeMount(name="b", mount_path="/y"), why="")
    assert [(mount.name, mount.mount_path) for mount in model.mounts] == [("b", "/x"), ("b", "/y")]
    model.set_env("A", "", why="")
    assert [(item.name, item.value) for item in model.env] == [("A", ""), ("B", None)]


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


def test_a_job_without_a_spec_and_a_runtime_without_a_template_are_said_so() -> None:
    wanted = train_job()
    (component,) = PIPELINE.begin(wanted, TrainingRuntime()).render(OFFLINE).components
    assert component.document["spec"] == {"suspend": False}
    wanted.spec = None
    with pytest.raises(PipelineError, match="the TrainJob has no spec"):
        PIPELINE.begin(wanted, runtime()).render(OFFLINE)


def test_a_job_that_says_nothing_of_its_suspension_leaves_it_out() -> None:
    job = train_job()
    assert job.spec is not None
    job.spec.suspend = None
    (jobset,) = PIPELINE.begin(job, blueprint({}, suspend=True)).render(OFFLINE).components
    assert "suspend" not in jobset.document["spec"]


@pytest.mark.parametrize(("seconds", "fine"), [(300, True), (0, True), (-1, False)])
def test_a_grace_period_is_not_negative(seconds: int, fine: bool) -> None:
    pods = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": seconds}}}}
    patch = {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": pods}]}}}
    spec = {"runtimeRef": {"name": "x"}, "runtimePatches": [{"manager": "a.com/b", "trainingRuntimeSpec": patch}]}
    job = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "j"}, "spec": spec}
    fields = [error.field for error in validate(job).errors]
    assert bool(fields) is not fine
    assert all(field.endswith("terminationGracePeriodSeconds") for field in fields)


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


def test_a_tier_that_was_never_defaulted_is_left_out() -> None:
    made = blueprint({"numNodes": 2}, gang={"volcano": {"networkTopology": {"mode": "hard"}}})
    topology = made.spec_or_empty.pod_group_policy_or_empty.volcano_or_empty.network_topology
    assert topology is not None
    topology.highest_tier_allowed = None
    assert outcome(made).object("PodGroup")["spec"]["networkTopology"] == {"mode": "hard"}


def test_only_admission_asks_for_priority_classes() -> None:
    """They are read live, so a reconcile must not ask for them."""
    run = PIPELINE.begin(train_job(), blueprint({}, job_template(priorityClassName="urgent"), gang={"volcano": {}}))
    build = run.references()
    assert {str(reference) for reference in build} == {"JobSet team/job", "PodGroup team/job"}
    assert [str(one) for one in run.admission_references() if one not in build] == ["PriorityClass urgent"]


# ---------------------------------------------------------------------- recovery over each shipped runtime


def documents() -> list[dict[str, Any]]:
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "config" / "runtimes").glob("*.yaml"))]
    found = [one for text in texts for one in yaml.safe_load_all(text) if one]
    return [one for one in found if one["kind"] == "ClusterTrainingRuntime"]


def without_recovery(spec: dict[str, Any]) -> dict[str, Any]:
    """The JobSet's spec without what the plugin sets."""
    del spec["failurePolicy"]
    for replicated in spec["replicatedJobs"]:
        job = replicated["template"]["spec"]
        for name in ("backoffLimit", "podFailurePolicy"):
            job.pop(name, None)
        pod = job["template"]["spec"]
        pod.pop("restartPolicy", None)
        for one in (*pod["containers"], *pod.get("initContainers", ())):
            one.pop("terminationMessagePolicy", None)
            if env := [var for var in one.pop("env", ()) if not var["name"].startswith("TRAINWRIGHT_ATTEMPT")]:
                one["env"] = env
    return spec


@pytest.mark.parametrize("document", documents(), ids=lambda one: one["metadata"]["name"])
def test_recovery_changes_nothing_else_of_a_shipped_runtime(document: dict[str, Any]) -> None:
    made = msgspec.convert(document, ClusterTrainingRuntime)
    made.set_defaults()
    made, spec = made.typed(), "trainer: {numNodes: 2}"
    plain = PIPELINE.begin(train_job(spec), made).render(OFFLINE)
    marks = {"annotations": {"trainwright.dev/recovery": "gang"}}
    run = Pipeline(RECOVERY).begin(train_job(spec, metadata=marks), made)
    gang = Result(run.validate(OFFLINE), run.render(OFFLINE))
    assert not gang.verdict.errors
    assert not [one for one in map(str, gang.verdict.warnings) if "kept" in one or "Recovery" in one]
    wanted = gang.object("JobSet")["spec"]
    ruled = {name for rule in wanted["failurePolicy"]["rules"][:2] for name in rule["targetReplicatedJobs"]}
    for replicated in wanted["replicatedJobs"]:
        is_step = replicated["name"].endswith("-initializer")
        assert (replicated["name"] in ruled) is not is_step
        assert (replicated["template"]["spec"].get("backoffLimit") == 0) is not is_step
    (jobset,) = [one.document for one in plain.components if one.resource.kind == "JobSet"]
    assert without_recovery(wanted) == jobset["spec"]


def test_recovery_needs_no_rights_and_asks_for_no_fact() -> None:
    """What the manager knows of attempts comes with the other facts."""
    (plugin,) = (entry for entry in RECOVERY if entry.name == "Recovery")
    assert plugin.rules == ()
    assert plugin.hooks == ("validate", "enforce_pod_spec")
