# SPDX-License-Identifier: Apache-2.0
"""A TrainJob, its runtime and its snapshot."""

import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests import builders
from tests.builders import condition
from tests.cases import cases
from trainwright.api.kubernetes.core.v1 import ConfigMap, LimitRange
from trainwright.api.kubernetes.meta.v1 import ObjectMeta, OwnerReference
from trainwright.api.kubernetes.node.v1 import RuntimeClass
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1.runtimes import Runtime
from trainwright.controller.runtime import Key
from trainwright.controller.trainer.admission.trainjobs import TrainJobAdmission, _deprecations
from trainwright.controller.trainer.build.kinds import WatchedKinds
from trainwright.controller.trainer.build.runtimes import (
    Runtimes,
    SnapshotInvalid,
    Snapshots,
    _checked,
    _decode,
    _owned,
    _references,
)
from trainwright.plugins.contract import Enqueue, Watch
from trainwright.plugins.testing import runtime, train_job

CASES = cases(__file__)

GROUP = "trainer.kubeflow.org"


def job(**reference: Any) -> TrainJob:
    """Without defaults, as a client sends it; an API server would fill in the defaults."""
    return builders.train_job(namespace="team", runtimeRef={"name": "r", **reference})


@pytest.mark.parametrize(("reference", "expected"), CASES["filed_under"].values(), ids=CASES["filed_under"])
def test_what_a_job_is_filed_under(reference: dict[str, str], expected: list[str]) -> None:
    assert list(_references(job(**reference))) == expected


def test_a_job_without_a_spec_is_filed_nowhere() -> None:
    assert list(_references(TrainJob())) == []


def text(kind: str = "TrainingRuntime", name: str = "r", version: str = f"{GROUP}/v1alpha1") -> str:
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {{}}\n"


def owner(uid: str, **fields: Any) -> ConfigMap:
    reference = OwnerReference(api_version=f"{GROUP}/v1alpha1", kind="TrainJob", name="j", uid=uid, **fields)
    return ConfigMap(metadata=ObjectMeta(name="j-runtime-snapshot", owner_references=[reference]))


def used(found: ConfigMap, text: str) -> Runtime:
    """What `Snapshots.runtime_of` does with the ConfigMap that it has read."""
    wanted = job(kind="TrainingRuntime")
    _owned(found, wanted)
    return _checked(_decode(text, "j-runtime-snapshot", wanted), wanted, "j-runtime-snapshot")


OWN = owner("u", controller=True)


@pytest.mark.parametrize(
    ("found", "text", "message"),
    [
        pytest.param(ConfigMap(), text(), "is not controlled by this TrainJob", id="no-owner"),
        pytest.param(owner("u"), text(), "is not controlled by this TrainJob", id="no-controller"),
        pytest.param(owner("other", controller=True), text(), "is not controlled by this TrainJob", id="other-uid"),
        pytest.param(OWN, "a: [", "does not hold a runtime (line ", id="broken"),
        pytest.param(OWN, "- 1", "does not hold an object", id="no-object"),
        pytest.param(OWN, "spec: 1", "does not hold a runtime (", id="no-runtime"),
        pytest.param(
            OWN,
            text(name="x"),
            "holds TrainingRuntime x of trainer.kubeflow.org, not TrainingRuntime r of",
            id="other-name",
        ),
        pytest.param(
            owner("u", controller=True),
            text("ClusterTrainingRuntime"),
            "holds ClusterTrainingRuntime r",
            id="other-kind",
        ),
        pytest.param(
            OWN,
            text(version="b.c/v1"),
            "holds TrainingRuntime r of b.c, not TrainingRuntime r of trainer.kubeflow.org",
            id="other-group",
        ),
        pytest.param(OWN, "metadata: {name: r}", "holds an object without a kind r of no group, not", id="39-no-kind"),
    ],
)
def test_a_snapshot_that_cannot_be_used_is_said_so(found: ConfigMap, text: str, message: str) -> None:
    with pytest.raises(SnapshotInvalid, match=re.escape(message)):
        used(found, text)


@pytest.mark.parametrize("data", [None, {}, {"Runtime": "x"}])
async def test_a_snapshot_without_its_key_is_said_so(data: dict[str, str] | None) -> None:
    found = ConfigMap(metadata=OWN.metadata, data=data)

    async def get(*_: object) -> ConfigMap:
        return found

    client: Any = SimpleNamespace(get=get)
    cache: Any = SimpleNamespace(get=lambda *_: found)
    with pytest.raises(SnapshotInvalid, match="ConfigMap j-runtime-snapshot has no key runtime"):
        await Snapshots(client, cache).runtime_of(job(kind="TrainingRuntime"))


def test_a_snapshot_of_the_jobs_own_runtime_is_used() -> None:
    assert used(OWN, text()).name == "r"


@pytest.mark.parametrize(
    ("kind", "label", "warned"),
    [
        pytest.param(ClusterTrainingRuntime, "deprecated", True, id="42"),
        pytest.param(ClusterTrainingRuntime, "Deprecated", False, id="42-capital"),
        pytest.param(ClusterTrainingRuntime, "deprecated-extra", False, id="42-longer"),
        pytest.param(ClusterTrainingRuntime, "", False, id="42-empty"),
        pytest.param(TrainingRuntime, "deprecated", False, id="namespaced"),
    ],
)
def test_only_a_deprecated_cluster_runtime_is_warned_of(
    kind: type[TrainingRuntime | ClusterTrainingRuntime], label: str, warned: bool
) -> None:
    made = kind(metadata=ObjectMeta(name="r", labels={"trainer.kubeflow.org/support": label}))
    warnings = _deprecations(made)
    assert bool(warnings) is warned
    assert all("runtime.html#runtime-deprecation-policy" in warning for warning in warnings)


NOW, OLD, GIVEN = "2026-11-21T00:00:00Z", "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"


def patches(label: str, time: str | None) -> TrainJob:
    template = {"metadata": {"labels": {"a": label}}}
    entry = {"manager": "a.com/x", "trainingRuntimeSpec": {"template": template}, **({"time": time} if time else {})}
    return train_job(runtimePatches=[entry])


@pytest.mark.parametrize(
    ("old", "label", "time", "expected"),
    [
        pytest.param(None, "1", None, NOW, id="created"),
        pytest.param(None, "1", GIVEN, GIVEN, id="created-with-time"),
        pytest.param(patches("1", OLD), "1", None, OLD, id="unchanged"),
        pytest.param(patches("1", OLD), "1", GIVEN, OLD, id="unchanged-with-time"),
        pytest.param(patches("1", OLD), "2", None, NOW, id="changed"),
        pytest.param(patches("1", OLD), "2", GIVEN, NOW, id="changed-with-time"),
        pytest.param(train_job(), "1", None, NOW, id="new-manager"),
        pytest.param(train_job(), "1", GIVEN, GIVEN, id="new-manager-with-time"),
    ],
)
def test_patches_tell_when_they_changed(old: TrainJob | None, label: str, time: str | None, expected: str) -> None:
    unused: Any = None
    admission = TrainJobAdmission(
        unused, unused, unused, unused, unused, unused, unused, now=lambda: datetime(2026, 11, 21, tzinfo=UTC)
    )
    new = patches(label, time)
    request: Any = SimpleNamespace(new=new, old=old)
    admission.default(request)
    assert new.spec is not None
    assert [patch.time for patch in new.spec.runtime_patches or ()] == [expected]


async def test_a_change_of_annotations_alone_is_not_refused_and_warned_of() -> None:
    unused: Any = None
    runtimes: Any = SimpleNamespace(of=lambda _: runtime())
    admission = TrainJobAdmission(unused, unused, unused, unused, runtimes, unused, unused)
    before = {"trainwright.dev/progress": "file:relative"}
    after = {**before, "trainwright.dev/progress-stall-after": "1s"}
    old, new = (train_job(metadata={"annotations": annotations}) for annotations in (before, after))
    request: Any = SimpleNamespace(new=new, old=old)
    answer = await admission.validate(request)
    assert not answer.errors
    assert list(answer.warnings) == [
        "annotation trainwright.dev/progress-stall-after is ignored: '1s' must be a duration of 2m or more"
    ]


@pytest.mark.parametrize(("recovers", "told"), CASES["late_annotations"])
async def test_annotations_on_recovery_that_come_late_or_without_the_gate_are_warned_of(
    recovers: bool, told: str
) -> None:
    unused: Any = None
    runtimes: Any = SimpleNamespace(of=lambda _: runtime())
    admission = TrainJobAdmission(unused, unused, unused, unused, runtimes, unused, unused, recovers=recovers)
    before = {"trainwright.dev/recovery": "gang"}
    old, new = (
        train_job(metadata={"annotations": marks}) for marks in (before, {**before, "trainwright.dev/retries": "many"})
    )
    request: Any = SimpleNamespace(new=new, old=old)
    answer = await admission.validate(request)
    assert not answer.errors
    (warning,) = answer.warnings
    assert warning.startswith(told)


QUEUED = {"labels": {"kueue.x-k8s.io/queue-name": "q"}}


@pytest.mark.parametrize(("edit", "jobs", "warned"), CASES["edits_that_restart"])
def test_an_edit_of_a_runtime_that_restarts_queued_jobs_is_warned_of(
    edit: dict[str, Any], jobs: int, warned: str
) -> None:
    """Kueue computes pods from the runtime as it is now, and stops a job whose pods differ."""
    over = [condition("Complete", at=OLD)]
    others = [
        train_job(metadata={"name": "free"}),
        train_job(metadata=QUEUED, suspend=True),
        msgspec.structs.replace(
            train_job(metadata=QUEUED), status=msgspec.convert({"conditions": over}, TrainJobStatus)
        ),
    ]
    runtimes: Any = SimpleNamespace(jobs_of=lambda _: [*others, *(train_job(metadata=QUEUED) for _ in range(jobs))])
    unused: Any = None
    admission = TrainJobAdmission(unused, unused, unused, unused, runtimes, unused, unused)
    request: Any = SimpleNamespace(operation="UPDATE", old=runtime(), new=runtime(**edit))
    answer = admission.validate_runtime(request)
    assert not answer.errors
    assert "".join(answer.warnings).partition(",")[0] == warned
    request.old = None
    assert not admission.validate_runtime(request).warnings


def woken(watch: Watch, event: Any) -> list[Key]:
    special = {"runtimeClassName": "gpu"}
    blueprints = []
    for namespace in ("one", "two"):
        made = runtime(metadata={"namespace": namespace})
        assert made.spec is not None
        text = msgspec.to_builtins(made.spec.template)
        text["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] |= special
        blueprints.append(runtime(metadata={"namespace": namespace}, template=text))
    jobs = [
        train_job(suspend=suspend, metadata={"name": name, "namespace": namespace})
        for namespace in ("one", "two")
        for name, suspend in (("waits", True), ("runs", False))
    ]
    held: dict[type, list[Any]] = {TrainJob: jobs, TrainingRuntime: blueprints, ClusterTrainingRuntime: []}
    cache: Any = SimpleNamespace(
        list=lambda kind, namespace="": [item for item in held[kind] if namespace in ("", item.namespace)],
        indexed=lambda kind, _, value: [item for item in held[kind] if value in _references(item)],
    )
    mappers: list[Any] = []
    builder: Any = SimpleNamespace(owns=lambda *_, **__: None, watches=lambda _, mapper: mappers.append(mapper))
    WatchedKinds([watch]).declare(builder, cache, Runtimes(cache))
    (mapper,) = mappers
    return sorted(mapper(event))


def test_a_limit_range_wakes_the_suspended_jobs_of_its_namespace() -> None:
    watch = Watch(LimitRange.RESOURCE, Enqueue.SUSPENDED_IN_NAMESPACE)
    assert woken(watch, LimitRange(metadata=ObjectMeta(name="l", namespace="one"))) == [Key("one", "waits")]
    assert woken(watch, LimitRange(metadata=ObjectMeta(name="l", namespace="three"))) == []


def test_a_runtime_class_wakes_suspended_jobs_of_equal_names_in_all_namespaces() -> None:
    watch = Watch(RuntimeClass.RESOURCE, Enqueue.SUSPENDED_OF_RUNTIME_CLASS)
    event = RuntimeClass(metadata=ObjectMeta(name="gpu"), handler="h")
    assert woken(watch, event) == [Key("one", "waits"), Key("two", "waits")]
    assert woken(watch, RuntimeClass(metadata=ObjectMeta(name="other"), handler="h")) == []
