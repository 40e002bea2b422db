# SPDX-License-Identifier: Apache-2.0
"""MPI: nodes, slots, keys and host file."""

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

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
from trainwright.api.trainer.v1alpha1 import TrainingRuntime
from trainwright.plugins.contract import OFFLINE, PLACEHOLDER, Stage
from trainwright.plugins.contract.errors import PipelineError
from trainwright.plugins.testing import Result, train_job

BAD_NODES = ("spec.trainer.numNodes", "FieldValueInvalid")


def mpi(launcher_is_node: bool = False, *, first: str = "launcher", **policy: Any) -> TrainingRuntime:
    """A runtime for MPI; the trainer's label is on the launcher if that is a node, as shipped runtimes have it."""
    jobs = [
        job_template("launcher", "trainer" if launcher_is_node else None),
        job_template("node", None if launcher_is_node else "trainer"),
    ]
    numbers = {"numNodes": policy.pop("numNodes")} if "numNodes" in policy else {}
    jobs.sort(key=lambda job: job["name"] != first)
    return blueprint({**numbers, "mpi": {"runLauncherAsNode": launcher_is_node, **policy}}, *jobs)


def hosts(result: Result) -> list[str]:
    lines: list[str] = result.object("ConfigMap")["data"]["hostfile"].splitlines()
    return lines


@pytest.mark.parametrize(
    ("made", "nodes", "counts", "lines"),
    [
        pytest.param(mpi(), 2, (1, 2), ["node-0-0", "node-0-1"], id="125"),
        pytest.param(mpi(True), 1, (1, 1), ["launcher-0-0", "node-0-0"], id="121"),
        pytest.param(mpi(True), 10, (1, 9), ["launcher-0-0", *(f"node-0-{i}" for i in range(9))], id="122"),
        pytest.param(mpi(True), 3, (1, 2), ["launcher-0-0", "node-0-0", "node-0-1"], id="123"),
        pytest.param(mpi(True, first="node"), 2, (1, 1), ["node-0-0", "launcher-0-0"], id="124"),
        pytest.param(
            mpi(True, numNodes=4), None, (4, 1), [*(f"launcher-0-{i}" for i in range(4)), "node-0-0"], id="120"
        ),
    ],
)
def test_mpi_counts_nodes(made: TrainingRuntime, nodes: int | None, counts: tuple[int, int], lines: list[str]) -> None:
    result = outcome(made, trainer={"numNodes": nodes} if nodes is not None else {})
    assert pods(result) == {"launcher": counts[0], "node": counts[1]}
    assert hosts(result) == [f"job-{line}.job slots=1" for line in lines]


@pytest.mark.parametrize(
    ("own", "gpus", "given", "slots"),
    [
        pytest.param(1, 5, None, 5, id="127"),
        pytest.param(2, 5, None, 2, id="128"),
        pytest.param(1, 5, 8, 8, id="129"),
        pytest.param(1, 1, None, 1, id="one-gpu"),
        pytest.param(1, 2, None, 2, id="two-gpus"),
    ],
)
def test_mpi_counts_slots(own: int, gpus: int, given: int | None, slots: int) -> None:
    trainer: dict[str, Any] = {"resourcesPerNode": {"limits": resources(gpu=gpus)}}
    trainer |= {"numProcPerNode": given} if given else {}
    result = outcome(mpi(numProcPerNode=own), trainer=trainer)
    assert result.env("launcher")["OMPI_MCA_orte_set_default_slots"] == str(slots)
    assert hosts(result) == [f"job-node-0-0.job slots={slots}"]


@pytest.mark.parametrize(
    ("jobs", "nodes", "expected"),
    [
        ([job_template("node")], 2, [BAD_NODES]),
        ([job_template("launcher")], 2, [BAD_NODES]),
        ([job_template("other")], 2, [BAD_NODES]),
        ([job_template("node")], 1, []),
        ([job_template("launcher"), job_template("node", None)], 2, []),
    ],
)
def test_a_launcher_that_is_a_node_needs_both_jobs(
    jobs: list[dict[str, Any]], nodes: int, expected: list[tuple[str, str]]
) -> None:
    made = blueprint({"mpi": {"runLauncherAsNode": True}}, *jobs)
    assert errors(verdict(made, trainer={"numNodes": nodes})) == expected


def test_other_implementations_are_refused() -> None:
    made = mpi(mpiImplementation="")
    with pytest.raises(PipelineError, match="plugin MPI: mpiImplementation '' is not supported"):
        PIPELINE.begin(train_job(), made).render(OFFLINE)
    assert errors(verdict(made)) == [("spec", "FieldValueInvalid")]


def test_a_launcher_container_of_another_name_gets_volumes_only() -> None:
    made = blueprint("{mpi: {}}", job_template("launcher", None, container("launcher")), job_template())
    result = outcome(made, trainer={})
    assert {volume["name"] for volume in result.pod("launcher")["volumes"]} == {"mpi-ssh-auth", "mpi-hostfile"}
    assert result.container("launcher", "launcher") == container("launcher")


def test_keys_need_no_look_at_the_cluster() -> None:
    """The manager may not read Secrets: whether there are keys shows when it creates them."""
    run = PIPELINE.begin(train_job(), mpi())
    assert "Secret" not in {reference.resource.kind for reference in run.references()}
    made = [one for one in run.render(OFFLINE).components if one.resource.kind == "Secret"]
    assert [(one.reference.name, one.document["type"], one.stage) for one in made] == [
        ("job-mpi-ssh-auth", "kubernetes.io/ssh-auth", Stage.POD_INPUT)
    ]


def test_a_key_pair_is_fresh_and_matches() -> None:
    component = outcome(mpi()).component("Secret")
    assert component.document["type"] == "kubernetes.io/ssh-auth"
    assert component.document["immutable"] is True
    assert component.document["data"] == {"ssh-privatekey": PLACEHOLDER, "ssh-publickey": PLACEHOLDER}
    assert component.generate is not None
    one, two = (component.generate(component.document) for _ in range(2))
    assert {name: value for name, value in one.items() if name != "data"} == {
        name: value for name, value in component.document.items() if name != "data"
    }
    assert one["data"]["ssh-privatekey"] != two["data"]["ssh-privatekey"]
    private, public = (base64.b64decode(one["data"][name]) for name in ("ssh-privatekey", "ssh-publickey"))
    assert private.startswith(b"-----BEGIN EC PRIVATE KEY-----\n")
    assert public.startswith(b"ecdsa-sha2-nistp521 ")
    assert public.endswith(b"\n")
    key, other = serialization.load_pem_private_key(private, None), serialization.load_ssh_public_key(public)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert isinstance(other, ec.EllipticCurvePublicKey)
    assert key.public_key().public_numbers() == other.public_numbers()


def test_hosts_are_in_the_subdomain_of_the_template() -> None:
    jobs = [job_template("launcher", None), job_template("node")]
    result = outcome(blueprint("{mpi: {}}", *jobs, network={"subdomain": "ring"}), trainer={"numNodes": 2})
    assert hosts(result) == ["job-node-0-0.ring slots=1", "job-node-0-1.ring slots=1"]


def test_modes_of_keys_and_host_file() -> None:
    pod = outcome(mpi(sshAuthMountPath="/home/me/.ssh"), trainer={}).pod("launcher")
    keys, listing = pod["volumes"]
    assert keys["secret"]["defaultMode"] == 0o400
    assert [(item["path"], item["mode"]) for item in keys["secret"]["items"]] == [
        ("id_rsa", 0o640),
        ("id_rsa.pub", 0o644),
        ("authorized_keys", 0o644),
    ]
    assert listing["configMap"]["items"] == [{"key": "hostfile", "path": "hostfile", "mode": 0o444}]
    assert [m["mountPath"] for m in pod["containers"][0]["volumeMounts"]] == ["/home/me/.ssh", "/etc/mpi"]


def test_the_launchers_variables_are_in_order_and_before_the_jobs() -> None:
    made = mpi(True)
    result = outcome(made, trainer={"numNodes": 2, "env": [{"name": "A", "value": "1"}]})
    assert list(result.env("launcher").items()) == [
        ("OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"),
        ("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        ("OMPI_MCA_orte_set_default_slots", "1"),
        ("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10"),
        ("PRTE_MCA_prte_default_hostfile", "/etc/mpi/hostfile"),
        ("PRTE_MCA_plm_ssh_args", "-o ConnectionAttempts=10"),
        ("A", "1"),
    ]
    assert result.env("node") == {"A": "1"}


@pytest.mark.parametrize("name", ["PRTE_MCA_prte_default_hostfile", "PRTE_MCA_plm_ssh_args"])
def test_a_runtime_that_sets_a_variable_of_open_mpi_5_keeps_its_own(name: str) -> None:
    launcher = job_template("launcher", "trainer")
    containers = launcher["template"]["spec"]["template"]["spec"]["containers"]
    containers[0]["env"] = [{"name": name, "value": "/mine"}]
    made = blueprint({"mpi": {"runLauncherAsNode": True}}, launcher, job_template("node"))
    result = outcome(made, trainer={"numNodes": 2})
    assert result.env("launcher")[name] == "/mine"


IMAGE = "spec.trainer.image is not used in replicated job node, where mpirun starts processes too: its pods run base"
LAUNCHERS = "replicated job launcher has 3 pods, and each of them starts the command"
TWO = "numNodes is 1, but two pods run"


@pytest.mark.parametrize(
    ("made", "trainer", "said"),
    [
        (mpi(True), {"numNodes": 2, "image": "mine"}, [IMAGE]),
        (mpi(True), {"numNodes": 2, "image": "base"}, []),
        (mpi(), {"numNodes": 2, "image": "mine"}, []),
        (
            blueprint("{mpi: {}}", job_template("launcher", "trainer"), job_template("node", None)),
            {"image": "x"},
            [IMAGE],
        ),
        (mpi(True, numNodes=3), None, [LAUNCHERS]),
        (mpi(True, numNodes=3), {"numNodes": 4}, [LAUNCHERS]),
        (mpi(True), {"numNodes": 1}, [TWO]),
        (mpi(True), {"command": ["mpirun"]}, [TWO]),
        (mpi(True), None, []),
        (mpi(), {"numNodes": 1}, []),
        (blueprint({"mpi": {"runLauncherAsNode": True}}, job_template("launcher", "trainer")), {"numNodes": 1}, []),
    ],
)
def test_what_is_hardly_meant_is_a_warning(
    made: TrainingRuntime, trainer: dict[str, Any] | None, said: list[str]
) -> None:
    found = verdict(made, trainer=trainer) if trainer is not None else verdict(made)
    assert found.allowed
    assert [text.startswith(start) for text, start in zip(map(str, found.warnings), said, strict=True)] == [True] * len(
        said
    )


@pytest.mark.parametrize(
    ("launcher_is_node", "labelled"), [pytest.param(True, "launcher", id="77"), pytest.param(False, "node", id="else")]
)
def test_image_and_command_reach_the_labelled_job_only(launcher_is_node: bool, labelled: str) -> None:
    result = outcome(mpi(launcher_is_node), trainer={"image": "mine", "command": ["run"], "args": ["x"]})
    for name in ("launcher", "node"):
        found = result.container(name)
        assert (found["image"], "command" in found) == (("mine", True) if name == labelled else ("base", False))
