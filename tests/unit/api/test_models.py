# SPDX-License-Identifier: Apache-2.0
"""Generated models: documents made from the schemas survive decoding, encoding, copying and defaulting."""

import copy
import json
import os
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainwright.api.base import Object, Struct
from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap, LimitRange, Pod, PodSpec
from trainwright.api.scheduling.v1alpha1 import PodGroup
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, RuntimeRef, TrainingRuntime, TrainJob, TrainJobSpec
from trainwright.api.volcano.v1beta1 import PodGroup as VolcanoPodGroup
from trainwright.controller.cli.rendering.schemas import KindSchema, schemas

KINDS: list[type[Struct]] = [
    TrainJob,
    TrainingRuntime,
    ClusterTrainingRuntime,
    JobSet,
    PodGroup,
    VolcanoPodGroup,
    Configuration,
]
TEXT = st.text(alphabet='aZ0-/ é\U0001f600"\\', max_size=6)
OPEN = st.recursive(
    st.booleans() | st.integers() | TEXT, lambda inner: st.dictionaries(TEXT, inner, max_size=2), max_leaves=4
)
EXAMPLES = int(os.environ.get("EXAMPLES", "60"))
"""Documents per kind. `EXAMPLES=2000` takes minutes and finds what a quick run does not."""
MANY = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def schema_of(kind: type[Struct]) -> KindSchema:
    for (_, name), schema in schemas().items():
        properties = schema.document["properties"]
        if name == kind.__name__ and set(properties) == {field.encode_name for field in msgspec.structs.fields(kind)}:
            resource = getattr(kind, "RESOURCE", None)
            if resource is None or properties["apiVersion"]["const"] == resource.api_version:
                return schema
    raise AssertionError(f"no schema for {kind}")


@st.composite
def documents(draw: st.DrawFn, kind: type[Struct]) -> dict[str, Any]:
    """A document that the schema of a kind allows, but for rules, patterns and lists with equal items."""
    schema = schema_of(kind)
    return _object(draw, schema.expanded(schema.document), depth=0)


def _object(draw: st.DrawFn, schema: dict[str, Any], depth: int) -> dict[str, Any]:
    names = sorted(schema.get("properties", {}))
    required = set(schema.get("required", ()))
    optional = [name for name in names if name not in required]
    most = 3 if depth < 9 else 1
    chosen = draw(st.lists(st.sampled_from(optional), max_size=most, unique=True)) if optional else []
    made: dict[str, Any] = {}
    for name in [*sorted(required), *chosen]:
        made[name] = _value(draw, schema["properties"][name], depth + 1)
    return made


def _value(draw: st.DrawFn, schema: dict[str, Any], depth: int) -> Any:
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if schema.get("x-kubernetes-int-or-string"):
        return draw(st.integers(0, 99) | st.sampled_from(["1", "100m", "1.5Gi"]))
    word = schema["type"]
    if word == "object":
        return _map_or_object(draw, schema, depth)
    if word == "array":
        return [_value(draw, schema["items"], depth + 1) for _ in range(draw(st.integers(0, 2)))]
    scalars: dict[str, st.SearchStrategy[Any]] = {
        "string": TEXT,
        "integer": st.integers(-(2**31), 2**31 - 1),
        "number": st.integers(0, 99) | st.floats(0, 1e6),
        "boolean": st.booleans(),
    }
    return draw(scalars[word])


def _map_or_object(draw: st.DrawFn, schema: dict[str, Any], depth: int) -> Any:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return draw(st.dictionaries(TEXT, OPEN, max_size=2))
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        return {name: _value(draw, values, depth + 1) for name in draw(st.lists(TEXT, max_size=2, unique=True))}
    return _object(draw, schema, depth)


def mutable_parts(value: Any) -> set[int]:
    """Identities of every struct, list and map in a value."""
    if isinstance(value, Struct):
        inner = [getattr(value, field.name) for field in msgspec.structs.fields(value)]
    elif isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, list):
        inner = value
    else:
        return set()
    return {id(value)}.union(*(mutable_parts(part) for part in inner))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.__module__.split('.')[2]}.{kind.__name__}")
def test_every_document(kind: type[Struct]) -> None:
    decoder = msgspec.json.Decoder(kind)
    schema = schema_of(kind)

    @MANY
    @given(documents(kind))
    def holds(document: dict[str, Any]) -> None:
        text = json.dumps(document).encode()
        made = decoder.decode(text)
        assert json.loads(msgspec.json.encode(made)) == document, "a round trip"
        assert decoder.decode(msgspec.json.encode(made)) == made

        for duplicate in (made.deepcopy(), copy.deepcopy(made)):
            assert duplicate == made
            assert msgspec.json.encode(duplicate) == msgspec.json.encode(made)
            assert not mutable_parts(duplicate) & mutable_parts(made), "a copy shares a mutable part"

        before = msgspec.json.encode(made)
        defaulted = made.deepcopy()
        defaulted.set_defaults()
        assert msgspec.json.encode(made) == before, "defaulting a copy changed the original"
        once = msgspec.json.encode(defaulted)
        defaulted.set_defaults()
        assert msgspec.json.encode(defaulted) == once, "defaulting twice is not defaulting once"
        if kind is not Configuration or document.get("health", {}).get("healthProbeBindAddress") != "":
            assert json.loads(once) == schema.prepared(document)[0], "the offline API server defaults otherwise"

    holds()


def test_unset_and_null_are_the_same() -> None:
    job = msgspec.json.decode(b'{"metadata":null,"spec":{"runtimeRef":{"name":"a"},"trainer":null}}', type=TrainJob)
    assert job == TrainJob(spec=TrainJobSpec(runtime_ref=RuntimeRef(name="a")))
    assert msgspec.json.encode(job) == b'{"spec":{"runtimeRef":{"name":"a"}}}'


def test_unknown_fields_are_ignored() -> None:
    assert msgspec.json.decode(b'{"new":1,"spec":{"containers":[],"newer":{}}}', type=Pod) == Pod(
        spec=PodSpec(containers=[])
    )


def test_errors_speak_of_wire_paths() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"got `str` - at `\$\.spec\.trainer\.numNodes`"):
        msgspec.json.decode(b'{"spec":{"runtimeRef":{"name":"a"},"trainer":{"numNodes":"1"}}}', type=TrainJob)


def test_values_of_newer_servers_are_read() -> None:
    rules = b'{"spec":{"failurePolicy":{"restartStrategy":"FromTheFuture"}}}'
    assert msgspec.json.decode(rules, type=JobSet).spec is not None
    with pytest.raises(msgspec.ValidationError, match="Invalid enum value 'FromTheFuture'"):
        msgspec.json.decode(
            b'{"spec":{"mlPolicy":{"mpi":{"mpiImplementation":"FromTheFuture"}}}}', type=TrainingRuntime
        )


def test_open_objects_lose_nothing() -> None:
    text = b'{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{".":{},"k:{}":null}}}]}}'
    assert msgspec.json.encode(msgspec.json.decode(text, type=ConfigMap)) == text


def test_kinds_know_where_they_live() -> None:
    assert TrainJob.RESOURCE.path("ns", "a", "status") == (
        "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs/a/status"
    )
    assert Pod.RESOURCE.path("ns") == "/api/v1/namespaces/ns/pods"
    job = TrainJob()
    assert (job.name, job.namespace) == ("", "")
    assert job.typed() is job
    assert (job.api_version, job.kind) == ("trainer.kubeflow.org/v1alpha1", "TrainJob")


def test_absent_objects_are_not_invented() -> None:
    job = TrainJob()
    job.set_defaults()
    assert msgspec.json.encode(job) == b"{}"


def test_structs_stay_out_of_the_collector() -> None:
    for kind in KINDS:
        config = kind.__struct_config__
        assert config.gc is False
        assert config.omit_defaults is True
        assert all(field.required or field.default is None for field in msgspec.structs.fields(kind))
    assert issubclass(TrainJob, Object)


def test_a_hand_written_default() -> None:
    configuration = msgspec.convert({"health": {"healthProbeBindAddress": ""}}, Configuration)
    configuration.set_defaults()
    assert configuration.health is not None
    assert configuration.health.health_probe_bind_address == ":8081"


def test_a_limit_range_without_limits_has_null() -> None:
    document = b'{"metadata": {"name": "a"}, "spec": {"limits": null}}'
    found = msgspec.json.decode(document, type=LimitRange)
    assert found.spec is not None
    assert found.spec.limits is None


def test_an_absent_struct_is_read_as_an_empty_one() -> None:
    job, runtime = TrainJob(), TrainingRuntime()
    assert job.spec_or_empty.trainer_or_empty.num_nodes is None
    assert runtime.spec_or_empty.template_or_empty.spec_or_empty.replicated_jobs is None
    assert job.spec_or_empty.runtime_ref.name == "", "what a struct must have is empty, too"
    assert not Pod().spec_or_empty.containers
    spec = TrainJobSpec(runtime_ref=RuntimeRef(name="torch"))
    assert TrainJob(spec=spec).spec_or_empty is spec


def test_the_empty_struct_is_shared_and_cannot_be_changed() -> None:
    empty = TrainJob().spec_or_empty
    assert empty is TrainJob().spec_or_empty
    with pytest.raises(AttributeError):
        empty.suspend = True
    job = TrainJob()
    assert job.spec_or_empty.suspend is None
    assert job == TrainJob(), "a look changes nothing"
    assert msgspec.json.encode(job) == b"{}"
