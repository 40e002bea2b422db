# SPDX-License-Identifier: Apache-2.0
"""What `render-manifests` prints is installed, and the operator runs with exactly these rights, elected."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.controller.runtime.manager.supervisor import GRACE_SECONDS
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually_sync

EXAMPLES = Path(__file__).parents[3] / "examples"


def printed(example: str, *arguments: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, EXAMPLES / example / f"{example}.py", *arguments], capture_output=True, text=True, check=True
    )
    return [*yaml.safe_load_all(done.stdout)]


@pytest.mark.parametrize("example", ["web", "boats", "databases", "fanout"])
def test_the_api_server_takes_all_manifests(control_plane: ControlPlane, namespace: str, example: str) -> None:
    documents = printed(example, "render-manifests", "--namespace", namespace, "--image", "example.com/image:1")
    for document in documents:
        for webhook in document.get("webhooks", ()):
            # Those of an operator that does not run would refuse the writes of other tests.
            webhook["namespaceSelector"] = {"matchLabels": {"called": "never"}}
    control_plane.apply(*documents)
    found = control_plane.stored.get("deployment", example, namespace)
    assert found is not None
    pod = found["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == example
    assert pod["terminationGracePeriodSeconds"] > GRACE_SECONDS


def test_an_elected_operator_needs_no_other_rights(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    control_plane.apply(*printed("web", "rbac", "--namespace", namespace, "--only-namespace", namespace))
    token = control_plane.users.token("web", namespace)
    kubeconfig = control_plane.users.kubeconfig_with_token(f"web-{namespace}", token)
    config = yaml.safe_load(kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    own = tmp_path / "kubeconfig"
    own.write_text(yaml.safe_dump(config))
    none = ["--metrics-address=", "--probe-address="]
    command: list[str | Path] = [
        sys.executable,
        EXAMPLES / "web" / "web.py",
        "run",
        "--only-namespace",
        namespace,
        *none,
    ]
    environment = {**os.environ, "WEB_KUBECONFIG": str(own), "WEB_LEADER_ELECTION": "on"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        config_map = {"apiVersion": "v1", "kind": "ConfigMap"}
        metadata = {"name": "shop", "namespace": namespace, "labels": {"web": "yes"}}
        control_plane.apply({**config_map, "metadata": metadata})
        service = eventually_sync(lambda: control_plane.stored.get("service", "shop", namespace))
        assert service is not None
        assert service["metadata"]["ownerReferences"][0]["name"] == "shop"
    finally:
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "orbidden" not in said
    lease = control_plane.stored.get("lease", "web", namespace)
    assert lease is not None
    assert not lease["spec"].get("holderIdentity")
