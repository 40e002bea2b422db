# SPDX-License-Identifier: Apache-2.0
"""config/runtimes and config/samples: whoever takes them as they are gets jobs that run.

That an API server takes them, and that kustomize gives the very files, is shown by
tests/integration/plugins/test_plugins_shipped.py.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import train_job
from tests.repository import ROOT
from trainwright.api.objects import wire
from trainwright.controller.cli.main import main
from trainwright.controller.cli.render import runtime_problems, runtime_warnings
from trainwright.controller.cli.rendering.schemas import validate
from trainwright.controller.cli.rendering.sources import RUNTIME_KINDS, RenderInputs

RUNTIMES = ROOT / "config" / "runtimes"
SAMPLES = sorted((ROOT / "config" / "samples").glob("*.yaml"))
TUNE = {"trainer": {"command": ["tune", "run"]}}
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"

# Name, what a job says beside two nodes, the environment variables that its node gets, the objects beside the JobSet.
SHIPPED: list[tuple[str, dict[str, Any], set[str], list[str]]] = [
    (
        "torch-distributed",
        {},
        {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"},
        [],
    ),
    (
        "torch-distributed-with-cache",
        {"initializer": {"dataset": {"storageUri": "cache://schema/table"}}},
        {"TRAIN_JOB_NAME", "PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"},
        [],
    ),
    ("jax-distributed", {}, {"JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS"}, []),
    (
        "xgboost-distributed",
        {},
        {"DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"},
        [],
    ),
    *(
        (
            f"{name}-distributed",
            {},
            {
                "OMPI_MCA_orte_default_hostfile",
                "OMPI_MCA_orte_keep_fqdn_hostnames",
                "OMPI_MCA_orte_set_default_slots",
                "OMPI_MCA_plm_rsh_args",
                "PRTE_MCA_prte_default_hostfile",
                "PRTE_MCA_plm_ssh_args",
            },
            ["ConfigMap", "Secret"],
        )
        for name in ("deepspeed", "mlx")
    ),
    ("flux-distributed", {}, set(), ["ConfigMap", "Secret"]),
    *(
        (f"torchtune-{model}", TUNE, {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK"}, [])
        for model in ("llama3.2-1b", "llama3.2-3b", "qwen2.5-1.5b")
    ),
]


def runtimes() -> RenderInputs:
    inputs = RenderInputs()
    inputs.read([str(RUNTIMES)], namespace="", wanted=RUNTIME_KINDS)
    return inputs


def test_every_shipped_runtime_passes_admission_and_is_in_the_table() -> None:
    inputs = runtimes()
    assert inputs.problems == []
    assert sorted(runtime.name for runtime in inputs.runtimes) == sorted(name for name, *_ in SHIPPED)
    for runtime in inputs.runtimes:
        assert list(runtime_problems(runtime)) == []
        assert list(runtime_warnings(runtime)) == []
        assert runtime.metadata is not None
        # The SDK lists no runtime without it.
        assert "trainer.kubeflow.org/framework" in (runtime.metadata.labels or {})


@pytest.mark.parametrize(("name", "spec", "variables", "beside"), SHIPPED, ids=[name for name, *_ in SHIPPED])
def test_a_job_of_every_shipped_runtime_is_rendered(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    spec: dict[str, Any],
    variables: set[str],
    beside: list[str],
) -> None:
    nodes = 1 if spec is TUNE else 2
    spec = {"runtimeRef": {"name": name}, **spec, "trainer": {"numNodes": nodes, **spec.get("trainer", {})}}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(wire(train_job("j", "", uid="", **spec))))

    assert main(["render", "-f", str(tmp_path / "job.yaml")]) == 0

    output = capsys.readouterr()
    assert output.err == ""
    *others, jobset = yaml.safe_load_all(output.out)
    assert sorted(other["kind"] for other in others) == beside
    jobs = jobset["spec"]["replicatedJobs"]
    (trainer,) = [j for j in jobs if j["template"].get("metadata", {}).get("labels", {}).get(STEP) == "trainer"]
    (container,) = trainer["template"]["spec"]["template"]["spec"]["containers"]
    assert {variable["name"] for variable in container.get("env", [])} == variables
    steps = [j for j in jobs if j["name"].endswith("-initializer")]
    assert sum(j["template"]["spec"]["parallelism"] for j in jobs if j not in steps) == nodes


def test_samples_are_numbered_without_a_gap() -> None:
    assert [file.name.split("-")[0] for file in SAMPLES] == [f"{number:02}" for number in range(1, len(SAMPLES) + 1)]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.stem)
def test_every_sample_is_valid_and_rendered(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = list(yaml.safe_load_all(sample.read_text()))
    assert [error for document in documents for error in validate(document).errors] == []

    assert main(["render", "-f", str(sample)]) == 0

    output = capsys.readouterr()
    assert output.err == ""
    *_, jobset = yaml.safe_load_all(output.out)
    assert (jobset["kind"], jobset["metadata"]["name"]) == ("JobSet", documents[-1]["metadata"]["name"])


def test_the_shipped_runtimes_are_the_default_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = ROOT / "config" / "samples" / "02-torch.yaml"
    own = tmp_path / "own.yaml"
    own.write_text((RUNTIMES / "torch-distributed.yaml").read_text().replace("pytorch/pytorch", "own"))

    for arguments in (["--runtime", str(own)], ["-f", str(own)]):
        assert main(["render", "-f", str(sample), *arguments]) == 0
        assert "image: own:" in capsys.readouterr().out

    assert main(["render", "-f", str(sample), "--runtime", str(RUNTIMES / "jax-distributed.yaml")]) == 1
    assert "known are ClusterTrainingRuntime jax-distributed\n" in capsys.readouterr().err


def test_a_misspelt_shipped_runtime_is_told_the_nearest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = (ROOT / "config" / "samples" / "02-torch.yaml").read_text()
    (tmp_path / "job.yaml").write_text(sample.replace("torch-distributed", "troch-distributed"))

    assert main(["render", "-f", str(tmp_path / "job.yaml")]) == 1
    assert "did you mean ClusterTrainingRuntime torch-distributed?" in capsys.readouterr().err


def test_text_that_yaml_reads_otherwise_is_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kubernetes takes `y` for true; the environment of a process is text."""
    sample = (ROOT / "config" / "samples" / "02-torch.yaml").read_text()
    (tmp_path / "job.yaml").write_text(sample + "    env: [{name: A, value: 'y'}, {name: B, value: 'on'}]\n")

    assert main(["render", "-f", str(tmp_path / "job.yaml")]) == 0

    printed = capsys.readouterr().out
    assert "value: 'y'" in printed
    assert "value: 'on'" in printed
    assert printed.index("kind: JobSet") < printed.index("metadata:") < printed.index("spec:")
