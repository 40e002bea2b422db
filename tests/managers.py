# SPDX-License-Identifier: Apache-2.0
"""Our manager as a process beside a test control plane, with a kubeconfig, as on a developer's machine.

`in_virtual_time` runs it in a `VirtualCluster` instead, `tests.installation` as a pod has it: with a service account,
its rights, and everything of config/.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainwright.api.config.v1alpha1 import Configuration
from trainwright.controller.runtime import Manager
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneComponent, ControlPlaneError
from trainwright.controller.runtime.testing.component import answers
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.simulation.virtual import VirtualCluster
from trainwright.controller.simulation.world import CONFIG, PROCESS, Process
from trainwright.controller.trainer.assembly.manager import make_manager
from trainwright.controller.trainer.assembly.settings import settings_of

MANAGER = "trainwright"
COMMAND = (sys.executable, "-m", "trainwright.controller.cli.main", "manager")


def start_manager(
    control_plane: ControlPlane,
    *arguments: str,
    name: str = MANAGER,
    webhooks: bool = False,
    kubeconfig: Path | None = None,
    python: Path | None = None,
    samples: Path | None = None,
    **configuration: Any,
) -> ControlPlaneComponent:
    """Run it until the control plane ends, and wait until it is ready; `restart` and `stop_program` know its name.

    Args:
        control_plane: where it works; its audit log shows the calls under the user agent "trainwright".
        arguments: more of them for the command.
        name: of the program and of its log.
        webhooks: register its webhooks, by URL. They concern everybody on that control plane.
        kubeconfig: another one than the administrator's.
        python: an interpreter of another environment, where more plugins are installed.
        samples: run it under `tests.profiling.sampler`, which writes its samples there.
        configuration: fields of its Configuration.
    """
    probes = f"127.0.0.1:{free_port()}"
    file = control_plane.folder / f"{name}.json"
    file.write_text(json.dumps({"health": {"healthProbeBindAddress": probes}, **configuration}))
    module = COMMAND[1:] if samples is None else ("-m", "tests.profiling.sampler", str(samples), COMMAND[-1])
    command = [
        str(python or COMMAND[0]),
        *module,
        f"--config={file}",
        f"--kubeconfig={kubeconfig or control_plane.kubeconfig}",
        *arguments,
    ]
    if webhooks:
        command.append(f"--webhook-url=https://127.0.0.1:{free_port()}")

    def ready() -> bool:
        return answers(f"http://{probes}/readyz") and (not webhooks or is_asked(control_plane))

    return control_plane.launch(name, command, ready=ready)


def in_virtual_time(cluster: VirtualCluster, **configuration: Any) -> Manager:
    """Run it in the cluster; `configuration`: sections of its Configuration, as models."""
    settings = settings_of(Configuration(**configuration))
    settings = replace(settings, metrics_address=None, probe_address=None, election=None)

    async def boot(process: Process) -> Manager:
        return await make_manager(
            CONFIG,
            settings,
            user_agent=process.name,
            transport=process.network,
            answer_here=process.answer,
            elector=process.elector,
            process=PROCESS,
        )

    process = cluster.run(boot).process
    assert process is not None
    assert process.manager is not None
    return process.manager


def is_asked(control_plane: ControlPlane, namespace: str = "default") -> bool:
    """Whether the API server, which learns of webhooks a moment after they were registered, asks ours."""
    metadata = {"name": "probe", "namespace": namespace}
    document = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": metadata}
    document["spec"] = {"runtimeRef": {"name": "nobody-has-this-name"}}
    try:
        control_plane.stored.create(document, dry_run=True)
    except ControlPlaneError as error:
        return "denied the request" in str(error)
    return False
