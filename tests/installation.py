# SPDX-License-Identifier: Apache-2.0
"""What config/ installs, on a test control plane, with our manager in the place of its pods.

The manager is a process with the files of a pod: its service account, whose rights are all that it has, and the mounted
Configuration, in which only addresses are changed, so that several run on one machine. A cluster has a network; here
the Service is an alias of this machine, and the webhooks name the port at which the manager listens.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.repository import ROOT
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.component import free_port

CONFIG = ROOT / "config"
NAMESPACE = "kubeflow-system"
NAME = "kubeflow-trainer-controller-manager"
CONFIGURATION = "controller_manager_config.yaml"
MANAGER = "trainwright"
WITHOUT_ADMISSION = "example.com/without-admission"
"""Label of namespaces whose objects our webhooks are not asked about; of the tests, not of the installation."""

_POD = """
run=$(readlink -f /var/run) && mount -t tmpfs none "$run" || exit 1
mkdir -p "$run/secrets/kubernetes.io/serviceaccount" && cp "$1"/* "$run/secrets/kubernetes.io/serviceaccount" || exit 1
shift && exec "$@"
"""
"""Shell: the files of the first argument are the pod's service account, the rest is the command."""

Document = dict[str, Any]


def kustomized(control_plane: ControlPlane, folder: Path | str) -> list[Document]:
    """What `kubectl apply -k` would apply of a folder below config/, or of another one."""
    return [*yaml.safe_load_all(control_plane.kubectl("kustomize", str(CONFIG / folder)))]


class Installation:
    """A folder of config/, installed."""

    def __init__(
        self,
        control_plane: ControlPlane,
        folder: str = "default",
        *,
        change: Callable[[list[Document]], Iterable[Document]] = lambda documents: documents,
    ) -> None:
        """Install it. `change` gives what is applied instead of what is in the folder."""
        self.control_plane = control_plane
        self.port = free_port()
        documents = [*change(kustomized(control_plane, folder))]
        self.configuration: Document = {}
        for document in documents:
            if document["metadata"]["name"] == NAME and document["kind"] == "Service":
                document["spec"] = {"type": "ExternalName", "externalName": "localhost"}
            for webhook in document.get("webhooks", ()):
                webhook["clientConfig"]["service"]["port"] = self.port
                selector = webhook.setdefault("namespaceSelector", {})
                selector["matchExpressions"] = [{"key": WITHOUT_ADMISSION, "operator": "DoesNotExist"}]
            if CONFIGURATION in document.get("data", {}):
                self.configuration = yaml.safe_load(document["data"][CONFIGURATION])
        # Its pods would be pretended; the definitions are there already.
        left_out = {"Deployment", "CustomResourceDefinition"}
        control_plane.apply(*(document for document in documents if document["kind"] not in left_out))

    def start(self, name: str = MANAGER, *arguments: str, **changed: Any) -> None:
        """Run a replica until the control plane ends, and wait until it is ready.

        `arguments` follow those of the Deployment, `changed` replaces fields of its Configuration.
        """
        folder = self.control_plane.folder / name
        account = folder / "account"
        account.mkdir(parents=True, exist_ok=True)
        (account / "namespace").write_text(NAMESPACE)
        (account / "ca.crt").write_bytes(self.control_plane.ca)
        (account / "token").write_text(
            self.control_plane.kubectl("create", "token", NAME, "--namespace", NAMESPACE).strip()
        )
        health = f"127.0.0.1:{free_port()}"
        configuration: Mapping[str, Any] = {
            **self.configuration,
            "webhook": {"host": "127.0.0.1", "port": self.port},
            "metrics": {"bindAddress": f"127.0.0.1:{free_port()}"},
            "health": {"healthProbeBindAddress": health},
            **changed,
        }
        (folder / CONFIGURATION).write_text(json.dumps(configuration))
        host, port = self.control_plane.url.removeprefix("https://").split(":")
        command = ["env", f"KUBERNETES_SERVICE_HOST={host}", f"KUBERNETES_SERVICE_PORT={port}", "--unset=KUBECONFIG"]
        command += ["unshare", *_unprivileged(), "--mount", "sh", "-c", _POD, "pod", str(account)]
        command += [
            sys.executable,
            "-m",
            "trainwright.controller.cli.main",
            "manager",
            f"--config={folder / CONFIGURATION}",
        ]
        self.control_plane.launch(name, [*command, *arguments], ready=lambda: answers(f"http://{health}/readyz"))


def forbidden(control_plane: ControlPlane) -> list[str]:
    """What the manager called and was not allowed to."""
    user = f"system:serviceaccount:{NAMESPACE}:{NAME}"
    return [f"{call.verb} {call.uri}" for call in control_plane.audit_log.calls(user=user) if call.code == 403]


def answers(url: str) -> bool:
    """Whether a GET is answered with success."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _unprivileged() -> list[str]:
    """More options of unshare for others than root."""
    return [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
