# SPDX-License-Identifier: Apache-2.0
"""The MPI plugin: a launcher starts processes over SSH on the nodes that a host file lists."""

import base64
from collections.abc import Iterable, Sequence

from trainwright.api.kubernetes.core import v1 as core
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import MPIMLPolicySource, TrainJob
from trainwright.api.trainer.v1alpha1.constants import LAUNCHER, NODE, STEP_TRAINER
from trainwright.plugins.contract import (
    PLACEHOLDER,
    TRAIN_JOB,
    Component,
    ContainerModel,
    Finding,
    GeneratedSecret,
    Info,
    PodRef,
    PodSet,
    Refusal,
    Stage,
    Warned,
    Watch,
    gpu_count,
    invalid,
)

_OPEN_MPI = "OpenMPI"
_KEYS_VOLUME = "mpi-ssh-auth"
_HOSTS_VOLUME = "mpi-hostfile"
_HOSTS_DIRECTORY = "/etc/mpi"
_HOSTS_FILE = "hostfile"
_DEFAULT_KEYS_DIRECTORY = "/root/.ssh"
_ENV_HOSTS = "OMPI_MCA_orte_default_hostfile"
_ENV_FQDN = "OMPI_MCA_orte_keep_fqdn_hostnames"
_ENV_SLOTS = "OMPI_MCA_orte_set_default_slots"
_ENV_RSH = "OMPI_MCA_plm_rsh_args"
_RESERVED = frozenset({_ENV_HOSTS, _ENV_FQDN, _ENV_SLOTS, _ENV_RSH})
_HOSTS_PATH = f"{_HOSTS_DIRECTORY}/{_HOSTS_FILE}"
_CONNECT = "-o ConnectionAttempts=10"
_OF_OPEN_MPI_5 = {
    "PRTE_MCA_prte_default_hostfile": (_HOSTS_PATH, "where Open MPI 5 looks for the nodes"),
    "PRTE_MCA_plm_ssh_args": (_CONNECT, "what Open MPI 5 passes to ssh"),
}
"""What Open MPI 5 reads, whose launcher PRRTE does not know the older names. Not reserved: whoever uses version 5 with
Kubeflow Trainer sets them."""


_KEYS = GeneratedSecret("kubernetes.io/ssh-auth", "-mpi-ssh-auth")


class MPIPlugin:
    """Makes a Secret with SSH keys and a ConfigMap with the host file, mounts both, and sets the variables of Open MPI.

    For runtimes with `mlPolicy.mpi`. It also sets the number of nodes; the launcher may be one of them.
    """

    name = "MPI"
    secrets = (_KEYS,)

    def watches(self) -> Sequence[Watch]:
        return (Watch(core.ConfigMap.RESOURCE, metadata_only=True, makes=True),)

    def validate(self, info: Info, job: TrainJob) -> Iterable[Finding]:
        """Where the launcher is a node, several nodes need both jobs. Users must not set the variables of Open MPI."""
        policy = info.ml_policy_or_empty.mpi
        trainer = job.spec_or_empty.trainer
        if policy is None or trainer is None:
            return
        nodes = 1 if trainer.num_nodes is None else trainer.num_nodes
        complete = info.pod_set(LAUNCHER) is not None and info.pod_set(NODE) is not None
        if nodes >= 2 and policy.run_launcher_as_node and not complete:
            problem = f"must be 1, since the runtime lacks a replicated job {LAUNCHER} or {NODE}"
            yield invalid("spec.trainer.numNodes", nodes, problem)
        reserved = sorted({variable.name for variable in trainer.env or ()} & _RESERVED)
        if reserved:
            yield invalid("spec.trainer.env", trainer.env, f"{', '.join(reserved)}: set by the MPI plugin; remove them")

    def validate_shaped(self, info: Info, job: TrainJob) -> Iterable[Finding]:
        """Warn of nodes with another image than the launcher, and of numbers of pods that were hardly meant."""
        policy = info.ml_policy_or_empty.mpi
        if policy is not None:
            yield from _about_images(info, policy)
            yield from _about_numbers(info, policy, job)

    def reporter(self, info: Info) -> PodRef | None:
        """The pod in the first line of the host file, where mpirun starts rank 0: the launcher, if it is a node."""
        policy = info.ml_policy_or_empty.mpi
        if policy is None:
            return None
        return PodRef.first_of(info.pod_set(LAUNCHER if policy.run_launcher_as_node else NODE))

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        """Set the number of nodes, mount keys and host file, and set the variables of the launcher."""
        policy = info.ml_policy_or_empty.mpi
        if policy is None:
            return
        nodes, launcher = info.pod_set(NODE), info.pod_set(LAUNCHER)
        _set_nodes(policy, job, nodes)
        for pod_set in (nodes, launcher):
            if pod_set is not None:
                _mount_keys(policy, job, pod_set)
        if launcher is not None:
            self._set_up_launcher(info, policy, job, launcher)

    def _set_up_launcher(self, info: Info, policy: MPIMLPolicySource, job: TrainJob, launcher: PodSet) -> None:
        source = core.ConfigMapVolumeSource(
            name=_hosts_name(job), items=[core.KeyToPath(key=_HOSTS_FILE, path=_HOSTS_FILE, mode=0o444)]
        )
        launcher.set_volume(core.Volume(name=_HOSTS_VOLUME, config_map=source), why="list of the nodes")
        for container in launcher.containers:
            if container.name == NODE:
                mount = core.VolumeMount(name=_HOSTS_VOLUME, mount_path=_HOSTS_DIRECTORY)
                container.set_mount(mount, why="list of the nodes")
                _point_to_hosts(policy, container, _slots(info, policy, job))

    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        """The host file and the keys."""
        policy = info.ml_policy_or_empty.mpi
        if policy is None:
            return
        keys = {"immutable": True, "data": {PRIVATE: PLACEHOLDER, PUBLIC: PLACEHOLDER}}
        yield _KEYS.component(job, keys, with_new_keys)
        hosts = {"data": {_HOSTS_FILE: _host_file(info, policy, _slots(info, policy, job))}}
        yield Component.owned_by(job, core.ConfigMap.RESOURCE, _hosts_name(job), hosts, stage=Stage.POD_INPUT)


def _hosts_name(job: TrainJob) -> str:
    return f"{job.name}-mpi-hostfile"


def _set_nodes(policy: MPIMLPolicySource, job: TrainJob, nodes: PodSet | None) -> None:
    """Where the launcher is a node, it counts as one of them; the job `node` keeps at least one pod."""
    wanted = job.spec_or_empty.trainer_or_empty.num_nodes
    if nodes is None or wanted is None:
        return
    if not policy.run_launcher_as_node:
        nodes.set_nodes(job)
        return
    why = "spec.trainer.numNodes, one of which is the launcher"
    nodes.set_count(max(wanted - 1, 1), why=why, source=TRAIN_JOB)


def _slots(info: Info, policy: MPIMLPolicySource, job: TrainJob) -> int:
    """Processes on each node: the TrainJob's number, else the runtime's; 1 there means one for each accelerator."""
    wanted = job.spec_or_empty.trainer_or_empty.num_proc_per_node
    if wanted is not None:
        return wanted
    slots = 1 if policy.num_proc_per_node is None else policy.num_proc_per_node
    gpus = gpu_count(info.resources_per_node())
    return gpus if slots == 1 and gpus > 1 else slots


def _mount_keys(policy: MPIMLPolicySource, job: TrainJob, pod_set: PodSet) -> None:
    source = core.SecretVolumeSource(
        secret_name=_KEYS.name(job),
        default_mode=0o400,
        items=[
            core.KeyToPath(key=PRIVATE, path="id_rsa", mode=0o640),
            core.KeyToPath(key=PUBLIC, path="id_rsa.pub", mode=0o644),
            core.KeyToPath(key=PUBLIC, path="authorized_keys", mode=0o644),
        ],
    )
    pod_set.set_volume(core.Volume(name=_KEYS_VOLUME, secret=source), why="keys for SSH between launcher and nodes")
    directory = policy.ssh_auth_mount_path or _DEFAULT_KEYS_DIRECTORY
    for container in pod_set.containers:
        if container.name == NODE:
            mount = core.VolumeMount(name=_KEYS_VOLUME, mount_path=directory)
            container.set_mount(mount, why="keys for SSH between launcher and nodes")


def _point_to_hosts(policy: MPIMLPolicySource, container: ContainerModel, slots: int) -> None:
    _only_open_mpi(policy)
    container.set_env(_ENV_HOSTS, _HOSTS_PATH, why="where the nodes are listed")
    container.set_env(_ENV_FQDN, "true", why="the list has whole host names")
    container.set_env(_ENV_SLOTS, str(slots), why="processes on each node")
    container.set_env(_ENV_RSH, _CONNECT, why="nodes may start later than the launcher")
    for name, (value, why) in _OF_OPEN_MPI_5.items():
        if container.variable(name) is None:
            container.set_env(name, value, why=why)


def _host_file(info: Info, policy: MPIMLPolicySource, slots: int) -> str:
    """One line for each pod that runs processes, in the order of the template."""
    _only_open_mpi(policy)
    hosts = (host for pod_set in _taking_part(info, policy) for host in pod_set.hosts())
    return "".join(f"{host} slots={slots}\n" for host in hosts)


def _taking_part(info: Info, policy: MPIMLPolicySource) -> list[PodSet]:
    """Those whose pods run processes."""
    names = (NODE, LAUNCHER) if policy.run_launcher_as_node else (NODE,)
    return [pod_set for pod_set in info.pod_sets if pod_set.name in names]


def _about_images(info: Info, policy: MPIMLPolicySource) -> Iterable[Warned]:
    """The image of the TrainJob goes into the trainer's step alone, as in Kubeflow Trainer."""
    image = info.trainer.image
    for pod_set in _taking_part(info, policy) if image is not None else ():
        container = pod_set.container(NODE)
        if pod_set.step != STEP_TRAINER and container is not None and container.image != image:
            yield Warned(
                f"spec.trainer.image is not used in replicated job {pod_set.name}, where mpirun starts processes too: "
                f"its pods run {container.image}, the image of the runtime; use a runtime that names your image there"
            )


def _about_numbers(info: Info, policy: MPIMLPolicySource, job: TrainJob) -> Iterable[Warned]:
    """Numbers of pods that are kept because Kueue computes the same, and that hardly anybody means."""
    launcher, nodes = info.pod_set(LAUNCHER), info.pod_set(NODE)
    if launcher is None:
        return
    if (launchers := launcher.count * launcher.replicas) > 1:
        yield Warned(
            f"replicated job {LAUNCHER} has {launchers} pods, and each of them starts the command; set numNodes of the "
            "runtime's mlPolicy to 1, and the number of nodes in spec.trainer.numNodes"
        )
        return
    if job.spec_or_empty.trainer is None:
        return  # it takes the runtime as it is, as the job that `doctor` tries does
    asked = job.spec_or_empty.trainer_or_empty.num_nodes
    wanted = asked if asked is not None else info.ml_policy_or_empty.num_nodes
    if policy.run_launcher_as_node and nodes is not None and wanted in {1, None} and nodes.count * nodes.replicas == 1:
        yield Warned(
            f"numNodes is 1, but two pods run: the launcher is a node, and replicated job {NODE} has one pod at least; "
            f"set spec.trainer.numNodes to 2, or use a runtime without the job {NODE}"
        )


def _only_open_mpi(policy: MPIMLPolicySource) -> None:
    implementation = _OPEN_MPI if policy.mpi_implementation is None else policy.mpi_implementation
    if implementation != _OPEN_MPI:
        raise Refusal(f"mpiImplementation {implementation!r} is not supported; the runtime must set it to {_OPEN_MPI}")


PRIVATE = "ssh-privatekey"
PUBLIC = "ssh-publickey"


def with_new_keys(document: Document) -> Document:
    """The document with a fresh ECDSA P-521 pair: private key in PEM (SEC1), public key as an authorized_keys line."""
    # Imported here: most processes never create keys.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH) + b"\n"
    return {**document, "data": {PRIVATE: _encoded(private), PUBLIC: _encoded(public)}}


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
