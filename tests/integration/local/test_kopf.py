# SPDX-License-Identifier: Apache-2.0
"""An operator of another framework, kopf, unchanged on the local cluster, with no more rights than it needs."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.trainings import installed
from trainwright.controller.local.testing.cluster import LocalCluster
from trainwright.controller.runtime.testing.waiting import contains, eventually_sync

HERE = Path(__file__).parent / "operators"
SECONDS = 60.0
RULES: list[dict[str, list[str]]] = [
    {"apiGroups": ["kopf.dev"], "resources": ["kopfexamples"], "verbs": ["list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["configmaps", "namespaces"], "verbs": ["list", "watch"]},
    {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
]
"""Without one of them, kopf asks again for a minute or two, and its handlers do not begin."""
pytestmark = [
    pytest.mark.parity,
    pytest.mark.timeout(300),
    pytest.mark.local_cluster(rbac=True, crds=[HERE / "kopfexamples.yaml"]),
]


@pytest.fixture
def log(local_cluster: LocalCluster, tmp_path: Path) -> Iterator[Path]:
    """The log of the operator, which runs as long as the test."""
    program = Path(installed("--for-operators", "operators")) / "bin" / "kopf"
    kubeconfig = local_cluster.add_user("operator", rules=RULES)
    command = [str(program), "run", "--standalone", "--namespace=default", str(HERE / "kopf_operator.py")]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    path = tmp_path / "operator.log"
    with (
        path.open("w") as file,
        subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT) as process,
    ):
        try:
            yield path
            process.terminate()
            assert process.wait(SECONDS) == 0, path.read_text()
        finally:
            process.kill()


def test_an_operator_of_kopf_does_its_work(local_cluster: LocalCluster, log: Path) -> None:
    stored = local_cluster.stored
    example = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "a", "namespace": "default"}}
    stored.create({**example, "spec": {"duration": "1m"}})

    def status() -> dict[str, Any]:
        return dict((stored.get("kopfexample", "a", "default") or {}).get("status") or {})

    def is_handled(found: dict[str, Any]) -> bool:
        wanted = {"seen": "1m", "created": {"message": "hello"}, "attempts": 2}
        return found.get("ticks", 0) > 1 and wanted.items() <= found.items()

    eventually_sync(status, is_handled, seconds=SECONDS)
    eventually_sync(log.read_text, contains("the daemon runs"), seconds=SECONDS)
    stored.patch("kopfexample", "a", {"spec": {"duration": "2m"}}, "default")
    eventually_sync(status, lambda found: found.get("change") == "1m to 2m", seconds=SECONDS)
    local_cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}})
    eventually_sync(log.read_text, contains("config map c among 1"), seconds=SECONDS)
    stored.delete("kopfexample", "a", "default")
    eventually_sync(
        lambda: {event["reason"] for event in stored.list("events", "default")}, contains("Deleted"), seconds=SECONDS
    )
    assert "Traceback" not in log.read_text()
