# SPDX-License-Identifier: Apache-2.0
"""Gang scheduling: members, requests, queues and priorities."""

from typing import Any

import pytest

from tests.unit.plugins.blueprints import PIPELINE, blueprint, container, errors, job_template, outcome, verdict
from trainwright.api.jobset.v1alpha2 import StartupPolicy
from trainwright.api.kubernetes.core.v1 import Container, PodSpec, ResourceRequirements
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.trainer.v1alpha1 import TrainingRuntime
from trainwright.plugins.contract import ClusterFacts, FactUnavailable, Reference
from trainwright.plugins.contract.facts import Unreadable
from trainwright.plugins.contract.podset import pod_requests
from trainwright.plugins.testing import train_job

KINDS = ("coscheduling", "volcano")
QUEUE = "scheduling.volcano.sh/queue-name"


def requesting(**amounts: Any) -> dict[str, Any]:
    return {"resources": {"requests": amounts}}


JOBS = (
    job_template("node", "trainer", container(**requesting(cpu="500m", memory="1Gi"))),
    job_template("extra", None, container("x", **requesting(cpu="250m", memory="512Mi"))),
)


def gang(kind: str, *jobs: dict[str, Any], metadata: Any = None, nodes: int = 2, **settings: Any) -> TrainingRuntime:
    made = blueprint({"numNodes": nodes}, *(jobs or JOBS), gang={kind: settings})
    if metadata is not None:
        assert made.spec is not None
        assert made.spec.template is not None
        made.spec.template.metadata = ObjectMeta(annotations=metadata)
    return made


def announced(made: TrainingRuntime) -> tuple[Reference, ...]:
    return PIPELINE.begin(train_job(), made).admission_references()


def requests(restart: str | None = None, **amounts: Any) -> Container:
    return Container(name="c", restart_policy=restart, resources=ResourceRequirements(requests=amounts))


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (PodSpec(containers=[requests(cpu="500m"), requests(cpu=1, memory="1Gi")]), {"cpu": "1500m", "memory": "1Gi"}),
        (PodSpec(containers=[requests(cpu=2)], init_containers=[requests(cpu=5)]), {"cpu": "5"}),
        (PodSpec(containers=[requests(cpu=2)], init_containers=[requests("Always", cpu=1)]), {"cpu": "3"}),
        (
            PodSpec(containers=[requests(cpu=1)], init_containers=[requests("Always", cpu=1), requests(cpu=3)]),
            {"cpu": "4"},
        ),
        (
            PodSpec(containers=[requests(cpu=1)], init_containers=[requests(cpu=3), requests("Always", cpu=1)]),
            {"cpu": "3"},
        ),
        (PodSpec(containers=[requests(cpu=2)], overhead={"cpu": "250m"}), {"cpu": "2250m"}),
        (
            PodSpec(
                containers=[requests(cpu=2, memory="1Gi")],
                resources=ResourceRequirements(requests={"cpu": 7, "nvidia.com/gpu": 1}),
            ),
            {"cpu": "7", "memory": "1Gi"},
        ),
        (PodSpec(containers=[Container(name="c", resources=ResourceRequirements(limits={"cpu": 4}))]), {}),
    ],
)
def test_requests_of_a_pod(pod: PodSpec, expected: dict[str, str]) -> None:
    assert {name: amount.canonical() for name, amount in pod_requests(pod).items()} == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_gang_counts_pods_and_requests(kind: str) -> None:
    group = outcome(gang(kind)).object("PodGroup")
    assert group["metadata"]["name"] == "job"
    assert group["spec"]["minMember"] == 3
    assert group["spec"]["minResources"] == {"cpu": "1250m", "memory": "2560Mi"}
    assert group["metadata"]["ownerReferences"][0]["controller"] is True
    assert "labels" not in group["metadata"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_pod_requests_is_what_the_scheduler_counts(kind: str) -> None:
    """Limits do not count, an init container does where it needs more, overhead comes on top, and the job's win."""
    initializer = job_template(
        "dataset-initializer",
        "dataset-initializer",
        container("dataset-initializer", resources={"limits": {"cpu": 9, "memory": "9Gi"}}),
    )
    main = job_template(
        "node",
        "trainer",
        container(**requesting(cpu=2)),
        container("side", **requesting(memory="1Gi")),
        initContainers=[container("init", **requesting(cpu=5))],
        overhead={"cpu": "250m"},
    )
    trainer = {"numNodes": 3, "resourcesPerNode": {"requests": {"memory": "2Gi"}}}
    group = outcome(gang(kind, initializer, main), trainer=trainer).object("PodGroup")
    assert group["spec"]["minMember"] == 4
    assert group["spec"]["minResources"] == {"cpu": "15750m", "memory": "9Gi"}


def test_initializers_are_counted_and_replicas_are_not() -> None:
    extra = job_template("extra", None)
    extra["replicas"] = 5
    jobs = (job_template("model-initializer", "model-initializer", container("model-initializer")), extra)
    group = outcome(gang("coscheduling", *jobs, *JOBS[:1])).object("PodGroup")
    assert group["spec"]["minMember"] == 4


def test_marks_of_the_schedulers_keep_the_other_labels() -> None:
    main = job_template()
    main["template"]["spec"]["template"]["metadata"] = {"labels": {"mine": "1"}}
    result = outcome(gang("coscheduling", main, job_template("other", None)))
    pods = [result.replicated_job(name)["template"]["spec"]["template"] for name in ("node", "other")]
    assert [pod["metadata"]["labels"] for pod in pods] == [
        {"mine": "1", "scheduling.x-k8s.io/pod-group": "job"},
        {"scheduling.x-k8s.io/pod-group": "job"},
    ]
    annotated = outcome(gang("volcano", main)).replicated_job()["template"]["spec"]["template"]["metadata"]
    assert annotated == {"labels": {"mine": "1"}, "annotations": {"scheduling.k8s.io/group-name": "job"}}


def test_a_mark_that_replaces_another_is_a_conflict() -> None:
    key, path = "scheduling.x-k8s.io/pod-group", "spec.replicatedJobs[{}].template.spec.template.metadata.labels[{}]"
    own = job_template()
    own["template"]["spec"]["template"]["metadata"] = {"labels": {key: "mine"}}
    metadata = {"metadata": {"labels": {key: "theirs"}}}
    jobs = [{"name": "other", "template": {"spec": {"template": metadata}}}]
    patch = {"manager": "a.com/x", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    result = outcome(gang("coscheduling", own, job_template("other", None)), runtimePatches=[patch])
    assert [str(conflict) for conflict in result.rendering.overrides] == [
        f"{path.format('node', key)}: the value of CoScheduling replaces the one of the runtime",
        f"{path.format('other', key)}: the value of CoScheduling replaces the one of the patch of a.com/x",
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("suspend", "live", "built"),
    [(False, None, True), (False, {"metadata": {}}, False), (True, {"metadata": {}}, True)],
)
def test_a_group_with_running_pods_is_left_alone(kind: str, suspend: bool, live: Any, built: bool) -> None:
    facts = ClusterFacts(dict.fromkeys(announced(gang(kind)), live))
    result = outcome(gang(kind), facts=facts, suspend=suspend)
    assert ("PodGroup" in [component.resource.kind for component in result.rendering.components]) is built


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_that_cannot_be_read_is_tried_again(kind: str) -> None:
    facts = {ref: Unreadable("down") if ref.resource.kind == "PodGroup" else None for ref in announced(gang(kind))}
    with pytest.raises(FactUnavailable, match="PodGroup team/job cannot be read: down"):
        PIPELINE.begin(train_job(), gang(kind)).render(ClusterFacts(facts))


def test_no_requests_are_an_empty_object() -> None:
    group = outcome(gang("coscheduling", job_template())).object("PodGroup")
    assert group["spec"]["minResources"] == {}


@pytest.mark.parametrize("policy", [None, {}])
def test_without_a_policy_there_is_no_group(policy: Any) -> None:
    result = outcome(blueprint({}, gang=policy))
    assert [component.resource.kind for component in result.rendering.components] == ["JobSet"]
    assert "metadata" not in result.replicated_job()["template"]["spec"]["template"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"networkTopology": {"mode": "soft"}}, {"mode": "soft", "highestTierAllowed": 1}, id="default"),
        pytest.param(
            {"networkTopology": {"mode": "hard", "highestTierAllowed": 3}},
            {"mode": "hard", "highestTierAllowed": 3},
            id="given",
        ),
    ],
)
def test_volcano_carries_the_topology(settings: dict[str, Any], expected: Any) -> None:
    spec = outcome(gang("volcano", **settings)).object("PodGroup")["spec"]
    assert spec.get("networkTopology") == expected
    assert "scheduleTimeoutSeconds" not in spec


def test_a_tier_that_was_never_defaulted_is_left_out() -> None:
    made = gang("volcano", networkTopology={"mode": "hard"})
    assert made.spec is not None
    assert made.spec.pod_group_policy is not None
    assert made.spec.pod_group_policy.volcano is not None
    topology = made.spec.pod_group_policy.volcano.network_topology
    assert topology is not None
    topology.highest_tier_allowed = None
    assert outcome(made).object("PodGroup")["spec"]["networkTopology"] == {"mode": "hard"}


@pytest.mark.parametrize(("given", "expected"), [({}, 60), ({"scheduleTimeoutSeconds": 5}, 5)])
def test_coscheduling_waits_as_long_as_the_policy_says(given: dict[str, Any], expected: int) -> None:
    assert outcome(gang("coscheduling", **given)).object("PodGroup")["spec"]["scheduleTimeoutSeconds"] == expected


@pytest.mark.parametrize(
    ("own", "patched", "expected"), [(None, None, None), ("gold", None, "gold"), ("gold", "iron", "iron")]
)
def test_the_queue_is_an_annotation_that_patches_may_change(own: Any, patched: Any, expected: Any) -> None:
    template = {"metadata": {"annotations": {QUEUE: patched}}}
    patches = [{"manager": "a.com/x", "trainingRuntimeSpec": {"template": template}}] if patched else []
    result = outcome(gang("volcano", metadata={QUEUE: own} if own else None), runtimePatches=patches)
    assert result.object("PodGroup")["spec"].get("queue") == expected
    assert result.object("JobSet")["metadata"].get("annotations", {}).get(QUEUE) == expected


def test_a_queue_has_a_name() -> None:
    found = errors(verdict(gang("volcano", metadata={QUEUE: ""})))
    assert found == [(f"spec.annotations[{QUEUE}]", "FieldValueInvalid")]
    assert errors(verdict(gang("coscheduling", metadata={QUEUE: ""}))) == []


def classes(first: str, second: str) -> TrainingRuntime:
    jobs = (job_template("first", None, priorityClassName=first), job_template(priorityClassName=second))
    return gang("volcano", *jobs)


def test_the_last_priority_class_counts() -> None:
    assert outcome(classes("p1", "p2")).object("PodGroup")["spec"]["priorityClassName"] == "p2"


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        pytest.param("high", "missing", 2, id="173"),
        pytest.param("system-node-critical", "missing", 1, id="174"),
        pytest.param("system-node-critical", "system-cluster-critical", 0, id="built-in"),
    ],
)
def test_every_priority_class_must_exist(first: str, second: str, found: int) -> None:
    made = classes(first, second)
    verdict = PIPELINE.begin(train_job(), made).validate(ClusterFacts(dict.fromkeys(announced(made))))
    assert errors(verdict) == [("spec.templateSpec.priorityClassName", "FieldValueInvalid")] * found


def test_only_admission_asks_for_priority_classes() -> None:
    """They are read live, so a reconcile must not ask for them."""
    made = classes("urgent", "urgent")
    build = PIPELINE.begin(train_job(), made).references()
    assert {str(reference) for reference in build} == {"JobSet team/job", "PodGroup team/job"}
    assert [str(reference) for reference in announced(made) if reference not in build] == ["PriorityClass urgent"]


def test_objects_come_in_the_order_of_applying() -> None:
    made = blueprint(
        {"numNodes": 2, "mpi": {}}, job_template("launcher", None), job_template(), gang={"coscheduling": {}}
    )
    rendering = outcome(made).rendering
    assert [c.resource.kind for c in rendering.components] == ["ConfigMap", "Secret", "PodGroup", "JobSet"]
    assert [c.plugin for c in rendering.components] == ["MPI", "MPI", "CoScheduling", "JobSet"]


def warnings(made: TrainingRuntime) -> list[str]:
    found = verdict(made)
    assert errors(found) == []
    return [str(warning) for warning in found.warnings]


def scheduled(scheduler: str | None) -> dict[str, Any]:
    made = job_template("node", "trainer", container())
    if scheduler is not None:
        made["template"]["spec"]["template"]["spec"]["schedulerName"] = scheduler
    return made


@pytest.mark.parametrize(
    ("kind", "scheduler", "warned"),
    [
        ("volcano", None, "scheduler default-scheduler"),
        ("volcano", "scheduler-plugins-scheduler", "scheduler scheduler-plugins-scheduler"),
        ("volcano", "volcano", None),
        ("volcano", "volcano-of-mine", None),
        ("coscheduling", None, None),
        ("coscheduling", "scheduler-plugins-scheduler", None),
        ("coscheduling", "volcano", "scheduler volcano"),
    ],
)
def test_pods_that_ask_for_a_scheduler_without_gangs_are_warned_of(
    kind: str, scheduler: str | None, warned: str | None
) -> None:
    found = warnings(gang(kind, scheduled(scheduler)))
    assert len(found) == (warned is not None)
    assert all(warned in text and "schedulerName" in text and len(text) < 300 for text in found if warned)


def test_a_gang_with_an_order_is_warned_of() -> None:
    first = job_template("node", "trainer", container())
    second = {**job_template("after", None, container("x")), "dependsOn": [{"name": "node", "status": "Complete"}]}
    (found,) = warnings(gang("coscheduling", first, second))
    assert "2 pods" in found or "3 pods" in found
    assert "replicated job after waits" in found
    assert len(found) < 300
    ordered = gang("coscheduling", first, job_template("after", None, container("x")))
    assert warnings(ordered) == []
    assert ordered.spec is not None
    assert ordered.spec.template is not None
    assert ordered.spec.template.spec is not None
    ordered.spec.template.spec.startup_policy = StartupPolicy(startup_policy_order="InOrder")
    assert len(warnings(ordered)) == 1


def test_two_gang_schedulers_are_warned_of_once() -> None:
    made = blueprint({"numNodes": 2}, scheduled("volcano"), gang={"coscheduling": {}, "volcano": {}})
    assert sum("two gang schedulers" in text for text in warnings(made)) == 1
