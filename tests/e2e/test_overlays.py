# SPDX-License-Identifier: Apache-2.0
"""The overlays of config/, with our manager in them: what it may do less, it does not need there."""

from pathlib import Path

import pytest

from tests.e2e.conftest import Trainer
from tests.installation import CONFIG, NAME, NAMESPACE, as_pod, forbidden, install
from tests.managers import COMMAND
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.programs import Authority
from trainwright.controller.runtime.testing.waiting import equals, eventually_sync
from trainwright.controller.runtime.webhook.webhooks import DEFAULT_FOLDER

pytestmark = pytest.mark.real_control_plane("the whole chain")


def test_a_manager_of_one_namespace_leaves_the_others_alone() -> None:
    with ControlPlane.complete(crds=[CONFIG / "crd"], audit=True) as control_plane:
        installation = install(control_plane, "overlays/one-namespace")
        installation.start("trainwright", "--namespace=default")
        here, elsewhere = Trainer(control_plane, "default"), Trainer(control_plane, control_plane.create_namespace())
        for trainer in (elsewhere, here):
            trainer.job("plain", trainer.runtime("plain"))
        eventually_sync(lambda: here.conditions("plain"), equals({"Complete": ("True", "AllJobsCompleted")}))
        # Created first, and in no manager's care: neither admitted nor run.
        assert elsewhere.get("jobset", "plain") is None
        assert forbidden(control_plane) == []
        calls = control_plane.audit_log.calls(user_agent="trainwright")
        # That of its certificate alone.
        assert {call.namespace for call in calls if call.resource == "secrets"} == {NAMESPACE}


def test_with_cert_manager_the_manager_serves_the_files_that_are_mounted(tmp_path: Path) -> None:
    with ControlPlane.complete(crds=[CONFIG / "crd"], audit=True) as control_plane:
        # In the place of cert-manager: a Secret that is mounted, and the CA in the configurations.
        authority = Authority(tmp_path / DEFAULT_FOLDER.parent.name)
        authority.server(DEFAULT_FOLDER.name, hosts=[f"{NAME}.{NAMESPACE}.svc"])
        installation = install(control_plane, "overlays/cert-manager")
        installation.trust(authority.pem)

        def command(account: Path, configuration: Path) -> list[str]:
            temporary = ["env", f"TMPDIR={tmp_path}"]
            return [*as_pod(control_plane, account), *temporary, *COMMAND, f"--config={configuration}"]

        installation.start(command=command)
        trainer = Trainer(control_plane, control_plane.create_namespace())
        trainer.job("plain", trainer.runtime("plain"))
        eventually_sync(lambda: trainer.conditions("plain"), equals({"Complete": ("True", "AllJobsCompleted")}))
        assert forbidden(control_plane) == []
        assert "kubeflow-trainer-webhook-cert" not in control_plane.kubectl(
            "get", "secrets", f"--namespace={NAMESPACE}"
        )
