# SPDX-License-Identifier: Apache-2.0
"""The plugin TrainJobStatus; the recorded cases 355 and 358 are in tests/integration/plugins."""

import base64
from typing import Any

import pytest

from tests.unit.plugins.blueprints import blueprint, container, job_template
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap, Secret
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.trainer.v1alpha1 import TrainingRuntime
from trainwright.plugins.contract import OFFLINE, ClusterFacts, Enqueue, FactUnavailable, Installation, Reference, Watch
from trainwright.plugins.contract.facts import Unreadable
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection, built_in
from trainwright.plugins.testing import Result, train_job
from trainwright.plugins.trainjobstatus import PLACEHOLDER, TrainJobStatusPlugin

AT = Installation(host="trainer.ops.svc", port=1234, namespace="ops", secret="cert")
PIPELINE = Pipeline(
    Registry.load(Selection(enabled=frozenset({"TrainJobStatus"})), candidates=built_in(), installation=AT)
)
SECRET = Reference(Secret.RESOURCE, "ops", "cert")
CONFIG_MAP = Reference(ConfigMap.RESOURCE, "team", "job-tls-config")
JOBSET = Reference(JobSet.RESOURCE, "team", "job")
URL = "https://trainer.ops.svc:1234/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/job/status"
FOLDER = "/var/run/secrets/kubeflow/trainer"
VARIABLES = {
    "KUBEFLOW_TRAINER_SERVER_URL": URL,
    "KUBEFLOW_TRAINER_SERVER_CA_CERT": f"{FOLDER}/ca.crt",
    "KUBEFLOW_TRAINER_SERVER_TOKEN": f"{FOLDER}/token",
}
NONE = {"annotations": {"trainwright.dev/progress": "none"}}


def secret(**data: str) -> Secret:
    encoded = {key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return Secret(metadata=ObjectMeta(name="cert", namespace="ops"), data=encoded)


def facts(**known: Any) -> ClusterFacts:
    found = {"secret": secret(ca_crt="PEM"), "config_map": None, "jobset": None, **known}
    return ClusterFacts(
        {SECRET: found["secret"], CONFIG_MAP: found["config_map"], JOBSET: found["jobset"]},
        preview=bool(known.get("preview")),
    )


def outcome(made: TrainingRuntime, spec: str = "", *, given: ClusterFacts = OFFLINE, **fields: Any) -> Result:
    run = PIPELINE.begin(train_job(spec, **fields), made)
    return Result(run.validate(given), run.render(given))


def names(result: Result) -> list[str]:
    return [component.reference.name for component in result.rendering.components]


def test_every_container_of_the_trainer_knows_where_to_report() -> None:
    made = blueprint(
        {"numNodes": 1},
        job_template("helper", None),
        job_template("node", "trainer", container(), container("side"), initContainers=[container("pre")]),
    )
    result = outcome(made, given=facts())
    for name in ("node", "side"):
        assert dict(result.env("node", name)) == VARIABLES
        mount = {"name": "kubeflow-trainer-token", "mountPath": FOLDER, "readOnly": True}
        assert result.container("node", name)["volumeMounts"] == [mount]
    assert "env" not in result.container("node", "pre")
    assert "env" not in result.container("helper")
    assert "volumes" not in result.pod("helper")
    audience = URL.removeprefix("https://trainer.ops.svc:1234/apis/")
    assert result.pod()["volumes"] == [
        {
            "name": "kubeflow-trainer-token",
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"audience": audience, "expirationSeconds": 3600, "path": "token"}},
                    {"configMap": {"name": "job-tls-config", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                ]
            },
        }
    ]
    assert result.object("ConfigMap")["data"] == {"ca.crt": "PEM"}
    assert names(result) == ["job-tls-config", "job"], "pods wait for the ConfigMap"
    assert result.verdict.warnings == ()


def test_a_job_without_trainer_pods_has_the_certificates_too() -> None:
    result = outcome(blueprint(None, job_template("helper", None)), given=facts())
    assert names(result) == ["job-tls-config", "job"]
    assert "env" not in result.container("helper")


def test_variables_of_the_job_stay_and_the_override_is_named() -> None:
    spec = "trainer: {env: [{name: KUBEFLOW_TRAINER_SERVER_URL, value: https://mine}]}"
    result = outcome(blueprint({"numNodes": 1}), spec, given=facts())
    assert result.env()["KUBEFLOW_TRAINER_SERVER_URL"] == "https://mine"
    (warning,) = result.verdict.warnings
    assert "KUBEFLOW_TRAINER_SERVER_URL" in str(warning)
    assert "the TrainJob" in str(warning)
    assert "TrainJobStatus" in str(warning)


def test_values_of_the_runtime_are_replaced_with_a_warning_that_names_both() -> None:
    node = container(
        env=[{"name": "KUBEFLOW_TRAINER_SERVER_TOKEN", "value": "/mine"}],
        volumeMounts=[{"name": "mine", "mountPath": FOLDER}],
    )
    volumes = [{"name": "kubeflow-trainer-token", "emptyDir": {}}, {"name": "mine", "emptyDir": {}}]
    result = outcome(blueprint({"numNodes": 1}, job_template("node", "trainer", node, volumes=volumes)), given=facts())
    assert result.env()["KUBEFLOW_TRAINER_SERVER_TOKEN"] == f"{FOLDER}/token"
    assert [volume["name"] for volume in result.pod()["volumes"]] == ["kubeflow-trainer-token", "mine"]
    assert "projected" in result.pod()["volumes"][0]
    (mount,) = result.container()["volumeMounts"]
    assert mount["name"] == "kubeflow-trainer-token"
    warnings = "\n".join(map(str, result.verdict.warnings))
    for what in ("env[KUBEFLOW_TRAINER_SERVER_TOKEN]", "volumes[kubeflow-trainer-token]", f"volumeMounts[{FOLDER}]"):
        assert f"{what}: the value of TrainJobStatus replaces the one of the runtime" in warnings
    assert len(result.verdict.warnings) == 3


def test_a_job_with_the_annotation_is_built_as_without_the_plugin() -> None:
    made = blueprint({"numNodes": 1})
    plain = Pipeline(Registry.load(candidates=built_in())).begin(train_job(metadata=NONE), made).render(OFFLINE)
    result = outcome(made, given=ClusterFacts({JOBSET: None}), metadata=NONE)
    assert [c.document for c in result.rendering.components] == [c.document for c in plain.components]
    assert SECRET not in PIPELINE.begin(train_job(metadata=NONE), made).references()


def test_a_runtime_may_leave_its_jobs_out_and_a_job_decides_for_itself() -> None:
    made = blueprint({"numNodes": 1})
    assert made.metadata is not None
    made.metadata.annotations = NONE["annotations"]
    assert names(outcome(made, given=ClusterFacts({JOBSET: None}))) == ["job"]
    push = {"annotations": {"trainwright.dev/progress": "push"}}
    assert names(outcome(made, given=facts(), metadata=push)) == ["job-tls-config", "job"]


def test_an_unknown_value_of_the_annotation_is_warned_of() -> None:
    off = {"annotations": {"trainwright.dev/progress": "off"}}
    result = outcome(blueprint({"numNodes": 1}), given=facts(), metadata=off)
    (warning,) = result.verdict.warnings
    assert str(warning).startswith("annotation trainwright.dev/progress is ignored: 'off' must be push")
    assert "job-tls-config" in names(result)


@pytest.mark.parametrize(
    ("held", "says"),
    [
        (None, "Secret ops/cert does not exist"),
        (secret(tls_crt="x"), "Secret ops/cert has no ca.crt"),
        (secret(ca_crt=""), "Secret ops/cert has no ca.crt"),
        (Secret(metadata=ObjectMeta(name="cert", namespace="ops"), data={"ca.crt": "%"}), "Secret ops/cert has no"),
        (Unreadable("forbidden"), "Secret ops/cert cannot be read: forbidden"),
    ],
)
def test_a_new_job_needs_the_certificates(held: Any, says: str) -> None:
    run = PIPELINE.begin(train_job(), blueprint({"numNodes": 1}))
    given = facts(secret=held)
    assert run.validate(given).allowed, "the job is accepted, and waits"
    with pytest.raises(FactUnavailable, match=says):
        run.render(given)


@pytest.mark.parametrize(
    "built",
    [
        {"config_map": ConfigMap(metadata=ObjectMeta(name="job-tls-config"))},
        {"jobset": JobSet(metadata=ObjectMeta(name="job", namespace="team"))},
    ],
)
@pytest.mark.parametrize("held", [None, secret(tls_crt="x")])
def test_a_job_that_was_built_goes_on_without_the_certificates(built: dict[str, Any], held: Any) -> None:
    result = outcome(blueprint({"numNodes": 1}), given=facts(secret=held, **built))
    assert names(result) == ["job"]
    assert result.env()["KUBEFLOW_TRAINER_SERVER_URL"] == URL


def test_render_shows_a_placeholder_or_the_stored_certificates() -> None:
    made, hidden = blueprint({"numNodes": 1}), Unreadable("forbidden")
    assert outcome(made).object("ConfigMap")["data"] == {"ca.crt": PLACEHOLDER}
    shown = outcome(made, given=facts(secret=hidden, preview=True)).object("ConfigMap")["data"]
    assert shown == {"ca.crt": PLACEHOLDER}
    stored = {"metadata": {"name": "job-tls-config"}, "data": {"ca.crt": "OLD"}}
    shown = outcome(made, given=facts(secret=hidden, preview=True, config_map=stored)).object("ConfigMap")["data"]
    assert shown == {"ca.crt": "OLD"}


def test_the_secret_is_watched_by_name_for_all_unfinished_jobs() -> None:
    watched = Watch(Secret.RESOURCE, Enqueue.UNFINISHED, model=Secret, name="cert", namespace="ops")
    assert watched in TrainJobStatusPlugin(installation=AT).watches()


def test_a_process_with_a_certificate_of_its_own_needs_no_secret() -> None:
    at = Installation(host="127.0.0.1", port=5, authority="OWN")
    pipeline = Pipeline(Registry.of(TrainJobStatusPlugin(installation=at)))
    run = pipeline.begin(train_job(), blueprint({"numNodes": 1}))
    assert run.references() == ()
    (component,) = run.render(ClusterFacts()).components
    assert component.document["data"] == {"ca.crt": "OWN"}
    assert [watch.resource for watch in TrainJobStatusPlugin(installation=at).watches()] == [ConfigMap.RESOURCE]


def test_a_single_object_is_watched_for_all_jobs_only() -> None:
    with pytest.raises(ValueError, match="watch of Secret cert"):
        Watch(Secret.RESOURCE, name="cert", namespace="ops")
