# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: ARG002 - hooks have the parameters of the contract
"""What a plugin does wrong while a job goes through it costs that job an error with the plugin's name, and no more."""

import inspect
import json
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from tests.cases import cases
from trainwright.api.base import Resource
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap, EnvVar, Secret
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import Trainer, TrainJob
from trainwright.plugins.contract import (
    OFFLINE,
    ClusterFacts,
    Component,
    FactUnavailable,
    Finding,
    Info,
    Plugin,
    PodRef,
    Reference,
    Refusal,
    Runtime,
    Warned,
    forbidden,
    invalid,
)
from trainwright.plugins.contract.errors import DuplicateObject, InputMutated, PluginFailure
from trainwright.plugins.contract.podset import pod_spec
from trainwright.plugins.contract.points import EXTENSION_POINTS
from trainwright.plugins.jobset import JobSetPlugin
from trainwright.plugins.pipeline import Pipeline, PipelineRun, filled_in
from trainwright.plugins.plainml import PlainMLPlugin
from trainwright.plugins.progressfile import ProgressFilePlugin
from trainwright.plugins.registry import Registry, built_in, calling
from trainwright.plugins.testing import run, runtime, train_job

CASES = cases(__file__)


def hook(name: str, run: Callable[..., Any]) -> Plugin:
    """A plugin with one hook."""

    def method(_: object, *arguments: Any) -> Any:
        return run(*arguments)

    method.__signature__ = inspect.signature(getattr(EXTENSION_POINTS[name], name))  # type: ignore[attr-defined]
    made: Any = type("Broken", (), {"name": "Broken", name: method})
    plugin: Plugin = made()
    return plugin


def begun(*plugins: Plugin) -> PipelineRun:
    return Pipeline(Registry.of(*plugins)).begin(train_job(), runtime())


class Broken:
    name = "Broken"


def raises(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


def _builds_and_fails(_: Info, job: TrainJob) -> Iterable[Component]:
    yield Component.owned_by(job, ConfigMap.RESOURCE, "a", {})
    raise KeyError("gone")


def _spoils(_: object, job: TrainJob) -> None:
    job.spec = None


def builds(resource: Resource, name: str, document: Document) -> Plugin:
    """A plugin that makes an object of the job."""
    return hook("build", lambda _, job: [Component.owned_by(job, resource, name, document)])


NAMELESS = Component(ConfigMap.RESOURCE, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})
REFUSES = hook("enforce_ml_policy", raises(Refusal("needs at least two nodes; set spec.trainer.numNodes")))


@pytest.mark.parametrize(
    ("plugin", "error", "message"),
    [
        (
            hook("enforce_ml_policy", raises(KeyError("gone"))),
            PluginFailure,
            "enforce_ml_policy failed: KeyError: 'gone'",
        ),
        (hook("build", _builds_and_fails), PluginFailure, "build failed: KeyError: 'gone'"),
        (
            builds(ConfigMap.RESOURCE, "a", {"data": {"x": object()}}),
            PluginFailure,
            "build returned a document that cannot be applied: TypeError",
        ),
        (
            hook("build", lambda *_: [NAMELESS]),
            PluginFailure,
            "build returned a document that cannot be applied: KeyError: 'name'",
        ),
        (
            builds(ConfigMap.RESOURCE, "a", {"kind": "Secret"}),
            PluginFailure,
            "build returned a Secret of v1 as a ConfigMap of v1",
        ),
        (
            hook("build", lambda *_: [{"kind": "ConfigMap"}]),
            PluginFailure,
            "build returned {'kind': 'ConfigMap'} instead of a Component",
        ),
        (
            hook("enforce_ml_policy", lambda _, job: setattr(job.spec, "trainer", Trainer(num_nodes=99))),
            InputMutated,
            "enforce_ml_policy changed the TrainJob, which is an input",
        ),
        (
            hook("enforce_pod_spec", lambda info, _: setattr(info.runtime.spec.ml_policy, "num_nodes", 99)),
            InputMutated,
            "enforce_pod_spec changed the runtime, which is an input",
        ),
        (
            hook("enforce_ml_policy", lambda info, _: setattr(info.ml_policy, "num_nodes", 99)),
            InputMutated,
            "enforce_ml_policy changed the runtime, which is an input",
        ),
        (REFUSES, Refusal, "needs at least two nodes; set spec.trainer.numNodes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_error_has_the_name_of_the_plugin(plugin: Plugin, error: type[Exception], message: str) -> None:
    job, blueprint = train_job("trainer: {image: a}"), runtime()
    before = job.deepcopy(), blueprint.deepcopy()

    with pytest.raises(error) as raised:
        run(plugin, job=job, runtime=blueprint)

    assert str(raised.value).startswith(f"plugin Broken: {message}")
    assert (job, blueprint) == before


def test_an_object_that_two_plugins_build_names_both() -> None:
    with pytest.raises(DuplicateObject, match="plugin JobSet: JobSet job was already built by Broken"):
        run(builds(JobSet.RESOURCE, "job", {}))


def _yields(info: Info, job: TrainJob) -> Any:
    yield info


def _sets(name: str, value: object) -> Callable[..., None]:
    """Sets an attribute of the first container in the template, whatever the model says of it."""

    def change(info: Info, _: TrainJob) -> None:
        setattr(_container(info), name, value)

    return change


def _container(info: Info) -> Any:
    pod = pod_spec((info.template.replicated_jobs or [])[0])
    assert pod is not None
    return pod.containers[0]


def _secret(job: TrainJob, name: str, kind: str) -> Component:
    return Component.owned_by(job, Secret.RESOURCE, name, {"type": kind}, generate=lambda document: document)


_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}
THING = Resource(group="example.com", version="v1", kind="Thing", plural="things", namespaced=True)


@pytest.mark.parametrize(
    ("name", "result", "said"),
    [
        ("uses_facts", lambda *_: [(THING, "", "a")], " instead of a Reference"),
        ("validation_facts", lambda *_: None, "returned None instead of several items, each a Reference"),
        ("validate", lambda *_: None, "returned None instead of several items, each a finding"),
        ("validate_shaped", lambda *_: "no", "returned 'n' instead of a finding"),
        ("enforce_ml_policy", _yields, "returned <generator object _yields> instead of None: it changes info"),
        ("enforce_pod_spec", lambda *_: True, "returned True instead of None"),
        (
            "enforce_ml_policy",
            _sets("image", 5),
            "no JobSet: Expected `str | null`, got `int` - at `$.replicatedJobs[0].",
        ),
        ("enforce_ml_policy", _sets("env", {"A": "b"}), "no JobSet: Expected `array | null`, got `object` - at `$."),
        ("enforce_ml_policy", _sets("env", [object()]), "no JobSet: "),
        (
            "enforce_pod_spec",
            lambda info, _: setattr(info, "template", None),
            "no JobSet: Expected `object`, got `null`",
        ),
        ("enforce_pod_spec", lambda info, _: info.template.replicated_jobs.clear(), "those of the runtime are node"),
        ("validate", lambda *_: [Warned(5)], "returned Warned(message=5, plugin='', path=''), which cannot be written"),  # type: ignore[arg-type]
        ("validate", lambda *_: [Warned("\udc80")], "which cannot be written as text"),
        ("validate_shaped", lambda *_: [invalid("spec", object(), "no")], "which cannot be written as text"),
        ("reporter", lambda *_: PodRef("node", 0, 1), "but the template has no such pod"),
        ("reporter", lambda *_: PodRef("node", -1), "but the template has no such pod"),
        ("reporter", lambda *_: "node", "returned 'node' instead of a PodRef or None"),
        ("reporter", lambda *_: PodRef("worker"), "but the template has no replicated job of this name"),
        ("build", lambda *_: None, "returned None instead of several items, each a Component"),
        ("build", lambda _, job: [Component.owned_by(job, THING, "a", {})], "no plugin watches this kind"),
        ("build", lambda _, job: [_secret(job, "job-mpi-ssh-auth", "Opaque")], "which is not declared"),
        (
            "build",
            lambda *_: [Component(ConfigMap.RESOURCE, {**_MAP, "metadata": {"name": "a"}})],
            "returned ConfigMap a; an object of a job must be in its namespace, team",
        ),
        ("build", lambda *_: [Component("things", {})], "returned a document that cannot be applied"),  # type: ignore[arg-type]
        ("status_facts", lambda *_: [None], "returned None instead of a Reference"),
        ("status", lambda *_: {}, "returned {} instead of a TrainJobStatus or None"),
    ],
)
def test_a_result_of_another_type_is_the_fault_of_its_plugin(name: str, result: Any, said: str) -> None:
    pipeline = Pipeline(Registry.of(hook(name, result), PlainMLPlugin(), ProgressFilePlugin()))
    job, blueprint = train_job(metadata={"annotations": {"trainwright.dev/progress": "file"}}), runtime()
    run, status = pipeline.begin(job, blueprint), pipeline.begin_status(job)
    errors: list[str] = []
    for step in (
        run.admission_references,
        lambda: run.render(OFFLINE),
        status.references,
        lambda: status.status(OFFLINE),
    ):
        try:
            step()
        except PluginFailure as failure:
            errors.append(str(failure))
    errors += map(str, run.validate(OFFLINE).errors)
    assert [one for one in errors if f"plugin Broken: {name} " not in one or said not in one] == []
    assert errors


def test_what_a_plugin_prints_is_no_part_of_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    run(hook("enforce_ml_policy", lambda *_: print("hello")))
    out, err = capsys.readouterr()
    assert (out, "hello\n" in err) == ("", True)


class Waits(Broken):
    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        while True:
            with suppress(Exception):
                time.sleep(60)


class Leaves(Broken):
    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        sys.exit("bye")


class Decodes(Broken):
    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        json.loads("{")


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        (Waits(), "did not return within 0.05 s"),
        (Leaves(), "failed: SystemExit: bye"),
        (Decodes(), "failed: JSONDecodeError: Expecting"),
    ],
)
def test_what_a_plugin_does_to_the_process_is_an_error_with_its_line(
    plugin: Plugin, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "LIMIT_SECONDS", 0.05)
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(PluginFailure, match=f"plugin Broken: enforce_ml_policy {said}") as raised:
        run(plugin)
    code = type(plugin).enforce_ml_policy.__code__  # type: ignore[attr-defined]
    [line] = re.findall(r"\((?:[\w/]+/)?test_containment\.py, line (\d+)\)$", str(raised.value))
    assert int(line) in {line for _, _, line in code.co_lines()}
    assert signal.getsignal(signal.SIGALRM) is before


def test_generated_content_that_fails_is_attributed_too() -> None:
    def fails(document: Document) -> Document:
        raise KeyError(document["kind"])

    component = Component.owned_by(train_job(), Secret.RESOURCE, "key", {}, generate=fails)
    said = r"plugin Broken: generate of Secret team/key failed: KeyError: 'Secret' \(.*test_containment.py, line \d+\)"
    with pytest.raises(PluginFailure, match=said):
        filled_in(replace(component, plugin="Broken"))


@pytest.mark.parametrize(
    ("plugin", "path", "type_"),
    [
        (hook("validate", raises(Refusal("that is no number"))), "spec", "FieldValueInvalid"),
        (hook("validate", raises(FactUnavailable("the API server is away"))), "", "InternalError"),
    ],
)
def test_declared_errors_of_a_validation_are_told_apart(plugin: Plugin, path: str, type_: str) -> None:
    (error,) = begun(plugin).validate(OFFLINE).errors
    assert (error.path, error.type.value, error.plugin) == (path, type_, "Broken")


def _warns_and_fails(*_: object) -> Iterable[Finding]:
    yield Warned("so far so good")
    raise KeyError("gone")


class Strict:
    name = "Strict"

    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        yield invalid("spec.trainer", None, "no")


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (hook("validate", _warns_and_fails), "plugin Broken: validate failed: KeyError: 'gone'"),
        (hook("validate", lambda *_: ["bad"]), "plugin Broken: validate returned 'bad' instead of a finding"),
    ],
)
def test_a_failing_validation_refuses_by_name_and_the_others_are_asked(plugin: Plugin, message: str) -> None:
    verdict = begun(plugin, Strict()).validate(OFFLINE)

    assert [(error.plugin, error.type.value) for error in verdict.errors] == [
        ("Broken", "InternalError"),
        ("Strict", "FieldValueInvalid"),
    ]
    assert message in str(verdict.errors[0])


def test_of_what_is_refused_no_warning_is_given_and_one_warning_is_enough() -> None:
    warns = hook("validate", lambda *_: [Warned("is ignored", path="spec.trainer"), Warned("twice"), Warned("twice")])
    told = [[one.message for one in begun(*some).validate(OFFLINE).warnings] for some in ([warns], [warns, Strict()])]
    assert told == [["is ignored", "twice"], ["twice"]]


def _spoils_and_warns(_: Info, __: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
    job.spec = None
    yield Warned("seen")


def _spoils_and_asks(job: TrainJob, _: Runtime) -> Iterable[Reference]:
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


def test_the_plugin_that_changed_an_input_is_named_and_not_the_one_that_failed_because_of_it() -> None:
    with pytest.raises(InputMutated, match="plugin Broken: enforce_ml_policy changed the TrainJob"):
        begun(hook("enforce_ml_policy", _spoils), NeedsSpec()).render(OFFLINE)


def test_a_validation_that_changes_an_input_is_named_and_the_others_get_it_unchanged() -> None:
    verdict = begun(hook("validate", _spoils_and_warns), NeedsSpec()).validate(OFFLINE)
    (error,) = verdict.errors
    assert "plugin Broken: validate changed the TrainJob, which is an input" in str(error)
    assert [(str(warning), warning.plugin) for warning in verdict.warnings] == [("blueprint", "Needs")]


def test_a_check_of_the_outcome_that_changes_an_input_is_named() -> None:
    verdict = begun(hook("validate_shaped", _spoils_and_warns), NeedsSpec()).validate(OFFLINE)
    assert [str(error).partition("; ")[0] for error in verdict.errors] == [
        "Internal error: plugin Broken: validate_shaped changed the TrainJob, which is an input"
    ]


def test_what_one_phase_spoilt_does_not_reach_the_next() -> None:
    run = begun(hook("uses_facts", _spoils_and_asks), NeedsSpec())
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
        begun(Moody()).render(OFFLINE)


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
    for plugin in (Strict(), REFUSES):
        verdict = begun(LimitsPods(0), plugin).validate(OFFLINE)
        assert [error.plugin for error in verdict.errors] == [plugin.name]


def test_a_failing_check_of_the_outcome_is_attributed_too() -> None:
    (error,) = begun(hook("validate_shaped", raises(KeyError("gone")))).validate(OFFLINE).errors
    assert "plugin Broken: validate_shaped failed: KeyError: 'gone'" in str(error)


def test_what_cannot_be_built_is_refused_at_creation_and_a_warning_later() -> None:
    pipeline, job = Pipeline(Registry.of(REFUSES)), train_job()

    created = pipeline.begin(job, runtime()).validate(OFFLINE)
    updated = pipeline.begin(job, runtime(), job).validate(OFFLINE)

    assert [error.plugin for error in created.errors] == ["Broken"]
    assert updated.allowed
    assert "needs at least two nodes" in str(updated.warnings[0])


def test_a_message_stays_readable() -> None:
    with pytest.raises(PluginFailure) as raised:
        run(hook("enforce_ml_policy", raises(ValueError("x" * 5000))))
    assert len(str(raised.value)) == 300


def test_a_failing_status_is_attributed_too() -> None:
    with pytest.raises(PluginFailure, match="plugin Broken: status failed: ZeroDivisionError: never"):
        Pipeline(Registry.of(hook("status", raises(ZeroDivisionError("never"))))).begin_status(train_job()).status(
            OFFLINE
        )


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


class SetsTemplate(Broken):
    """It writes into the template past the methods of the model, and through one of them."""

    def enforce_pod_spec(self, info: Info, job: TrainJob) -> None:
        assert info.template.replicated_jobs is not None
        assert info.trainer_container is not None
        pod = pod_spec(info.template.replicated_jobs[0])
        pod.host_network = True
        pod.node_selector = {"pool": "a"}
        pod.containers[0].env = [EnvVar(name="MODE", value="direct")]
        info.trainer_container.set_env("LEVEL", "1", why="a test")


def test_what_is_set_in_the_template_directly_is_attributed_too() -> None:
    result = run(SetsEnv(), SetsTemplate())
    pod = "spec.replicatedJobs[node].template.spec.template.spec"
    assert {(one.path.removeprefix(pod), one.plugin, one.phase, one.why) for one in result.rendering.settings} == {
        (".hostNetwork", "Broken", "enforce_pod_spec", "set in info.template"),
        (".nodeSelector[pool]", "Broken", "enforce_pod_spec", "set in info.template"),
        (".containers[node].env[MODE]", "Broken", "enforce_pod_spec", "set in info.template"),
        (".containers[node].env[LEVEL]", "Broken", "enforce_pod_spec", "a test"),
    }
    assert [str(one) for one in result.verdict.warnings] == [
        f"{CONTAINER}.env[MODE]: the value of Broken replaces the one of SetsEnv"
    ]


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


PET = "$(PET_MASTER_ADDR)"


@pytest.mark.parametrize(("policy", "own", "given", "said"), CASES["a_reference_that_stays"])
def test_a_reference_that_stays_as_it_is_written_is_a_warning(
    policy: dict[str, Any], own: list[dict[str, str]], given: dict[str, str], said: list[str]
) -> None:
    blueprint = runtime(
        RUNTIME_WITH.replace("CONTAINER", f"{{name: node, image: base, env: {own}}}"),
        mlPolicy={"numNodes": 2, **policy},
    )
    env = [{"name": name, "value": value} for name, value in given.items()]
    pipeline = Pipeline(Registry.load(candidates=built_in()))
    warnings = pipeline.begin(train_job(trainer={"env": env}), blueprint).validate(OFFLINE).warnings
    assert [str(one).startswith(start) for one, start in zip(warnings, said, strict=True)] == [True] * len(said)
    if policy == {"torch": {}} and PET in str(given) and said:
        assert "PET_MASTER_ADDR comes after it, set by Torch; refer to it" in str(warnings[0])


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
