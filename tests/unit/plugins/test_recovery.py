# SPDX-License-Identifier: Apache-2.0
"""The plugin Recovery: what `trainwright.dev/recovery: gang` becomes, and which annotations are refused."""

from typing import Any

import msgspec
import pytest
import yaml

from tests.repository import ROOT
from tests.unit.plugins.blueprints import PIPELINE as PLAIN
from tests.unit.plugins.blueprints import blueprint, container, job_template
from trainwright.api.config.v1alpha1 import Recovery
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob
from trainwright.plugins.contract import OFFLINE, ClusterFacts, RecoveryFacts
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection, built_in
from trainwright.plugins.testing import Result, train_job

RUNTIMES = sorted((ROOT / "config" / "runtimes").glob("*.yaml"))
GANG = {"recovery": "gang"}
ONE = {"numNodes": 1}
TARGET = {"type": "DisruptionTarget", "status": "True"}


def pipeline(**settings: Any) -> Pipeline:
    chosen = {"Recovery": Recovery(**settings)} if settings else {}
    return Pipeline(Registry.load(Selection(enabled=frozenset({"Recovery"}), settings=chosen), candidates=built_in()))


PIPELINE = pipeline()


def marked(spec: str = "", **annotations: str) -> TrainJob:
    """A job with annotations: `exit_codes` stands for `trainwright.dev/exit-codes`."""
    marks = {f"trainwright.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return train_job(spec, metadata={"annotations": marks})


def outcome(
    made: TrainingRuntime | ClusterTrainingRuntime,
    job: TrainJob,
    *,
    old: TrainJob | None = None,
    pipeline: Pipeline = PIPELINE,
) -> Result:
    run = pipeline.begin(job, made, old)
    return Result(run.validate(OFFLINE), run.render(OFFLINE))


def rules(result: Result) -> dict[str, Any]:
    policy: dict[str, Any] = result.object("JobSet")["spec"]["failurePolicy"]
    return policy


def warnings(result: Result) -> list[str]:
    return [str(one) for one in result.verdict.warnings]


def codes(*values: int) -> dict[str, Any]:
    return {"action": "FailJob", "onExitCodes": {"operator": "In", "values": list(values)}}


def test_what_it_becomes() -> None:
    made = blueprint(
        ONE,
        job_template("model-initializer", "model-initializer", container("model-initializer")),
        job_template("node", "trainer", container(), initContainers=[container("first")]),
    )
    asked = marked(**GANG, retries="5", exit_codes="75=free, 3=final,126=final, 2=final")
    result = outcome(made, asked)
    assert not result.verdict.errors
    assert not result.verdict.warnings
    job = result.replicated_job()["template"]["spec"]
    assert job["backoffLimit"] == 0
    assert job["podFailurePolicy"] == {
        "rules": [{"action": "FailJob", "onPodConditions": [TARGET]}, codes(2, 3, 126, 127), codes(75)]
    }
    assert result.pod()["restartPolicy"] == "Never"
    for name in ("node", "first"):
        assert result.container(name=name)["terminationMessagePolicy"] == "FallbackToLogsOnError"
    by_rule = {"onJobFailureReasons": ["PodFailurePolicy"], "targetReplicatedJobs": ["node"]}
    matching = "matching FailJob rule at index"
    assert rules(result) == {
        "maxRestarts": 5,
        "restartStrategy": "BlockingRecreate",
        "rules": [
            {
                "name": "infra",
                "action": "RestartJobSetAndIgnoreMaxRestarts",
                "onJobFailureMessagePatterns": [f"{matching} 0$", f"{matching} 2$"],
                **by_rule,
            },
            {
                "name": "final",
                "action": "FailJobSet",
                "onJobFailureMessagePatterns": [f"{matching} 1$"],
                **by_rule,
            },
            {"name": "steps", "action": "FailJobSet", "targetReplicatedJobs": ["model-initializer"]},
        ],
    }
    steps = result.replicated_job("model-initializer")["template"]["spec"]
    assert "backoffLimit" not in steps
    assert "podFailurePolicy" not in steps
    assert "restartPolicy" not in steps["template"]["spec"]
    assert "terminationMessagePolicy" not in result.container("model-initializer", "model-initializer")


def test_without_free_codes_and_initializers_their_rules_are_left_out() -> None:
    result = outcome(blueprint(ONE), marked(**GANG))
    assert len(result.replicated_job()["template"]["spec"]["podFailurePolicy"]["rules"]) == 2
    assert [rule["name"] for rule in rules(result)["rules"]] == ["infra", "final"]
    assert rules(result)["rules"][0]["onJobFailureMessagePatterns"] == ["matching FailJob rule at index 0$"]
    assert rules(result)["maxRestarts"] == 3


def documents() -> list[dict[str, Any]]:
    found = [one for path in RUNTIMES for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]
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
def test_over_each_shipped_runtime_nothing_else_changes(document: dict[str, Any]) -> None:
    made = msgspec.convert(document, ClusterTrainingRuntime)
    made.set_defaults()
    made = made.typed()
    spec = "trainer: {numNodes: 2}"
    plain = PLAIN.begin(train_job(spec), made).render(OFFLINE)
    gang = outcome(made, marked(spec, **GANG))
    assert not gang.verdict.errors
    assert not [one for one in warnings(gang) if "kept" in one or "Recovery" in one]
    ruled = {name for rule in rules(gang)["rules"][:2] for name in rule["targetReplicatedJobs"]}
    for replicated in gang.object("JobSet")["spec"]["replicatedJobs"]:
        is_step = replicated["name"].endswith("-initializer")
        assert (replicated["name"] in ruled) is not is_step
        assert (replicated["template"]["spec"].get("backoffLimit") == 0) is not is_step
    (jobset,) = [one.document for one in plain.components if one.resource.kind == "JobSet"]
    assert without_recovery(gang.object("JobSet")["spec"]) == jobset["spec"]


@pytest.mark.parametrize(
    "annotations", [{}, {"recovery": "none"}, {"retries": "5"}, {"recovery": "none", "retries": "5"}]
)
def test_jobs_that_do_not_ask_are_as_without_the_plugin(annotations: dict[str, str]) -> None:
    made = blueprint(ONE)
    assert (
        outcome(made, marked(**annotations)).rendering.components
        == PLAIN.begin(marked(**annotations), made).render(OFFLINE).components
    )


def test_the_annotation_of_the_job_goes_before_that_of_the_runtime_and_the_configuration() -> None:
    made = blueprint(ONE)
    assert made.metadata is not None
    few = pipeline(default_retries=1, max_retries=20)
    assert rules(outcome(made, marked(**GANG), pipeline=few))["maxRestarts"] == 1
    made.metadata.annotations = {"trainwright.dev/recovery": "gang", "trainwright.dev/retries": "7"}
    assert rules(outcome(made, marked(), pipeline=few))["maxRestarts"] == 7
    assert rules(outcome(made, marked(retries="9"), pipeline=few))["maxRestarts"] == 9
    assert "failurePolicy" not in outcome(made, marked(recovery="none"), pipeline=few).object("JobSet")["spec"]


def test_a_failure_policy_of_the_runtime_is_kept() -> None:
    own = {"maxRestarts": 9}
    result = outcome(blueprint(ONE, failurePolicy=own), marked(**GANG))
    assert rules(result) == {**own, "restartStrategy": "Recreate"}
    job = result.replicated_job()["template"]["spec"]
    # Its rules look at reasons of Jobs, which would be others.
    assert "podFailurePolicy" not in job
    assert (job["backoffLimit"], result.pod()["restartPolicy"]) == (0, "Never")
    (warning,) = warnings(result)
    assert warning.startswith("the runtime's spec.failurePolicy is kept, so trainwright.dev/retries and ")


@pytest.mark.parametrize(
    ("field", "job", "pod"),
    [
        ("podFailurePolicy", {"podFailurePolicy": {"rules": [codes(42)]}}, {"restartPolicy": "Never"}),
        ("template.spec.restartPolicy", {}, {"restartPolicy": "OnFailure"}),
        ("backoffLimitPerIndex", {"backoffLimitPerIndex": 2}, {"restartPolicy": "Never"}),
        ("podReplacementPolicy", {"podReplacementPolicy": "TerminatingOrFailed"}, {}),
    ],
)
def test_rules_of_the_runtime_for_its_pods_are_kept(field: str, job: dict[str, Any], pod: dict[str, Any]) -> None:
    one = job_template("node", "trainer", container(), **pod)
    one["template"]["spec"].update(job)
    made = blueprint(ONE, job_template("helper", None), one)
    result = outcome(made, marked(**GANG))
    kept = result.replicated_job()["template"]["spec"]
    assert {name: kept[name] for name in job} == job
    assert {name: result.pod()[name] for name in pod} == pod
    assert "backoffLimit" not in kept
    assert (kept.get("podFailurePolicy") is None) is (field != "podFailurePolicy")
    # The indexes of its rules are not ours.
    assert [rule["targetReplicatedJobs"] for rule in rules(result)["rules"]] == [["helper"], ["helper"]]
    (warning,) = warnings(result)
    assert warning == (
        f"the runtime's spec.replicatedJobs[node].template.spec.{field} is kept, so the rules of recovery do not apply "
        "to the pods of node"
    )


def test_without_any_rule_of_ours_the_jobset_has_none() -> None:
    made = blueprint(ONE, job_template("node", "trainer", container(), restartPolicy="OnFailure"))
    assert "rules" not in rules(outcome(made, marked(**GANG)))


def test_a_back_off_limit_of_the_runtime_is_replaced_and_a_message_policy_kept() -> None:
    one = job_template("node", "trainer", container(terminationMessagePolicy="File"))
    one["template"]["spec"]["backoffLimit"] = 4
    result = outcome(blueprint(ONE, one), marked(**GANG))
    assert result.replicated_job()["template"]["spec"]["backoffLimit"] == 0
    assert result.container()["terminationMessagePolicy"] == "File"
    (warning,) = warnings(result)
    assert "backoffLimit: the value of Recovery replaces the one of the runtime" in warning


@pytest.mark.parametrize(
    ("annotations", "name", "told"),
    [
        ({"retries": "many"}, "retries", "must be a whole number from 0 to 100"),
        ({"retries": "-1"}, "retries", "must be a whole number from 0 to 100"),
        ({"retries": "1.5"}, "retries", "must be a whole number from 0 to 100"),
        ({"retries": "101"}, "retries", "must be a whole number from 0 to 100"),
        ({"retries": "21"}, "retries", "must be at most 20, by the administrator's Configuration"),
        ({"recovery": "always"}, "recovery", "must be one of none, gang"),
        *(
            ({"exit_codes": codes}, "exit-codes", told)
            for codes, told in (
                ("0=final", "0 is success; must be numbers from 1 to 255"),
                ("1=free,256=free", "must be codes from 1 to 255 with free or final, such as 75=free,3=final"),
                ("", "must be codes from 1 to 255 with free or final, such as 75=free,3=final"),
                ("75", "must be codes from 1 to 255 with free or final, such as 75=free,3=final"),
                ("127=free", "127 is the exit code of a program that cannot run, which always ends the job"),
                ("75=free,75=final", "75 is named twice"),
            )
        ),
        ({"checkpoints": "ckpt"}, "checkpoints", "must be pvc://CLAIM/PATH, an absolute path or an address"),
        ({"checkpoints": "pvc://c/../x"}, "checkpoints", "must be pvc://CLAIM/PATH, an absolute path or an address"),
    ],
)
def test_annotations_that_are_refused(annotations: dict[str, str], name: str, told: str) -> None:
    asked = marked(**{**GANG, **annotations})
    some = pipeline(max_retries=20)
    result = outcome(blueprint(ONE), asked, pipeline=some)
    (error,) = result.verdict.errors
    assert (error.path, error.message) == (f"metadata.annotations[trainwright.dev/{name}]", told)
    assert str(error).startswith(f"{error.path}: Invalid value: ")
    # On a job that exists, and in a runtime, it is ignored.
    late = outcome(blueprint(ONE), asked, old=marked(**GANG), pipeline=some)
    assert not late.verdict.errors
    assert f"annotation trainwright.dev/{name} is ignored: " in " ".join(warnings(late))
    made = blueprint(ONE)
    assert made.metadata is not None
    assert asked.metadata is not None
    made.metadata.annotations = asked.metadata.annotations
    theirs = outcome(made, marked(), pipeline=some)
    assert not theirs.verdict.errors
    assert any(
        one.startswith(f"the runtime's annotation trainwright.dev/{name} is ignored: ") for one in warnings(theirs)
    )


def test_the_codes_of_the_job_replace_those_of_the_runtime() -> None:
    made = blueprint(ONE)
    assert made.metadata is not None
    made.metadata.annotations = {"trainwright.dev/exit-codes": "75=free,76=free"}
    result = outcome(made, marked(**GANG, exit_codes="75=final"))
    assert not result.verdict.errors
    assert result.replicated_job()["template"]["spec"]["podFailurePolicy"]["rules"][1:] == [codes(75, 126, 127)]


def test_annotations_without_effect_are_warned_of() -> None:
    assert warnings(outcome(blueprint(ONE), marked(retries="2"))) == [
        "annotation trainwright.dev/retries has no effect without trainwright.dev/recovery: gang"
    ]
    late = outcome(blueprint(ONE), marked(**GANG, retries="2"), old=marked(**GANG))
    (warning,) = warnings(late)
    assert warning == (
        "the change of annotation trainwright.dev/retries has no effect on this TrainJob: the rules of its JobSet are "
        "fixed once it exists; delete the TrainJob and create it again"
    )


def test_a_job_that_says_how_long_it_may_be_silent_has_its_stalled_ranks_restarted() -> None:
    """Scenario 64."""
    asks = {"name": "TRAINWRIGHT_ON_STALL", "value": "restart"}
    # The writer of progress prints where it stands when its rank is stopped.
    assert asks in outcome(blueprint(ONE), marked(**GANG, progress_stall_after="15m")).container()["env"]
    assert "TRAINWRIGHT_ON_STALL" not in attempts_told(marked(**GANG))
    assert "env" not in outcome(blueprint(ONE), marked(progress_stall_after="15m")).container()


def attempts_told(asked: TrainJob) -> dict[str, str]:
    """The variables of the trainer container, with their values or the fields that they come from."""
    env = outcome(blueprint(ONE), asked).container().get("env", ())
    return {one["name"]: one.get("value") or one["valueFrom"]["fieldRef"]["fieldPath"] for one in env}


@pytest.mark.parametrize(
    ("annotations", "is_told"),
    [(GANG, True), ({"checkpoints": "/c"}, True), ({**GANG, "checkpoints": "/c"}, True), ({"recovery": "none"}, False)],
)
def test_each_job_that_recovers_learns_its_attempt(annotations: dict[str, str], is_told: bool) -> None:
    told = attempts_told(marked(**annotations))
    expected = {
        "TRAINWRIGHT_ATTEMPT": "metadata.labels['jobset.sigs.k8s.io/restart-attempt']",
        "TRAINWRIGHT_ATTEMPT_BASE": "metadata.annotations['trainwright.dev/attempt-base']",
    }
    assert {name: field for name, field in told.items() if "ATTEMPT" in name} == (expected if is_told else {})


def test_what_the_manager_knows_of_attempts_goes_into_the_jobset() -> None:
    """The base of the attempts, the retries that are left, and a hold."""
    made, asked = blueprint(ONE), marked(**GANG, retries="5")
    run = PIPELINE.begin(asked, made)

    def built(**known: Any) -> dict[str, Any]:
        facts = ClusterFacts(dict.fromkeys(run.references()), recovery=RecoveryFacts(**known))
        components = run.render(facts).components
        (jobset,) = (one for one in components if one.resource.kind == "JobSet")
        spec: dict[str, Any] = jobset.document["spec"]
        return spec

    plain, later = built(), built(attempts=3, retries=2, held=True)
    assert (plain["suspend"], later["suspend"]) == (False, True)
    assert (plain["failurePolicy"]["maxRestarts"], later["failurePolicy"]["maxRestarts"]) == (5, 2)
    pod = later["replicatedJobs"][0]["template"]["spec"]["template"]
    assert pod["metadata"]["annotations"] == {"trainwright.dev/attempt-base": "3"}
    assert "annotations" not in plain["replicatedJobs"][0]["template"]["spec"]["template"].get("metadata", {})


def test_avoided_nodes_are_kept_out_beside_what_the_affinity_asks_for() -> None:
    """Scenario 42: a requirement on names takes one value, and a pod fits if one term does."""
    zones: list[Any] = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [one]}]} for one in "ab"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {required: {"nodeSelectorTerms": zones}}}
    made = blueprint(
        ONE,
        job_template("model-initializer", "model-initializer", container("model-initializer")),
        job_template("node", "trainer", container(), affinity=affinity),
    )
    run = PIPELINE.begin(marked(**GANG), made)
    known = RecoveryFacts(avoided_nodes=("gpu-1", "gpu-7"))
    facts = ClusterFacts(dict.fromkeys(run.references()), recovery=known)
    (jobset,) = (one for one in run.render(facts).components if one.resource.kind == "JobSet")
    first, ranks = (one["template"]["spec"]["template"] for one in jobset.document["spec"]["replicatedJobs"])
    names = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in ("gpu-1", "gpu-7")]
    terms = ranks["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert terms == [{**zone, "matchFields": names} for zone in zones]
    assert ranks["metadata"]["annotations"]["trainwright.dev/avoided-nodes"] == "gpu-1,gpu-7"
    assert "affinity" not in first["spec"]


@pytest.mark.parametrize(
    ("place", "folder"),
    [
        ("pvc://data/run/a", "/mnt/trainwright-checkpoints/run/a/test-job-12345678"),
        ("pvc://data", "/mnt/trainwright-checkpoints/test-job-12345678"),
        ("/shared/ckpt", "/shared/ckpt/test-job-12345678"),
        ("s3://bucket/ckpt", "s3://bucket/ckpt/test-job-12345678"),
    ],
)
def test_each_trainer_is_told_where_its_checkpoints_are(place: str, folder: str) -> None:
    """Also without `recovery: gang`; the uid keeps jobs of one name apart (scenario 56)."""
    asked = marked(checkpoints=place)
    assert asked.metadata is not None
    asked.metadata.name, asked.metadata.uid = "test-job", "12345678-90ab"
    result = outcome(blueprint(ONE), asked)
    assert not result.verdict.errors
    assert not warnings(result)
    pod = result.pod()
    container = pod["containers"][0]
    env = {one["name"]: one.get("value") or one["valueFrom"]["fieldRef"]["fieldPath"] for one in container["env"]}
    assert env["TRAINWRIGHT_CHECKPOINT_DIR"] == folder
    assert env["TRAINWRIGHT_ATTEMPT"] == "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"
    assert env["TRAINWRIGHT_ATTEMPT_BASE"] == "metadata.annotations['trainwright.dev/attempt-base']"
    mounts = [one["mountPath"] for one in container.get("volumeMounts", ())]
    claims = [one["persistentVolumeClaim"]["claimName"] for one in pod.get("volumes", ())]
    is_claim = place.startswith("pvc:")
    assert (mounts, claims) == ((["/mnt/trainwright-checkpoints"], ["data"]) if is_claim else ([], []))


def test_the_same_change_twice_changes_nothing() -> None:
    """A patch of a queue, or a second apply, builds the same objects again."""
    made = blueprint(ONE)
    patches = [
        {
            "manager": "kueue.x-k8s.io/manager",
            "trainingRuntimeSpec": {
                "template": {
                    "spec": {
                        "replicatedJobs": [
                            {
                                "name": "node",
                                "template": {
                                    "spec": {"template": {"spec": {"nodeSelector": {"pool": "a"}}}},
                                },
                            }
                        ]
                    }
                }
            },
        }
    ]
    asked = marked(**GANG)
    patched = msgspec.structs.replace(asked, spec=train_job(runtimePatches=patches).spec)
    first, again = outcome(made, patched), outcome(made, patched, old=patched)
    assert first.rendering.components == again.rendering.components
    assert rules(first) == rules(outcome(made, asked))
    assert first.pod()["nodeSelector"] == {"pool": "a"}
    assert not again.verdict.warnings


def test_the_module_has_no_part_in_the_manager() -> None:
    """It needs no rights and asks for no fact: what the manager knows comes with the others."""
    (plugin,) = (
        entry
        for entry in Registry.load(Selection(enabled=frozenset({"Recovery"})), built_in())
        if entry.name == "Recovery"
    )
    assert plugin.rules == ()
    assert plugin.hooks == ("validate", "enforce_pod_spec")
