# SPDX-License-Identifier: Apache-2.0
"""Installs the manager on a node's cluster as an admin does: `make deploy IMG=…`."""

import os
import subprocess
import sys
from pathlib import Path

from hack.node import images
from hack.node.cluster import NodeCluster
from hack.node.places import ROOT, NodeError


def deploy(cluster: NodeCluster, image: str = images.MANAGER) -> str:
    """Load the manager's image and deploy the manager; returns what `make deploy` printed.

    Raises:
        NodeError: the image cannot be built, or the deployment fails.
    """
    cluster.load(images.ours())
    command = ["make", "--no-print-directory", "deploy", f"IMG={image}", f"KUBECTL={cluster.kubectl_path}"]
    environment = {
        **os.environ,
        "KUBECONFIG": str(cluster.folder / "admin.kubeconfig"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NodeError(f"make deploy failed:\n{done.stdout}{done.stderr}")
    return done.stdout
