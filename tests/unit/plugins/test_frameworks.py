# SPDX-License-Identifier: Apache-2.0
"""What the framework plugins make of counts, resources and variables.
What the recorded cases test already is not repeated.
"""

from typing import Any

import pytest

from tests.unit.plugins.blueprints import (
    PIPELINE,
    blueprint,
    container,
    errors,
    job_template,
    outcome,
    pods,
    resources,
    verdict,
)
from trainwright.plugins.contract import OFFLINE
from trainwright.plugins.contract.errors import PipelineError
from trainwright.plugins.testing import train_job


@pytest.mark.parametrize(
    ("own", "given", "processes", "expected"),
    [
        pytest.param({"limits": resources(cpu=4)}, None, None, "4", id="cpu"),
        pytest.param({}, None, None, "1", id="91-none"),
        pytest.param({"requests": resources(cpu="0.7")}, None, None, "1", id="91-fraction"),
        pytest.param({"requests": resources(cpu="2500m")}, None, None, "3", id="91-milli"),
        pytest.param({"requests": resources(cpu="3.7")}, None, None, "4", id="91-round"),
        pytest.param({"requests": resources(cpu=3)}, None, None, "3", id="92-request"),
        pytest.param({"requests": resources(cpu=0), "limits": resources(cpu=4)}, None, None, "4", id="92-zero-request"),
        pytest.param({"limits": resources(cpu=6, gpu=2)}, None, None, "auto", id="93"),
        pytest.param({"limits": resources(cpu=8)}, None, 3, "3", id="94"),
        pytest.param({"limits": resources(gpu=4)}, {"limits": resources(cpu=6)}, None, "6", id="88"),
        pytest.param({"limits": {"amd.com/GPU-x": 2}}, None, None, "auto", id="other-spelling"),
        pytest.param({"limits": {"nvidia.com/mig-1g.5gb": 2, "cpu": 2}}, None, None, "2", id="mig-is-no-gpu"),
        pytest.param({"limits": {"a.com/gpu-mem": 24, "b.com/gpu": 0, "cpu": 5}}, None, None, "5", id="devices-first"),
    ],
)
def test_torch_counts_processes(
    own: dict[str, Any], given: dict[str, Any] | None, processes: int | None, expected: str
) -> None:
    made = blueprint("{torch: {}}", job_template("node", "trainer", container(resources=own)))
    trainer = {"resourcesPerNode": given, "numProcPerNode": processes}

    result = outcome(made, trainer={name: value for name, value in trainer.items() if value is not None})

    assert result.env()["PET_NPROC_PER_NODE"] == expected


RANK = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
TORCH = {
    "PET_NNODES": "3",
    "PET_NPROC_PER_NODE": "1",
    "PET_NODE_RANK": RANK,
    "PET_MASTER_ADDR": "job-node-0-0.job",
    "PET_MASTER_PORT": "29500",
}


def test_torch_sets_the_users_variables_first_and_the_port() -> None:
    made = blueprint(
        "{numNodes: 3, torch: {}}", job_template("node", "trainer", container(env=[{"name": "X", "value": "r"}]))
    )

    result = outcome(made, trainer={"env": [{"name": "Y", "value": "u"}, {"name": "X", "value": "u"}]})

    assert list(result.env().items()) == [("X", "u"), ("Y", "u"), *TORCH.items()]
    assert result.container()["ports"] == [{"containerPort": 29500}]


@pytest.mark.parametrize(
    ("network", "name", "host"),
    [
        pytest.param({}, "node", "job-node-0-0.job", id="usual"),
        pytest.param({"network": {"subdomain": "ring"}}, "node", "job-node-0-0.ring", id="95"),
        pytest.param({}, "worker", "job-worker-0-0.job", id="named"),
    ],
)
@pytest.mark.parametrize(
    ("policy", "variable", "text"),
    [
        ("torch", "PET_MASTER_ADDR", "{}"),
        ("jax", "JAX_COORDINATOR_ADDRESS", "{}:29500"),
        ("xgboost", "DMLC_TRACKER_URI", "{}"),
    ],
)
def test_nodes_meet_at_a_host_that_exists(
    network: dict[str, Any], name: str, host: str, policy: str, variable: str, text: str
) -> None:
    made = blueprint({"numNodes": 2, policy: {}}, job_template(name), **network)
    assert outcome(made, trainer={}).env(name)[variable] == text.format(host)


@pytest.mark.parametrize(
    ("policy", "nodes", "variables"),
    [
        pytest.param("torch", 1, 0, id="torch-one"),
        pytest.param("torch", 4, 5, id="89"),
        pytest.param("jax", 1, 0, id="jax-one"),
        pytest.param("jax", 3, 3, id="150"),
        pytest.param("xgboost", 1, 0, id="158"),
        pytest.param("xgboost", 2, 4, id="xgboost-two"),
    ],
)
def test_without_a_trainer_section_only_several_nodes_are_set_up(policy: str, nodes: int, variables: int) -> None:
    result = outcome(blueprint({"numNodes": nodes, policy: {}}))
    assert len(result.env()) == variables
    assert result.replicated_job()["template"]["spec"]["parallelism"] == nodes


INJECTION = "{numNodes: 4, torch: {envInjection: {targets: [{jobName: helper, containerNames: [side, prep]}]}}}"


def test_torch_injects_into_listed_containers_only() -> None:
    helper = job_template(
        "helper", None, container("side"), container("other"), initContainers=[container("prep"), container("late")]
    )

    result = outcome(blueprint(INJECTION, job_template(), helper), trainer={"command": ["tune", "run"]})

    for name in ("side", "prep"):
        assert list(result.env("helper", name)) == list(TORCH)
        assert result.env("helper", name)["PET_NNODES"] == "4"
        assert "ports" not in result.container("helper", name)
    for name in ("other", "late"):
        assert result.env("helper", name) == {}


@pytest.mark.parametrize("spec", ["", "trainer: {}"])
def test_torch_refuses_targets_that_do_not_exist(spec: str) -> None:
    made = blueprint(INJECTION)
    assert errors(verdict(made, spec)) == [("spec.runtimeRef", "FieldValueInvalid")] * 2
    with pytest.raises(PipelineError, match="plugin Torch: envInjection names container side of replicated job helper"):
        PIPELINE.begin(train_job(spec), made).render(OFFLINE)


LORA = "model.lora_attn_modules=[q_proj]"
QUANTISED = "model.quantize_base=True"
DORA = "model.use_dora=true"
RENDEZVOUS = "--rdzv_endpoint=job-node-0-0.job:29500"


@pytest.mark.parametrize(
    ("trainer", "args", "recipe", "suffix", "rendezvous"),
    [
        pytest.param({}, [], "full_finetune_single_device", "_full_single_device", False, id="one-cpu"),
        pytest.param({"gpu": 1}, [], "full_finetune_single_device", "_full_single_device", False, id="one-gpu"),
        pytest.param({"gpu": 2}, [], "full_finetune_distributed", "_full", True, id="two-gpus"),
        pytest.param({"gpu": 2}, [LORA], "lora_finetune_distributed", "_lora", True, id="lora"),
        pytest.param({"gpu": 1}, [LORA], "lora_finetune_single_device", "_lora_single_device", False, id="lora-single"),
        pytest.param({"gpu": 1}, [QUANTISED], "lora_finetune_single_device", "_qlora_single_device", False, id="109"),
        pytest.param({"gpu": 2}, [LORA, QUANTISED, DORA], "lora_finetune_distributed", "_lora", True, id="107"),
        pytest.param({"gpu": 2}, ["model.quantize_base=False"], "full_finetune_distributed", "_full", True, id="108"),
        pytest.param({"gpu": 2}, ["model.quantize_base"], "full_finetune_distributed", "_full", True, id="no-value"),
        pytest.param({"gpu": 4, "proc": 1}, [], "full_finetune_single_device", "_full_single_device", False, id="110"),
        pytest.param({"gpu": 1, "proc": 4}, [], "full_finetune_single_device", "_full_single_device", True, id="102"),
        pytest.param({"nodes": 0}, [], "full_finetune_distributed", "_full", False, id="103"),
        pytest.param({"cpu": 4}, [], "full_finetune_distributed", "_full", True, id="cpus"),
    ],
)
def test_torchtune_chooses_a_recipe(
    trainer: dict[str, int], args: list[str], recipe: str, suffix: str, rendezvous: bool
) -> None:
    made = blueprint("{torch: {}}", name="torchtune-llama3.3-70b")
    amounts = {name: trainer[name] for name in ("gpu", "cpu") if name in trainer}
    section: dict[str, Any] = {
        "command": ["tune", "run"],
        "args": args,
        "resourcesPerNode": {"limits": resources(**amounts)},
    }
    section |= {"numNodes": trainer["nodes"]} if "nodes" in trainer else {}
    section |= {"numProcPerNode": trainer["proc"]} if "proc" in trainer else {}

    result = outcome(made, trainer=section, runtimeRef={"name": "torchtune-llama3.3-70b", "kind": "TrainingRuntime"})

    expected = ["tune", "run", *[RENDEZVOUS] * rendezvous, recipe, "--config", f"llama3_3/70B{suffix}"]
    assert result.container()["command"] == expected
    assert "PET_MASTER_ADDR" not in result.env()
    assert result.container().get("args", []) == args


def test_torchtune_takes_over_the_runtimes_own_settings() -> None:
    command = [RENDEZVOUS, "dataset.x=1", "output_dir=/o", "tokenizer.path=/t", "checkpointer.checkpoint_dir=/c"]
    main = container(command=command, args=["tokenizer.merges_file=/m"])
    made = blueprint("{torch: {}}", job_template("node", "trainer", main, container("side", command=["output_dir=/s"])))

    result = outcome(made, trainer={"command": ["tune", "run"]})

    assert result.container()["command"][-3:] == command[-3:]
    assert "output_dir=/s" not in result.container()["command"]


def test_other_commands_are_ordinary_torch() -> None:
    result = outcome(blueprint("{torch: {}}"), trainer={"command": ["tune", "run", "x"]})
    assert result.container()["command"] == ["tune", "run", "x"]
    assert "PET_MASTER_ADDR" in result.env()


BAD_NODES, BAD_NAME = ("spec.trainer.numNodes", "FieldValueInvalid"), ("spec.runtimeRef.name", "FieldValueInvalid")
SINGLE = [("spec.trainer.numProcPerNode", "FieldValueInvalid"), ("spec.trainer.resourcesPerNode", "FieldValueInvalid")]


@pytest.mark.parametrize(
    ("name", "trainer", "expected"),
    [
        pytest.param("torchtune-llama3.3-70b", {"numNodes": 2}, [], id="115-large"),
        pytest.param("torchtune-llama3.2-3b", {"numNodes": 2}, [BAD_NODES], id="115-small"),
        pytest.param("torchtune-llama3.3-70b", {"numNodes": 2, "args": [LORA]}, [BAD_NODES], id="118"),
        pytest.param("torchtune-qwen2.5-1.5b", {"numProcPerNode": 1, "args": [QUANTISED]}, [BAD_NAME], id="116"),
        pytest.param("torchtune-llama3.2-1b", {"args": [QUANTISED]}, SINGLE, id="106-117"),
        pytest.param("torchtune-llama3.2-1b", {"args": [QUANTISED], "numProcPerNode": 1}, [], id="single-device"),
        pytest.param("tune", {}, [BAD_NAME], id="114-one-part"),
        pytest.param("a-b-c-d", {}, [BAD_NAME], id="114-four-parts"),
        pytest.param(
            "torchtune-llama3.2-1b",
            {"args": ["output_dir=/x", "tokenizer.path=/y", "lr=1"]},
            [("spec.trainer.args[0]", "FieldValueInvalid"), ("spec.trainer.args[1]", "FieldValueInvalid")],
            id="119",
        ),
    ],
)
def test_torchtune_refuses(name: str, trainer: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    reference = {"name": name, "kind": "TrainingRuntime"}
    found = verdict(
        blueprint("{torch: {}}", name=name), runtimeRef=reference, trainer={"command": ["tune", "run"], **trainer}
    )
    assert errors(found) == expected


@pytest.mark.parametrize(
    ("policy", "env", "expected"),
    [
        pytest.param("{torch: {}}", ["PET_NNODES", "X"], [("spec.trainer.env", "FieldValueInvalid")], id="100"),
        pytest.param(
            "{mpi: {}}",
            ["OMPI_MCA_plm_rsh_args", "A", "OMPI_MCA_orte_default_hostfile"],
            [("spec.trainer.env", "FieldValueInvalid")],
            id="136",
        ),
        pytest.param(
            "{xgboost: {}}",
            ["DMLC_TASK_ID", "A", "DMLC_NUM_WORKER"],
            [("spec.trainer.env[0]", "FieldValueForbidden"), ("spec.trainer.env[2]", "FieldValueForbidden")],
            id="156",
        ),
        pytest.param("{jax: {}}", ["JAX_PROCESS_ID"], [], id="jax-reserves-nothing"),
        pytest.param("{}", ["PET_NNODES", "DMLC_TASK_ID"], [], id="plain"),
    ],
)
def test_reserved_variables(policy: str, env: list[str], expected: list[tuple[str, str]]) -> None:
    found = verdict(blueprint(policy), trainer={"env": [{"name": name, "value": "1"} for name in env]})
    assert errors(found) == expected
    if len(expected) == 1:
        reserved = sorted(name for name in env if name.startswith(("PET_", "OMPI_")))
        assert ", ".join(reserved) in found.errors[0].message


@pytest.mark.parametrize(
    ("own", "given", "nodes", "workers"),
    [
        pytest.param(resources(gpu=2), None, 3, "6", id="153"),
        pytest.param(resources(gpu=1), {"limits": resources(gpu=3)}, 2, "6", id="154"),
        pytest.param(resources(gpu=2), {"limits": resources(memory="1Gi")}, 2, "2", id="155"),
        pytest.param({}, None, 2, "2", id="none"),
    ],
)
def test_xgboost_counts_workers(own: dict[str, Any], given: Any, nodes: int, workers: str) -> None:
    made = blueprint("{xgboost: {}}", job_template("node", "trainer", container(resources={"limits": own})))
    trainer = {"numNodes": nodes, **({"resourcesPerNode": given} if given else {})}
    assert outcome(made, trainer=trainer).env()["DMLC_NUM_WORKER"] == workers


def test_the_users_variables_come_before_those_of_xgboost() -> None:
    result = outcome(blueprint("{xgboost: {}}"), trainer={"env": [{"name": "USER", "value": "$(DMLC_TRACKER_URI)"}]})
    assert list(result.env())[:2] == ["USER", "DMLC_TRACKER_URI"]


def test_jax_starts_one_process_per_node() -> None:
    made = blueprint("{jax: {}}", job_template("node", "trainer", container(resources={"limits": resources(gpu=8)})))
    result = outcome(made, trainer={"numNodes": 4, "numProcPerNode": 8, "env": [{"name": "A", "value": "1"}]})
    assert list(result.env().items()) == [
        ("JAX_NUM_PROCESSES", "4"),
        ("JAX_PROCESS_ID", RANK),
        ("JAX_COORDINATOR_ADDRESS", "job-node-0-0.job:29500"),
        ("A", "1"),
    ]


@pytest.mark.parametrize("policy", ["torch", "jax", "xgboost", "flux"])
def test_a_runtime_without_a_trainer_is_left_alone(policy: str) -> None:
    result = outcome(blueprint({policy: {}}, job_template("other", None)), trainer={"numNodes": 3})
    assert result.container("other") == container()
    assert pods(result) == {"other": 1}


@pytest.mark.parametrize(
    ("own", "given", "expected"),
    [
        pytest.param(10, None, 10, id="160-runtime"),
        pytest.param(10, 30, 30, id="160-job"),
        pytest.param(0, None, 1, id="49"),
        pytest.param(2, 0, 0, id="50"),
    ],
)
def test_plain_ml_counts_nodes(own: int, given: int | None, expected: int) -> None:
    made = blueprint({"numNodes": own})
    result = outcome(made, trainer={"numNodes": given} if given is not None else {})
    assert pods(result) == {"node": expected}


GPUS: dict[str, Any] = {"limits": {"nvidia.com/gpu": 4}}


@pytest.mark.parametrize(
    ("trainer", "warned"),
    [
        ({"numProcPerNode": 8}, "spec.trainer.numProcPerNode is 8, and a node has 4 GPUs"),
        ({"numProcPerNode": 4}, None),
        ({"numProcPerNode": 8, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}, None),
        ({"resourcesPerNode": {"requests": {"cpu": 6}}}, "comes from its CPUs: 6. The runtime's 4 GPUs"),
        ({"resourcesPerNode": {"requests": {"cpu": 6}}, "numProcPerNode": 4}, None),
        ({"resourcesPerNode": {"requests": {"cpu": 6, "nvidia.com/gpu": 2}}}, None),
        ({"numNodes": 2}, None),
    ],
)
def test_a_number_of_processes_that_does_not_fit_the_gpus_is_warned_of(
    trainer: dict[str, Any], warned: str | None
) -> None:
    made = blueprint({"numNodes": 1, "torch": {}}, job_template("node", "trainer", container(resources=GPUS)))
    found = verdict(made, trainer=trainer)
    assert errors(found) == []
    texts = [str(warning) for warning in found.warnings]
    assert len(texts) == (warned is not None)
    assert all(warned in text and len(text) < 300 for text in texts if warned)
