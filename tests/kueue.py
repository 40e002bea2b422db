# SPDX-License-Identifier: Apache-2.0
"""Kueue's manager beside a test control plane, built from its Go module as JobSet's is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.installation import with_own_mounts
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.component import answers
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.programs import Authority, webhooks_by_url
from trainwright.controller.runtime.testing.tools import MODULES

PROGRAM = "kueue-manager"
NAMESPACE = "kueue-system"
API_VERSION = "kueue.x-k8s.io/v1beta2"
_FRAMEWORKS = ("batch/job", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob")
_SERVED = ("kueue-x-k8s-io-", "batch-v1-job", "jobset-x-k8s-io-", "trainer-kubeflow-org-v1alpha1-trainjob")
"""Parts of the paths of webhooks; the others belong to frameworks that are off."""

_POD = """
mount -t tmpfs none /etc && mkdir -p /etc/kueue/metrics && ln -s "$1" /etc/kueue/metrics/certs || exit 1
shift && exec "$@"
"""
"""Shell: the folder of the first argument is where Kueue has the certificate of its metrics; no field names another."""

Document = dict[str, Any]


def why_not() -> str:
    """Why Kueue cannot start at once; empty if it can."""
    folder = next(module.cache_folder for module in MODULES if module.name == "kueue")
    return "" if (folder / PROGRAM).is_file() else "Kueue: not in the cache of programs"


def install(control_plane: ControlPlane) -> None:
    """Its definitions and namespace."""
    control_plane.install_crds(provide([PROGRAM]).manifests["kueue-crds.yaml"])
    control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})


def start(control_plane: ControlPlane, **configuration: Any) -> None:
    """Run the manager until the control plane ends, and wait until its webhooks are asked.

    Args:
        control_plane: where it is installed.
        configuration: fields of its Configuration, beside those that any one has here.
    """
    folder = control_plane.folder / PROGRAM
    authority = Authority(folder)
    certificate, _ = authority.server("webhook")
    webhook_port, health = free_port(), f"127.0.0.1:{free_port()}"
    file = folder / "configuration.yaml"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "config.kueue.x-k8s.io/v1beta2",
                "kind": "Configuration",
                "namespace": NAMESPACE,
                "leaderElection": {"leaderElect": False},
                "internalCertManagement": {"enable": False},
                "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": str(certificate.parent)},
                "metrics": {"bindAddress": "0"},
                "health": {"healthProbeBindAddress": health},
                "clientConnection": {"qps": 500, "burst": 1000},
                "integrations": {"frameworks": list(_FRAMEWORKS)},
                **configuration,
            }
        )
    )
    binaries = provide([PROGRAM])
    control_plane.apply(*_webhooks(binaries.manifests["kueue-webhooks.yaml"], webhook_port, authority.pem))
    # What it would show to people would need a port of its own.
    gates = "--feature-gates=VisibilityOnDemand=false"
    command = [
        *with_own_mounts(_POD, certificate.parent),
        str(binaries[PROGRAM]),
        f"--config={file}",
        f"--kubeconfig={control_plane.kubeconfig}",
        gates,
    ]

    def ready() -> bool:
        probe = {"apiVersion": API_VERSION, "kind": "ResourceFlavor", "metadata": {"name": "probe"}, "spec": {}}
        try:
            control_plane.stored.create(probe, dry_run=True)
        except ControlPlaneError:
            return False
        return answers(f"http://{health}/readyz")

    control_plane.launch(PROGRAM, command, ready=ready)


def _webhooks(manifest: Path, port: int, authority: bytes) -> Iterator[Document]:
    for document in webhooks_by_url(manifest, "kueue", port=port, authority=authority):
        served = [one for one in document["webhooks"] if any(part in one["clientConfig"]["url"] for part in _SERVED)]
        yield {**document, "webhooks": served}
