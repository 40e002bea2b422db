# SPDX-License-Identifier: Apache-2.0
"""The Flux plugin: starts a Flux instance over all nodes, which runs the command of the TrainJob.

Of its two scripts, one prepares a volume, in an init container; the other one runs on each node. The image of the init
container (the view) has Flux, which is copied to a shared volume, so that training can use any image. Both scripts use
this volume below /mnt/flux. `$name` is replaced by a value; `$$` is the `$` of the shell.
"""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import Template

from trainwright.api.kubernetes.core import v1 as core
from trainwright.api.kubernetes.core.v1 import EnvVar
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import FluxMLPolicySource, TrainJob
from trainwright.api.trainer.v1alpha1.constants import NODE
from trainwright.plugins.contract import (
    PLACEHOLDER,
    Component,
    Finding,
    GeneratedSecret,
    Info,
    PodRef,
    PodSet,
    Stage,
    Watch,
    gpu_count,
    invalid,
)

_INSTALLER = "flux-installer"
_SHELL = "/bin/bash"
_SCRIPTS_DIRECTORY = "/etc/flux-config"
_INIT_SCRIPT = "init.sh"
_ENTRYPOINT_SCRIPT = "entrypoint.sh"
_INSTALL, _SOFTWARE, _CURVE, _MEMORY = "flux-install", "spack-install", "flux-curve", "shared-memory"

_INIT_TEXT = Template("""\
#!/bin/bash
# Prepares the volume that the nodes run Flux from. Runs once per pod, in the image of the view.
set -eu

root=/opt/view
install=/mnt/flux/config
mainHost="$main_host"
hosts="$hosts"

export PATH="$${root}/bin:$${PATH}"
mkdir -p "$${root}/bin"
mkdir -p "$${install}/etc/flux/system/cron.d" "$${install}/var/lib/flux" "$${install}/etc/flux/config" \\
  "$${install}/run/flux" "$${install}/etc/curve"

echo "$${hosts}" > "$${install}/etc/flux/system/hostlist"

cat <<'EOT' >> $${install}/etc/flux/config/broker.toml
$broker
EOT

mkdir -p /mnt/flux/view
view=$$(echo /opt/views/._view/*)
cp -R "$${view}"/* /mnt/flux/view/
cp -R /opt/software /mnt/flux/
touch /mnt/flux/flux-operator-done.txt
""")

_BROKER_TEXT = Template("""\
[access]
allow-guest-user = true
allow-root-owner = true

[resource]
path = "/mnt/flux/config/etc/flux/system/R"

[bootstrap]
curve_cert = "/mnt/flux/config/etc/curve/curve.cert"
default_port = 8050
default_bind = "tcp://$device:%p"
default_connect = "tcp://%h.$subdomain.$namespace.svc.cluster.local:%p"
hosts = [
  { host = "$hosts" },
]

[archive]
dbpath = "/mnt/flux/config/var/lib/flux/job-archive.sqlite"
period = "1m"
busytimeout = "50s"

[sched-fluxion-qmanager]
queue-policy = "$queue_policy"
""")

_ENTRYPOINT_TEXT = Template("""\
#!/bin/bash
# Starts the broker of this node. The arguments are the command to train with; the first node runs it, the others serve.
set -u

mainHost="$main_host"
flags="$run_flags"
install=/mnt/flux/config
view=/mnt/flux/view

export PATH="$${PATH}:$${view}/bin"
mkdir -p /opt/software
cp -R /mnt/flux/software/* /opt/software/

# The view's Python packages, for the interpreter that the view itself was made with.
library=$$(echo "$${view}"/lib/python3*)
export PYTHONPATH="$${PYTHONPATH:-}:$${library}/site-packages"
interpreter=$$(find -L /opt/software -path "*/bin/$$(basename "$${library}")" -type f 2>/dev/null | head -n 1)
if [ -n "$${interpreter}" ]; then
  ln -sf "$${interpreter}" "$${view}/bin/python3"
  ln -sf "$${interpreter}" "$${view}/bin/python"
fi

export FLUX_RC_EXTRA="$${view}/etc/flux/rc1.d"

cat <<'LOAD' > /mnt/flux/load-fluxion.sh
#!/bin/bash
flux module remove sched-simple
flux module load sched-fluxion-resource
flux module load sched-fluxion-qmanager
LOAD

# For people who enter the pod: the environment in which flux commands reach this instance.
cat <<VIEW > /mnt/flux/flux-view.sh
#!/bin/bash
export PATH="$${PATH}"
export PYTHONPATH="$${PYTHONPATH}"
export LD_LIBRARY_PATH="$${LD_LIBRARY_PATH:-}:$${view}/lib"
export fluxsocket="local://$${install}/run/flux/local"
VIEW

command="$$*"

mkdir -p "$${install}/etc/curve"
cp /curve/curve.cert "$${install}/etc/curve/curve.cert"
chmod go-r "$${install}/etc/curve/curve.cert"
chown "$$(id -u)" "$${install}/etc/curve/curve.cert"

flux R encode --hosts="$$(cat "$${install}/etc/flux/system/hostlist")" $resource_flags > "$${install}/etc/flux/system/R"

state="$${install}/var/lib/flux"
mkdir -p "$${state}" /tmp/fluxout
options="-Scron.directory=$${install}/etc/flux/system/cron.d -Stbon.fanout=256 -Srundir=$${install}/run/flux"
options="$${options} -Sstatedir=$${state} -Slocal-uri=local://$${install}/run/flux/local"
options="$${options} -Slog-stderr-level=0 -Slog-stderr-mode=local"

# Options and command are words of their own from here on: both come as one line.
code=0
if [ "$$(hostname)" = "$${mainHost}" ]; then
  if [ -z "$${command}" ]; then
    flux broker --config-path "$${install}/etc/flux/config" $${options} || code=$$?
  else
    flux start -o --config "$${install}/etc/flux/config" $${options} flux run $${flags} $${command} || code=$$?
  fi
else
  # The first node may not be there yet.
  until flux start -o --config "$${install}/etc/flux/config" $${options}; do
    sleep 15
  done
fi

touch /mnt/flux/flux-operator-complete.txt
# A training that failed must not look complete.
exit "$${code}"
""")


_CERTIFICATE = GeneratedSecret("Opaque", "-flux-curve")


class FluxPlugin:
    """Makes a ConfigMap with scripts and a Secret with a certificate, and lets the nodes start Flux, which runs the
    command.

    For runtimes with `mlPolicy.flux`. PlainML sets the number of nodes and the TrainJob's variables.
    """

    name = "Flux"
    after = ("PlainML",)
    secrets = (_CERTIFICATE,)

    def watches(self) -> Sequence[Watch]:
        return (Watch(core.ConfigMap.RESOURCE, metadata_only=True, makes=True),)

    def validate(self, info: Info) -> Iterable[Finding]:
        """The runtime must not have an init container with the name of the one that the plugin adds."""
        nodes = info.pod_set(NODE)
        if info.ml_policy_or_empty.flux is None or nodes is None:
            return
        for container in nodes.init_containers:
            if container.name == _INSTALLER:
                problem = "the Flux plugin adds an init container of this name; rename the runtime's"
                yield invalid("spec.trainer.initContainers", _INSTALLER, problem)

    def reporter(self, info: Info) -> PodRef | None:
        """The first node, which is the lead broker and starts rank 0."""
        return PodRef.first_of(info.pod_set(NODE)) if info.ml_policy_or_empty.flux is not None else None

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        """Wrap the command, and mount Flux, the scripts and the certificate into the nodes."""
        if info.ml_policy_or_empty.flux is None:
            return
        image = settings_of(info)[VIEW_IMAGE]
        command = [_SHELL, f"{_SCRIPTS_DIRECTORY}/{_ENTRYPOINT_SCRIPT}", command_of(info)]
        info.trainer.set_command(command, why="starts Flux, which runs the command")
        info.trainer.set_args(None, why="they are part of the command")
        nodes = info.pod_set(NODE)
        if nodes is not None:
            _add_volumes(nodes, job)
            _add_installer(nodes, job, image)
            for container in nodes.containers:
                if container.name == NODE:
                    for mount in _mounts(job):
                        container.set_mount(mount, why="Flux, its scripts and its certificate")

    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        """The scripts and the certificate."""
        policy = info.ml_policy_or_empty.flux
        if policy is None:
            return
        yield _scripts(info, job, policy)
        yield _CERTIFICATE.component(job, {"data": {KEY: PLACEHOLDER}}, with_new_certificate)


def _scripts_name(job: TrainJob) -> str:
    return f"{job.name}-flux-entrypoint"


def _add_volumes(nodes: PodSet, job: TrainJob) -> None:
    scripts = core.ConfigMapVolumeSource(name=_scripts_name(job), default_mode=0o755)
    certificate = core.SecretVolumeSource(secret_name=_CERTIFICATE.name(job), default_mode=0o400)
    for volume, why in (
        (core.Volume(name=_SOFTWARE, empty_dir=core.EmptyDirVolumeSource()), "software of the view"),
        (core.Volume(name=_INSTALL, empty_dir=core.EmptyDirVolumeSource()), "Flux, copied from the view"),
        (core.Volume(name=_scripts_name(job), config_map=scripts), "scripts"),
        (
            core.Volume(name=_MEMORY, empty_dir=core.EmptyDirVolumeSource(medium="Memory")),
            "memory shared between processes",
        ),
        (core.Volume(name=_CURVE, secret=certificate), "certificate of the brokers"),
    ):
        nodes.set_volume(volume, why=why)


def _add_installer(nodes: PodSet, job: TrainJob, image: str) -> None:
    installer = core.Container(
        name=_INSTALLER,
        image=image,
        command=[_SHELL, f"{_SCRIPTS_DIRECTORY}/{_INIT_SCRIPT}"],
        volume_mounts=[
            core.VolumeMount(name=_INSTALL, mount_path="/mnt/flux"),
            core.VolumeMount(name=_scripts_name(job), mount_path=_SCRIPTS_DIRECTORY, read_only=True),
        ],
    )
    nodes.add_init_container(installer, why="copies Flux to where the nodes run it")


def _mounts(job: TrainJob) -> tuple[core.VolumeMount, ...]:
    return (
        core.VolumeMount(name=_INSTALL, mount_path="/mnt/flux"),
        core.VolumeMount(name=_SOFTWARE, mount_path="/opt/software"),
        core.VolumeMount(name=_scripts_name(job), mount_path=_SCRIPTS_DIRECTORY, read_only=True),
        core.VolumeMount(name=_CURVE, mount_path="/curve", read_only=True),
        core.VolumeMount(name=_MEMORY, mount_path="/dev/shm", read_only=True),  # noqa: S108 - a mount, not a file of ours
    )


def _scripts(info: Info, job: TrainJob, policy: FluxMLPolicySource) -> Component:
    settings, shape = settings_of(info), shape_of(info, job, policy, info.pod_set(NODE))
    hosts = f"{job.name}-{NODE}-0-[{index_range(shape.nodes)}]"
    broker = _BROKER_TEXT.substitute(
        hosts=hosts,
        subdomain=info.subdomain,
        namespace=job.namespace,
        device=settings[NETWORK_DEVICE],
        queue_policy=settings[QUEUE_POLICY],
    ).rstrip("\n")
    entrypoint = _ENTRYPOINT_TEXT.substitute(
        main_host=f"{job.name}-{NODE}-0-0", run_flags=shape.run_flags, resource_flags=shape.resource_flags
    )
    data = {
        _ENTRYPOINT_SCRIPT: entrypoint,
        _INIT_SCRIPT: _INIT_TEXT.substitute(hosts=hosts, main_host=f"{job.name}-0", broker=broker),
    }
    return Component.owned_by(job, core.ConfigMap.RESOURCE, _scripts_name(job), {"data": data}, stage=Stage.POD_INPUT)


VIEW_IMAGE = "FLUX_VIEW_IMAGE"
NETWORK_DEVICE = "FLUX_NETWORK_DEVICE"
QUEUE_POLICY = "FLUX_QUEUE_POLICY"
_DEFAULTS = {
    VIEW_IMAGE: "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
    NETWORK_DEVICE: "eth0",
    QUEUE_POLICY: "fcfs",
}


@dataclass(frozen=True, slots=True)
class FluxShape:
    """Nodes, processes and devices of the instance."""

    nodes: int
    tasks: int
    """Processes on each node."""
    gpus: int
    """Accelerators of each node."""

    @property
    def run_flags(self) -> str:
        flags = f"-N {self.nodes} -n {self.nodes * self.tasks}"
        return f"{flags} -g {self.gpus}" if self.gpus > 0 else flags

    @property
    def resource_flags(self) -> str:
        flags = f"--cores={index_range(self.tasks)}"
        return f"{flags} --gpu={index_range(self.gpus)}" if self.gpus > 0 else flags


def settings_of(info: Info) -> dict[str, str]:
    """Image, device and queue policy: from the TrainJob's variables, else from those of the container, else defaults.

    Only literal values are used; a variable with a source has no value before the pod runs.
    """
    container = info.trainer_container
    variables: tuple[EnvVar, ...] = (*(container.env if container is not None else ()), *info.trainer_env)
    given = {v.name: v.value for v in variables if v.name in _DEFAULTS and v.value is not None}
    return {**_DEFAULTS, **given}


def shape_of(info: Info, job: TrainJob, policy: FluxMLPolicySource, nodes: PodSet | None) -> FluxShape:
    """The numbers of the TrainJob, else those of the runtime."""
    trainer = job.spec_or_empty.trainer_or_empty
    count, tasks = trainer.num_nodes, trainer.num_proc_per_node
    return FluxShape(
        nodes=count if count is not None else nodes.count if nodes is not None else 1,
        tasks=tasks if tasks is not None else policy.num_proc_per_node or 1,
        gpus=gpu_count(info.resources_per_node()),
    )


def command_of(info: Info) -> str:
    """The command to run, as one line: command and arguments of the TrainJob, or the command of the container.

    Arguments of the container are not part of it: they stay in the container, which passes them to the script.
    """
    container = info.trainer_container
    own = container.command if container is not None else ()
    command = info.trainer.command if info.trainer.command is not None else own
    return " ".join((*command, *(info.trainer.args or ()))).strip()


def index_range(count: int) -> str:
    """The range of that many indices: 0, or 0-3."""
    return "0" if count == 1 else f"0-{count - 1}"


KEY = "curve.cert"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def with_new_certificate(document: Document) -> Document:
    """The document of the Secret with a new certificate, named after the TrainJob that owns it."""
    # Imported here: most processes never create keys.
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey  # noqa: PLC0415

    key = X25519PrivateKey.generate()
    owner = document["metadata"]["ownerReferences"][0]["name"]
    text = certificate(owner, key.public_key().public_bytes_raw(), key.private_bytes_raw())
    return {**document, "data": {KEY: base64.b64encode(text.encode()).decode("ascii")}}


def certificate(name: str, public: bytes, secret: bytes) -> str:
    """The text of a certificate file; keys are 32 bytes each."""
    lines = (
        "#   ZeroMQ CURVE certificate of one TrainJob.",
        "#   It holds a private key: keep it to the pods of the job.",
        "",
        "metadata",
        f'    name = "{name}"',
        "curve",
        f'    public-key = "{z85(public)}"',
        f'    secret-key = "{z85(secret)}"',
    )
    return "".join(f"{line}\n" for line in lines)


def z85(data: bytes) -> str:
    """Text of binary data, five characters for four bytes. Raises ValueError for other lengths."""
    if len(data) % 4:
        raise ValueError(f"{len(data)} bytes have no Z85 form; their number must be a multiple of 4")
    return "".join(_word(int.from_bytes(data[start : start + 4], "big")) for start in range(0, len(data), 4))


def _word(number: int) -> str:
    return "".join(_Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
