# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: ARG002 - hooks have the parameters of the contract
"""What a plugin does wrong while a job goes through it costs that job an error with the plugin's name, and no more."""

from collections.abc import Iterable
from typing import Any

import pytest

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
    Refusal,
    Warned,
    invalid,
    owned_metadata,
)
from trainwright.plugins.pipeline import Pipeline
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
        yield Component({"apiVersion": "v1", "kind": "ConfigMap", "metadata": owned_metadata(job, "a")})
        self._fail()


class NotSerialisable(Broken):
    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        data = {"x": object()}
        yield Component({"apiVersion": "v1", "kind": "ConfigMap", "metadata": owned_metadata(job, "a"), "data": data})


class Nameless(Broken):
    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        yield Component({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})


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
        metadata = owned_metadata(job, job.name)
        yield Component({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata})


@pytest.mark.parametrize(
    ("plugin", "error", "message"),
    [
        (FailsInPolicy(), PluginFailure, "plugin Broken: enforce_ml_policy failed: KeyError: 'gone'"),
        (FailsInBuild(), PluginFailure, "plugin Broken: build failed: KeyError: 'gone'"),
        (NotSerialisable(), PluginFailure, "plugin Broken: build gave a document that cannot be applied: TypeError"),
        (Nameless(), PluginFailure, "plugin Broken: build gave a document that cannot be applied: KeyError: 'name'"),
        (NoComponent(), PluginFailure, "plugin Broken: build gave {'kind': 'ConfigMap'}, which is no Component"),
        (MutatesJob(), InputMutated, "plugin Broken: enforce_ml_policy changed the TrainJob, which is an input"),
        (MutatesRuntime(), InputMutated, "plugin Broken: enforce_pod_spec changed the runtime, which is an input"),
        (MutatesPolicy(), InputMutated, "plugin Broken: enforce_ml_policy changed the runtime, which is an input"),
        (Refuses(), Refusal, "plugin Broken: needs at least two nodes; set spec.trainer.numNodes"),
        (Duplicates(), DuplicateObject, "plugin JobSet: JobSet job was built by Broken already"),
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
    (error,) = Pipeline(Registry.of(plugin)).validate(train_job(), runtime(), OFFLINE).errors
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
        (GivesNonsense(), "plugin Broken: validate gave 'bad', which is no finding"),
    ],
)
def test_a_failing_validation_refuses_by_name_and_the_others_are_asked(plugin: Plugin, message: str) -> None:
    verdict = Pipeline(Registry.of(plugin, Strict())).validate(train_job(), runtime(), OFFLINE)

    assert [(error.plugin, error.type.value) for error in verdict.errors] == [
        ("Broken", "InternalError"),
        ("Strict", "FieldValueInvalid"),
    ]
    assert message in str(verdict.errors[0])


def test_what_cannot_be_built_is_refused_at_creation_and_a_warning_later() -> None:
    pipeline, job = Pipeline(Registry.of(Refuses())), train_job()

    created = pipeline.validate(job, runtime(), OFFLINE)
    updated = pipeline.validate(job, runtime(), OFFLINE, old=job)

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
        Pipeline(Registry.of(Status())).status(train_job(), OFFLINE)


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

    assert [text for text in expected if not any(text in str(c) for c in result.rendering.conflicts)] == []
    assert len(result.rendering.conflicts) == len(expected)
    assert [str(w) for w in result.verdict.warnings] == [str(c) for c in result.rendering.conflicts]


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
