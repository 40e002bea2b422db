# SPDX-License-Identifier: Apache-2.0
"""The scheduler of the scheduler plugins beside a test control plane, built from its Go module as Kueue's is."""

import json

from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.component import answers
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.programs import Authority
from trainwright.controller.runtime.testing.tools import MODULES

PROGRAM = "coscheduling-scheduler"
SCHEDULER = "scheduler-plugins-scheduler"
"""The name by which pods ask for it, as in its own chart."""


def why_not() -> str:
    """Why it cannot start at once; empty if it can."""
    folder = next(module.cache_folder for module in MODULES if module.name == "scheduler-plugins")
    return "" if (folder / PROGRAM).is_file() else "scheduler-plugins: not in the cache of programs"


def install(plane: ControlPlane) -> None:
    """Its definition of PodGroups."""
    plane.install_crds(provide([PROGRAM]).manifests["coscheduling-crd.yaml"])


def start(plane: ControlPlane) -> None:
    """Run the scheduler until the control plane ends, beside the default one."""
    folder = plane.folder / PROGRAM
    authority = Authority(folder)
    certificate, key = authority.server("scheduler")
    port = free_port()
    configuration = folder / "configuration.yaml"
    plugin = {"enabled": [{"name": "Coscheduling"}]}
    queue = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}
    profile = {
        "schedulerName": SCHEDULER,
        "plugins": {"multiPoint": plugin, "queueSort": queue},
        "pluginConfig": [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 10}}],
    }
    configuration.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "clientConnection": {"kubeconfig": str(plane.kubeconfig), "qps": 500, "burst": 1000},
                "profiles": [profile],
            }
        )
    )
    command = [
        str(provide([PROGRAM])[PROGRAM]),
        f"--config={configuration}",
        f"--authentication-kubeconfig={plane.kubeconfig}",
        f"--authorization-kubeconfig={plane.kubeconfig}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        # Room that another gang leaves wakes no pod that was turned away; it looks again after five minutes.
        "--pod-max-in-unschedulable-pods-duration=5s",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
    ]
    plane.launch(PROGRAM, command, ready=lambda: answers(f"https://127.0.0.1:{port}/healthz", authority=authority.pem))
