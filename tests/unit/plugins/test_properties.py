# SPDX-License-Identifier: Apache-2.0
"""What holds for every runtime, TrainJob and patch: declared errors only, untouched inputs, the same bytes."""

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.plugins.contract import OFFLINE, Refusal
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, built_in

PIPELINE = Pipeline(Registry.load(candidates=built_in()))
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"

# Few names, so that things meet; odd ones, so that they are used as keys and nothing else.
JOB_NAMES = st.sampled_from(["node", "launcher", "dataset-initializer", "model-initializer", "x"])
CONTAINERS = st.sampled_from(["node", "dataset-initializer", "side", "flux-installer"])
STEPS = st.sampled_from(["trainer", "dataset-initializer", "model-initializer", "other", None])
ENV_NAMES = st.sampled_from(["A", "PET_NNODES", "DMLC_TASK_ID", "FLUX_VIEW_IMAGE", "STORAGE_URI", "é"])
TEXT = st.text(max_size=6)
COUNT = st.integers(-1, 5)
AMOUNT = st.sampled_from(["1", "500m", "2Gi", 3, 0.7, "-1", "many", ""])
RESOURCES = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "a/GPU"]), AMOUNT, max_size=3)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


ENV = st.lists(
    st.one_of(
        st.fixed_dictionaries({"name": ENV_NAMES}, optional={"value": TEXT}),
        st.fixed_dictionaries({"name": ENV_NAMES, "valueFrom": some(fieldRef=st.just({"fieldPath": "a"}))}),
    ),
    max_size=3,
)
PORTS = st.lists(
    st.fixed_dictionaries({"containerPort": st.sampled_from([80, 29500])}, optional={"name": TEXT}), max_size=3
)
MOUNTS = st.lists(st.fixed_dictionaries({"name": TEXT, "mountPath": st.sampled_from(["/a", "/mnt/flux"])}), max_size=2)
VOLUMES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["v", "mpi-ssh-auth"])},
        optional={"emptyDir": some(medium=TEXT), "hostPath": st.just({"path": "/p"})},
    ),
    max_size=2,
)
WORDS = st.lists(st.sampled_from(["tune", "run", "model.lora_attn_modules", "output_dir=/x", "="]), max_size=3)
CONTAINER = st.fixed_dictionaries(
    {"name": CONTAINERS},
    optional={
        "image": TEXT,
        "command": WORDS,
        "args": WORDS,
        "env": ENV,
        "ports": PORTS,
        "volumeMounts": MOUNTS,
        "resources": some(limits=RESOURCES, requests=RESOURCES),
    },
)
POD = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINER, max_size=3)},
    optional={"initContainers": st.lists(CONTAINER, max_size=2), "volumes": VOLUMES, "priorityClassName": TEXT},
)
METADATA = STEPS.map(lambda step: {"labels": {STEP: step}} if step else {})
JOB = st.fixed_dictionaries(
    {
        "name": JOB_NAMES,
        "template": st.fixed_dictionaries(
            {"metadata": METADATA},
            optional={"spec": st.fixed_dictionaries({"template": some(spec=POD)}, optional={"parallelism": COUNT})},
        ),
    },
    optional={"replicas": COUNT},
)
FRAMEWORK = st.one_of(
    st.just({}),
    some(torch=some(envInjection=st.just({"targets": [{"jobName": "x", "containerNames": ["side"]}]}))),
    some(
        mpi=some(
            runLauncherAsNode=st.booleans(), numProcPerNode=COUNT, mpiImplementation=st.sampled_from(["", "OpenMPI"])
        )
    ),
    some(flux=some(numProcPerNode=COUNT)),
    some(jax=st.just({})),
    some(xgboost=st.just({})),
)
POLICY = st.builds(lambda framework, more: {**framework, **more}, FRAMEWORK, some(numNodes=COUNT))
RUNTIME = some(
    mlPolicy=POLICY,
    podGroupPolicy=some(coscheduling=st.just({}), volcano=st.just({"networkTopology": {}})),
    template=some(
        spec=some(
            replicatedJobs=st.lists(JOB, max_size=3, unique_by=lambda job: job["name"]),
            network=some(subdomain=TEXT),
        ),
        metadata=some(annotations=st.dictionaries(st.just("scheduling.volcano.sh/queue-name"), TEXT)),
    ),
)
TRAINER = some(
    image=TEXT,
    command=WORDS,
    args=WORDS,
    env=ENV,
    numNodes=COUNT,
    numProcPerNode=COUNT,
    resourcesPerNode=some(limits=RESOURCES, requests=RESOURCES),
)
POD_PATCH = some(
    containers=st.lists(
        st.fixed_dictionaries({"name": CONTAINERS}, optional={"env": ENV, "volumeMounts": MOUNTS}), max_size=2
    ),
    initContainers=st.lists(st.fixed_dictionaries({"name": CONTAINERS}, optional={"env": ENV}), max_size=2),
    volumes=VOLUMES,
    nodeSelector=st.dictionaries(TEXT, TEXT, max_size=2),
    tolerations=st.lists(some(key=TEXT), max_size=2),
    serviceAccountName=TEXT,
)
PATCH = st.fixed_dictionaries(
    {"manager": st.sampled_from(["a.com/x", "b.com/y", "", "bad"])},
    optional={
        "trainingRuntimeSpec": some(
            template=some(
                metadata=some(labels=st.dictionaries(TEXT, TEXT, max_size=2)),
                spec=some(
                    replicatedJobs=st.lists(
                        st.fixed_dictionaries(
                            {"name": JOB_NAMES},
                            optional={
                                "template": some(
                                    metadata=METADATA, spec=st.fixed_dictionaries({"template": some(spec=POD_PATCH)})
                                )
                            },
                        ),
                        max_size=2,
                    )
                ),
            )
        )
    },
)
SPEC = st.fixed_dictionaries(
    {"runtimeRef": st.fixed_dictionaries({"name": st.sampled_from(["r", "torchtune-llama3.2-1b"])})},
    optional={
        "trainer": TRAINER,
        "suspend": st.booleans(),
        "runtimePatches": st.lists(PATCH, max_size=3),
        "initializer": some(
            dataset=some(storageUri=TEXT, env=ENV, secretRef=some(name=TEXT)), model=some(storageUri=TEXT)
        ),
    },
)


def outcome(spec: dict[str, Any], blueprint: dict[str, Any]) -> bytes:
    """Everything that comes out, as bytes; declared errors are an outcome too."""
    job = msgspec.convert({"metadata": {"name": "job", "namespace": "n", "uid": "u"}, "spec": spec}, TrainJob)
    runtime = msgspec.convert({"metadata": {"name": "r"}, "spec": blueprint}, TrainingRuntime)
    before = job.deepcopy(), runtime.deepcopy()
    verdict = PIPELINE.begin(job, runtime).validate(OFFLINE)
    try:
        rendering = PIPELINE.begin(job, runtime).render(OFFLINE)
        result: Any = [
            [component.document for component in rendering.components],
            [str(setting) for setting in rendering.settings],
            [str(conflict) for conflict in rendering.overrides],
        ]
    except Refusal as refusal:
        result = str(refusal)
    assert (job, runtime) == before
    assert "InternalError" not in {error.type.value for error in verdict.errors}, verdict
    return msgspec.json.encode([result, [str(error) for error in verdict.errors], [str(w) for w in verdict.warnings]])


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(spec=SPEC, blueprint=RUNTIME)
def test_any_job_gives_objects_or_a_declared_error_and_twice_the_same(
    spec: dict[str, Any], blueprint: dict[str, Any]
) -> None:
    assert outcome(spec, blueprint) == outcome(spec, blueprint)


POLICIES: list[dict[str, Any]] = [{}, *({name: {}} for name in ("torch", "mpi", "flux", "jax", "xgboost"))]
FIXED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"runtimeRef": {"name": "r"}, "trainer": {"numNodes": 2, "env": [{"name": "A", "value": "1"}]}},
        {
            "mlPolicy": policy,
            "podGroupPolicy": {"coscheduling": {}, "volcano": {}},
            "template": {
                "metadata": {"labels": {"b": "1", "a": "2"}},
                "spec": {
                    "replicatedJobs": [
                        {
                            "name": name,
                            "template": {
                                "metadata": {"labels": {STEP: "trainer"}} if name == "node" else {},
                                "spec": {
                                    "template": {
                                        "spec": {
                                            "containers": [
                                                {
                                                    "name": "node",
                                                    "resources": {"requests": {"cpu": 1, "a/gpu": 2, "b/gpu": 3}},
                                                }
                                            ]
                                        }
                                    }
                                },
                            },
                        }
                        for name in ("launcher", "node")
                    ]
                },
            },
        },
    )
    for policy in POLICIES
]


def everything() -> bytes:
    """The outcome of the fixed jobs."""
    return b"\n".join(outcome(*pair) for pair in FIXED)


def test_the_fixed_jobs_are_no_empty_comparison() -> None:
    assert everything().count(b'"kind":"JobSet"') == len(FIXED)
