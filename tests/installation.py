# SPDX-License-Identifier: Apache-2.0
"""What config/ installs, on a test control plane, with our manager in the place of its pods.

The manager is a process with the files of a pod: its service account, whose rights are all that it has, and the mounted
Configuration, in which only addresses are changed, so that several run on one machine. A cluster has a network; here
the Service is an alias of this machine, and the webhooks name the port at which the manager listens.
"""

import base64
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.managers import COMMAND, MANAGER, is_asked
from tests.repository import ROOT
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.component import answers
from trainwright.controller.runtime.testing.ports import free_port

CONFIG = ROOT / "config"
NAMESPACE = "kubeflow-system"
NAME = "kubeflow-trainer-controller-manager"
CONFIGURATION = "controller_manager_config.yaml"
WITHOUT_ADMISSION = "example.com/without-admission"
"""Label of namespaces whose objects our webhooks are not asked about; of the tests, not of the installation."""
SPARED = {"matchExpressions": [{"key": WITHOUT_ADMISSION, "operator": "DoesNotExist"}]}
"""The selector of our webhooks for all other namespaces."""

_POD = """
run=$(readlink -f /var/run) && mount -t tmpfs none "$run" || exit 1
mkdir -p "$run/secrets/kubernetes.io/serviceaccount" && cp "$1"/* "$run/secrets/kubernetes.io/serviceaccount" || exit 1
shift && exec "$@"
"""
"""Shell: the files of the first argument are the pod's service account, the rest is the command."""

UNSHARE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
"""What to put before options that say which namespaces a command has for itself."""

Document = dict[str, Any]


def kustomized(control_plane: ControlPlane, folder: Path | str) -> list[Document]:
    """What `kubectl apply -k` would apply of a folder below config/, or of another one."""
    if isinstance(folder, Path):
        return _kustomized(control_plane, folder)
    # No test changes config/ itself.
    if folder not in _KUSTOMIZED:
        _KUSTOMIZED[folder] = json.dumps(_kustomized(control_plane, CONFIG / folder))
    documents: list[Document] = json.loads(_KUSTOMIZED[folder])
    return documents


_KUSTOMIZED: dict[str, str] = {}
"""JSON by folder of config/, since kubectl takes half a second of CPU time for one."""


def _kustomized(control_plane: ControlPlane, folder: Path) -> list[Document]:
    text = control_plane.kubectl("kustomize", str(folder))
    # The definitions are long: the loader in C takes a tenth of the time.
    return [*yaml.load_all(text, Loader=yaml.CSafeLoader)]


def install(control_plane: ControlPlane, folder: str = "default") -> "Installation":
    """Install a folder of config/, but for what is pretended (pods), there already (definitions) or cert-manager's."""
    left_out = {"Deployment", "CustomResourceDefinition", "Certificate", "Issuer"}
    control_plane.apply(*(one for one in kustomized(control_plane, folder) if one["kind"] not in left_out))
    return Installation(control_plane)


class Installation:
    """What is installed, and a place for our manager in it."""

    def __init__(self, control_plane: ControlPlane, namespace: str = NAMESPACE, jobs: str = "default") -> None:
        """Let what is installed lead to this machine.

        Args:
            control_plane: in which it is installed.
            namespace: of the manager.
            jobs: a namespace whose TrainJobs it manages.
        """
        self.control_plane, self.namespace, self._jobs = control_plane, namespace, jobs
        self.port = free_port()
        service = {"spec": {"type": "ExternalName", "externalName": "localhost"}}
        self._patch("service", NAME, service, "merge")
        self._patch_webhooks(clientConfig={"service": {"port": self.port}}, namespaceSelector=SPARED)

    def trust(self, authority: bytes) -> None:
        """Put the PEM of an authority into the webhook configurations, which no other program does here."""
        self._patch_webhooks(clientConfig={"caBundle": base64.b64encode(authority).decode()})

    def _patch_webhooks(self, **fields: Any) -> None:
        def is_ours(webhook: Document) -> bool:
            return bool(webhook["clientConfig"].get("service", {}).get("name") == NAME)

        patch_webhooks(self.control_plane, is_ours, **fields)

    def _patch(self, kind: str, name: str, patch: Document, style: str) -> None:
        _patch(self.control_plane, kind, name, patch, style, self.namespace)

    @property
    def configuration(self) -> Document:
        """The Configuration as it is mounted."""
        stored = self.control_plane.stored.get("configmap", "kubeflow-trainer-config", self.namespace)
        assert stored is not None
        found: Document = yaml.safe_load(stored["data"][CONFIGURATION])
        return found

    def start(
        self,
        name: str = MANAGER,
        *arguments: str,
        command: Callable[[Path, Path], Sequence[str]] | None = None,
        wait: bool = True,
        **changed: Any,
    ) -> None:
        """Run a replica until the control plane ends, and wait until it is ready and the API server gets through.

        Args:
            name: of the program and of its log.
            arguments: more of them for the manager.
            command: runs the manager otherwise than from this checkout, given the folder of the service account and the
                file with the Configuration.
            wait: until it is ready.
            changed: other fields of the Configuration.
        """
        folder = self.control_plane.folder / name
        account = self.control_plane.users.mount_service_account(NAME, self.namespace, folder / "account")
        health = f"127.0.0.1:{free_port()}"
        configuration: Mapping[str, Any] = {
            **self.configuration,
            "webhook": {"host": "127.0.0.1", "port": self.port},
            "metrics": {"bindAddress": f"127.0.0.1:{free_port()}"},
            "health": {"healthProbeBindAddress": health},
            **changed,
        }
        file = folder / CONFIGURATION
        file.write_text(json.dumps(configuration))
        if command is not None:
            whole = [*environment(self.control_plane), *command(account, file), *arguments]
        else:
            whole = [*as_pod(self.control_plane, account), *COMMAND, f"--config={file}", *arguments]

        def ready() -> bool:
            return not wait or (answers(f"http://{health}/readyz") and is_asked(self.control_plane, self._jobs))

        self.control_plane.launch(name, whole, ready=ready)


def patch_webhooks(control_plane: ControlPlane, is_ours: Callable[[Document], bool], **fields: Any) -> None:
    """Set fields of the webhooks that are ours."""
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        for configuration in control_plane.stored.list(kind):
            ours = [{"name": webhook["name"], **fields} for webhook in configuration["webhooks"] if is_ours(webhook)]
            if ours:
                _patch(control_plane, kind, configuration["metadata"]["name"], {"webhooks": ours}, "strategic")


def _patch(
    control_plane: ControlPlane, kind: str, name: str, patch: Document, style: str, namespace: str = NAMESPACE
) -> None:
    control_plane.stored.patch(kind, name, patch, namespace, style=style)


def environment(control_plane: ControlPlane) -> list[str]:
    """What to put before a command so that it has the environment of a pod, and nothing else but PATH."""
    host, port = control_plane.url.removeprefix("https://").split(":")
    variables = {"PATH": os.environ["PATH"], "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    return ["env", "--ignore-environment", *(f"{name}={value}" for name, value in variables.items())]


def as_pod(control_plane: ControlPlane, account: Path) -> list[str]:
    """What to put before a command so that it finds the service account in the folder `account` where pods have it."""
    return [*environment(control_plane), *with_own_mounts(_POD, account)]


def with_own_mounts(script: str, folder: Path) -> list[str]:
    """What to put before a command so that a script in a mount namespace of its own is given both.

    Args:
        script: shell; its first argument is the folder, the rest the command, which it has to execute.
        folder: what the process finds elsewhere.
    """
    return [*UNSHARE, "--mount", "sh", "-c", script, "pod", str(folder)]


def forbidden(control_plane: ControlPlane, namespace: str = NAMESPACE) -> list[str]:
    """What the manager called without the right to. JobSet's webhook refuses with 403 too, which is another matter."""
    calls = control_plane.audit_log.calls(user=f"system:serviceaccount:{namespace}:{NAME}")
    return [f"{call.verb} {call.uri}" for call in calls if call.decision == "forbid"]
