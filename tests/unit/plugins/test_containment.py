# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: ARG002 - hooks have the parameters of the contract
"""What a plugin does wrong while a job goes through it costs that job an error with the plugin's name, and no more."""

from collections.abc import Iterable
from typing import Any

import pytest

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.trainer.v1alpha1 import Trainer, TrainJob
from trainwright.plugins.contract import (
    OFFLINE,
    ClusterFacts,
    Component,
    DuplicateObject,
    FactUnavailable,
    Finding,
    Info,
    InputMutated,
    Plugin,
    PluginFailure,
    Reference,
    Refusal,
    Runtime,
    Warned,
    forbidden,
    invalid,
)
from trainwright.plugins.jobset import JobSetPlugin
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.plainml import PlainMLPlugin
from trainwright.plugins.registry import Registry
from trainwright.plugins.testing import run, runtime, train_job


class Broken:
    name = "Broken"

    def _fail(self) -> Any:
        raise KeyError("gone")


class FailsInPolicy(Broken):
    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        self._fail()


class FailsInBuild(Broken):
    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        yield Component.owned_by(job, ConfigMap.RESOURCE, "a", {})
        self._fail()


class NotSerialisable(Broken):
    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        yield Component.owned_by(job, ConfigMap.RESOURCE, "a", {"data": {"x": object()}})


class Nameless(Broken):
    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        yield Component(ConfigMap.RESOURCE, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})


class OtherKind(Broken):
    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        yield Component.owned_by(job, ConfigMap.RESOURCE, "a", {"kind": "Secret"})


class NoComponent(Broken):
    def build(self, info: Info, job: TrainJob) -> Any:
        return [{"kind": "ConfigMap"}]


class MutatesJob(Broken):
    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        assert job.spec is not None
        job.spec.trainer = Trainer(num_nodes=99)


class MutatesRuntime(Broken):
    def enforce_pod_spec(self, info: Info, job: TrainJob) -> None:
        assert info.runtime.spec is not None
        assert info.runtime.spec.ml_policy is not None
        info.runtime.spec.ml_policy.num_nodes = 99


class MutatesPolicy(Broken):
    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        assert info.ml_policy is not None
        info.ml_policy.num_nodes = 99


class Refuses(Broken):
    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        raise Refusal("needs at least two nodes; set spec.trainer.numNodes")


class Duplicates(Broken):
    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        yield Component.owned_by(job, JobSet.RESOURCE, job.name, {})


@pytest.mark.parametrize(
    ("plugin", "error", "message"),
    [
        (FailsInPolicy(), PluginFailure, "plugin Broken: enforce_ml_policy failed: KeyError: 'gone'"),
        (FailsInBuild(), PluginFailure, "plugin Broken: build failed: KeyError: 'gone'"),
        (
            NotSerialisable(),
            PluginFailure,
            "plugin Broken: build returned a document that cannot be applied: TypeError",
        ),
        (
            Nameless(),
            PluginFailure,
            "plugin Broken: build returned a document that cannot be applied: KeyError: 'name'",
        ),
        (OtherKind(), PluginFailure, "plugin Broken: build returned a Secret of v1 as a ConfigMap of v1"),
        (NoComponent(), PluginFailure, "plugin Broken: build returned {'kind': 'ConfigMap'} instead of a Component"),
        (MutatesJob(), InputMutated, "plugin Broken: enforce_ml_policy changed the TrainJob, which is an input"),
        (MutatesRuntime(), InputMutated, "plugin Broken: enforce_pod_spec changed the runtime, which is an input"),
        (MutatesPolicy(), InputMutated, "plugin Broken: enforce_ml_policy changed the runtime, which is an input"),
        (Refuses(), Refusal, "plugin Broken: needs at least two nodes; set spec.trainer.numNodes"),
        (Duplicates(), DuplicateObject, "plugin JobSet: JobSet job was already built by Broken"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, (str, type)) else "",
)
def test_an_error_has_the_name_of_the_plugin(plugin: Plugin, error: type[Exception], message: str) -> None:
    job, blueprint = train_job("trainer: {image: a}"), runtime()
    before = job.deepcopy(), blueprint.deepcopy()

    with pytest.raises(error) as raised:
        run(plugin, job=job, runtime=blueprint)

    assert str(raised.value).startswith(message)
    assert (job, blueprint) == before


class FailsInValidate(Broken):
    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        yield Warned("so far so good")
        self._fail()


class RefusesToValidate(Broken):
    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        raise Refusal("that is no number")


class AsksInVain(Broken):
    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        raise FactUnavailable("the API server is away")


@pytest.mark.parametrize(
    ("plugin", "path", "type_"),
    [(RefusesToValidate(), "spec", "FieldValueInvalid"), (AsksInVain(), "", "InternalError")],
)
def test_declared_errors_of_a_validation_are_told_apart(plugin: Plugin, path: str, type_: str) -> None:
    (error,) = Pipeline(Registry.of(plugin)).begin(train_job(), runtime()).validate(OFFLINE).errors
    assert (error.path, error.type.value, error.plugin) == (path, type_, "Broken")


class GivesNonsense(Broken):
    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Any:
        return ["bad"]


class Strict:
    name = "Strict"

    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        yield invalid("spec.trainer", None, "no")


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (FailsInValidate(), "plugin Broken: validate failed: KeyError: 'gone'"),
        (GivesNonsense(), "plugin Broken: validate returned 'bad' instead of a finding"),
    ],
)
def test_a_failing_validation_refuses_by_name_and_the_others_are_asked(plugin: Plugin, message: str) -> None:
    verdict = Pipeline(Registry.of(plugin, Strict())).begin(train_job(), runtime()).validate(OFFLINE)

    assert [(error.plugin, error.type.value) for error in verdict.errors] == [
        ("Broken", "InternalError"),
        ("Strict", "FieldValueInvalid"),
    ]
    assert message in str(verdict.errors[0])


class MutatesInValidate(Broken):
    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        job.spec = None
        yield Warned("seen")


class MutatesOutcome(Broken):
    def validate_shaped(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        job.spec = None
        yield Warned("seen")


class MutatesInFacts(Broken):
    def uses_facts(self, job: TrainJob, runtime: Runtime) -> Iterable[Reference]:
        job.spec = None
        yield Reference(ConfigMap.RESOURCE, "", "a")


class NeedsSpec:
    """Runs after Broken, and fails where that plugin has spoilt the job."""

    name = "Needs"
    after = ("Broken",)

    def uses_facts(self, job: TrainJob, runtime: Runtime) -> Iterable[Reference]:
        yield Reference(ConfigMap.RESOURCE, "", self._name(job))

    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        yield Warned(self._name(job))

    def validate_shaped(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        yield Warned(f"{self._name(job)}, shaped")

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        self._name(job)

    def _name(self, job: TrainJob) -> str:
        assert job.spec is not None
        return job.spec.runtime_ref.name


class SpoilsPolicy(Broken):
    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        job.spec = None


def test_the_plugin_that_changed_an_input_is_named_and_not_the_one_that_failed_because_of_it() -> None:
    with pytest.raises(InputMutated, match="plugin Broken: enforce_ml_policy changed the TrainJob"):
        Pipeline(Registry.of(SpoilsPolicy(), NeedsSpec())).begin(train_job(), runtime()).render(OFFLINE)


def test_a_validation_that_changes_an_input_is_named_and_the_others_get_it_unchanged() -> None:
    verdict = Pipeline(Registry.of(MutatesInValidate(), NeedsSpec())).begin(train_job(), runtime()).validate(OFFLINE)
    (error,) = verdict.errors
    assert "plugin Broken: validate changed the TrainJob, which is an input" in str(error)
    assert [(str(warning), warning.plugin) for warning in verdict.warnings] == [("blueprint", "Needs")]


def test_a_check_of_the_outcome_that_changes_an_input_is_named() -> None:
    verdict = Pipeline(Registry.of(MutatesOutcome(), NeedsSpec())).begin(train_job(), runtime()).validate(OFFLINE)
    assert [str(error).partition("; ")[0] for error in verdict.errors] == [
        ": Internal error: plugin Broken: validate_shaped changed the TrainJob, which is an input"
    ]


def test_what_one_phase_spoilt_does_not_reach_the_next() -> None:
    run = Pipeline(Registry.of(MutatesInFacts(), NeedsSpec())).begin(train_job(), runtime())
    with pytest.raises(InputMutated, match="plugin Broken: uses_facts changed the TrainJob"):
        run.references()
    assert run.render(OFFLINE).components == ()
    assert [str(warning) for warning in run.validate(OFFLINE).warnings] == ["blueprint", "blueprint, shaped"]


def test_a_change_that_does_not_happen_again_is_an_error_without_a_name() -> None:
    class Moody(Broken):
        calls = 0

        def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
            Moody.calls += 1
            if Moody.calls == 1:
                job.spec = None

    with pytest.raises(InputMutated, match="a plugin changed the TrainJob, which is an input, but not when"):
        Pipeline(Registry.of(Moody())).begin(train_job(), runtime()).render(OFFLINE)


class LimitsPods:
    """Judges the outcome: how many pods there will be."""

    name = "Limits"

    def __init__(self, most: int) -> None:
        self._most = most

    def validate_shaped(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        assert info.trainer_pods is not None
        template = (info.template.replicated_jobs or [])[0].template
        assert template.spec is not None
        if info.trainer_pods.count > self._most:
            yield forbidden("spec.trainer.numNodes", f"{template.spec.parallelism} pods are too many")
        else:
            yield Warned(f"{template.spec.parallelism} pods")


def test_a_check_of_the_outcome_sees_what_all_plugins_made_of_the_template() -> None:
    job = train_job("trainer: {numNodes: 3}")
    plugins = (PlainMLPlugin(), JobSetPlugin())
    refused = Pipeline(Registry.of(LimitsPods(2), *plugins)).begin(job, runtime()).validate(OFFLINE)
    assert [(str(error), error.plugin) for error in refused.errors] == [
        ("spec.trainer.numNodes: Forbidden: 3 pods are too many", "Limits")
    ]
    allowed = Pipeline(Registry.of(LimitsPods(3), *plugins)).begin(job, runtime()).validate(OFFLINE)
    assert (allowed.errors, [str(warning) for warning in allowed.warnings]) == ((), ["3 pods"])


def test_the_outcome_is_not_judged_where_there_is_none() -> None:
    """Neither of a job that `validate` refuses, nor of one whose template cannot be shaped."""
    for plugin in (Strict(), Refuses()):
        verdict = Pipeline(Registry.of(LimitsPods(0), plugin)).begin(train_job(), runtime()).validate(OFFLINE)
        assert [error.plugin for error in verdict.errors] == [plugin.name]


class FailsOnTheOutcome(Broken):
    def validate_shaped(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        self._fail()
        yield Warned("never")


def test_a_failing_check_of_the_outcome_is_attributed_too() -> None:
    (error,) = Pipeline(Registry.of(FailsOnTheOutcome())).begin(train_job(), runtime()).validate(OFFLINE).errors
    assert "plugin Broken: validate_shaped failed: KeyError: 'gone'" in str(error)


def test_what_cannot_be_built_is_refused_at_creation_and_a_warning_later() -> None:
    pipeline, job = Pipeline(Registry.of(Refuses())), train_job()

    created = pipeline.begin(job, runtime()).validate(OFFLINE)
    updated = pipeline.begin(job, runtime(), job).validate(OFFLINE)

    assert [error.plugin for error in created.errors] == ["Broken"]
    assert updated.allowed
    assert "needs at least two nodes" in str(updated.warnings[0])


def test_a_message_stays_readable() -> None:
    class Talkative(Broken):
        def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
            raise ValueError("x" * 5000)

    with pytest.raises(PluginFailure) as raised:
        run(Talkative())
    assert len(str(raised.value)) == 300


class Status:
    name = "Status"

    def status(self, job: TrainJob, facts: ClusterFacts) -> None:
        raise ZeroDivisionError("never")


def test_a_failing_status_is_attributed_too() -> None:
    with pytest.raises(PluginFailure, match="plugin Status: status failed: ZeroDivisionError: never"):
        Pipeline(Registry.of(Status())).begin_status(train_job()).status(OFFLINE)


class SetsLabel:
    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self._value = value

    def enforce_pod_group_policy(self, info: Info, job: TrainJob) -> None:
        info.set_pod_label("group", self._value, why="a test")


class SetsEnv:
    name = "SetsEnv"

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        container = info.trainer_container
        assert container is not None
        container.set_env("MODE", "plugin", why="a test")


CONTAINER = "spec.replicatedJobs[node].template.spec.template.spec.containers[node]"


@pytest.mark.parametrize(
    ("plugins", "job", "env", "expected"),
    [
        ([SetsLabel("A", "1"), SetsLabel("B", "2")], "", [], ["the value of B replaces the one of A"]),
        ([SetsLabel("A", "1"), SetsLabel("B", "1")], "", [], []),
        (
            [SetsEnv()],
            "trainer: {env: [{name: MODE, value: user}]}",
            [],
            [f"{CONTAINER}.env[MODE]: the value of the TrainJob replaces the one of SetsEnv"],
        ),
        (
            [SetsEnv()],
            "",
            [{"name": "MODE", "value": "runtime"}],
            [f"{CONTAINER}.env[MODE]: the value of SetsEnv replaces the one of the runtime"],
        ),
        ([], "trainer: {env: [{name: MODE, value: user}]}", [{"name": "MODE", "value": "runtime"}], []),
    ],
)
def test_conflicts_name_both_sides(
    plugins: list[Plugin], job: str, env: list[dict[str, str]], expected: list[str]
) -> None:
    blueprint = runtime()
    if env:
        text = f"{{name: node, image: base, env: {env}}}"
        blueprint = runtime(RUNTIME_WITH.replace("CONTAINER", text))

    result = run(*plugins, job=train_job(job), runtime=blueprint)

    assert [text for text in expected if not any(text in str(c) for c in result.rendering.overrides)] == []
    assert len(result.rendering.overrides) == len(expected)
    assert [str(w) for w in result.verdict.warnings] == [str(c) for c in result.rendering.overrides]


RUNTIME_WITH = """
spec:
  mlPolicy: {numNodes: 1}
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec: {template: {spec: {containers: [CONTAINER]}}}
"""


class AsksForTheJobSet(Broken):
    name = "Curious"

    def uses_facts(self, job: TrainJob, runtime: Runtime) -> Iterable[Reference]:
        yield Reference(JobSet.RESOURCE, job.namespace, job.name)


@pytest.mark.parametrize(("others", "alone"), [((), True), ((AsksForTheJobSet(),), False)])
def test_a_plugin_that_asks_for_the_same_object_is_known(others: tuple[Any, ...], alone: bool) -> None:
    pipeline = Pipeline(Registry.of(PlainMLPlugin(), JobSetPlugin(), *others))
    job = train_job()
    begun = pipeline.begin(job, runtime())
    [reference] = begun.references()
    assert begun.is_asked_by(reference, "JobSet") is alone
    [component] = begun.render(ClusterFacts({reference: None})).components
    assert component.settled
