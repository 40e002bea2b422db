# SPDX-License-Identifier: Apache-2.0
"""From kustomize to Helm and back with the commands of docs/admins/install.md: every object stays the one it was."""

import json
from pathlib import Path

import pytest

from tests.charts import kustomized
from tests.e2e.chart_admin import INSTALL, Admin, commands
from tests.e2e.conftest import Trainer
from tests.installation import CONFIG, NAMESPACE, Installation, forbidden
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.waiting import eventually_sync

pytestmark = pytest.mark.parity

LEFT = {"Namespace"}
"""What Helm does not own."""


def test_helm_takes_over_from_kustomize_and_forgets(tmp_path: Path) -> None:
    with ControlPlane(audit=True) as plane:
        plane.install_crds(provide(["jobset-manager"]).manifests["jobset-crd.yaml"])
        documents = kustomized(CONFIG / "default")
        plane.apply(*(one for one in documents if one["kind"] == "CustomResourceDefinition"))
        plane.apply(*(one for one in documents if one["kind"] != "CustomResourceDefinition"))
        Installation(plane).start()
        runtimes = kustomized(CONFIG / "runtimes")
        plane.apply(*runtimes)
        trainer = Trainer(plane, plane.create_namespace())
        trainer.job("runs", trainer.runtime("plain"))
        eventually_sync(lambda: trainer.get("jobset", "runs"))

        def identities() -> dict[str, tuple[str, str]]:
            """By kind and name: the uid, and the release that an object belongs to."""
            text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*documents, *runtimes]})
            found = json.loads(plane.kubectl("get", "--filename=-", "--output=json", stdin=text))["items"]
            return {
                f"{one['kind']}/{one['metadata']['name']}": (
                    one["metadata"]["uid"],
                    one["metadata"].get("annotations", {}).get("meta.helm.sh/release-name", ""),
                )
                for one in found
                if one["kind"] not in LEFT
            }

        before, jobset = identities(), trainer.get("jobset", "runs")
        assert len(before) > 30
        assert {release for _, release in before.values()} == {""}
        admin = Admin(plane, tmp_path)
        (take,) = commands(INSTALL, "From kustomize to Helm")
        admin.types(take)
        after = identities()
        assert {key: uid for key, (uid, _) in after.items()} == {key: uid for key, (uid, _) in before.items()}
        assert {release for _, release in after.values()} == {"trainwright", "trainwright-runtimes"}
        assert trainer.get("jobset", "runs") == jobset

        (forget,) = commands(INSTALL, "From Helm to kustomize")
        admin.types(forget)
        assert json.loads(admin.helm("list", f"--namespace={NAMESPACE}", "--all", "--output=json")) == []
        # As `make deploy` applies it.
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*documents, *runtimes]})
        plane.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=text)
        assert {key: uid for key, (uid, _) in identities().items()} == {key: uid for key, (uid, _) in before.items()}
        assert trainer.get("jobset", "runs") == jobset
        assert forbidden(plane) == []
