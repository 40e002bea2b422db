# SPDX-License-Identifier: Apache-2.0
"""Faults that stop what others need: rights of the manager, the JobSet controller, the manager itself."""

import asyncio
import json

from tests.e2e.faults.place import Faults, Place, U
from tests.installation import kustomized
from tests.managers import MANAGER
from trainwright.controller.runtime.testing import ControlPlane

FAULTS = Faults()
fault = FAULTS.seed


@fault(
    14, "ManagerForbidden: the manager (kubeflow-system/kubeflow-trainer-controller-manager) may not patch jobsets", 1
)
async def manager_forbidden(place: Place) -> None:
    await place.runtime(U)
    await asyncio.to_thread(take_patch_of_jobsets, place.control_plane)
    await place.job()


@fault(13, "WebhookUnreachable: jobsets/j cannot be made: webhook mjobset.kb.io does not answer; is the JobSet", 3)
async def webhook_unreachable(place: Place) -> None:
    await asyncio.to_thread(give_rights, place.control_plane)
    await place.runtime(U)
    await asyncio.to_thread(place.control_plane.stop_program, "jobset-manager")
    await place.job()


@fault(21, "JobSetControllerSilent: JobSet j exists and the JobSet controller has not looked at it", 1, patience=60)
async def jobset_controller_silent(place: Place) -> None:
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        listed = json.loads(place.control_plane.kubectl("get", kind, "--output=json"))["items"]
        for one in listed:
            if "jobset" in one["metadata"]["name"]:
                place.control_plane.kubectl("delete", kind, one["metadata"]["name"])
    await place.runtime(U)
    await place.job()


@fault(
    11, "ManagerMissing: no manager has looked at the job since it was created: no manager holds Lease", 1, patience=60
)
async def manager_missing(place: Place) -> None:
    await place.runtime(U)
    await asyncio.to_thread(place.control_plane.stop_program, MANAGER)
    await place.job()


LAST = ("14", "13", "21", "11")
"""In this order, after all others."""


def take_patch_of_jobsets(control_plane: ControlPlane) -> None:
    """Take the right from the manager's roles."""
    for role in json.loads(control_plane.kubectl("get", "clusterroles", "--output=json"))["items"]:
        name, rules = role["metadata"]["name"], role.get("rules") or []
        hit = [rule for rule in rules if "kubeflow" in name and "jobsets" in rule.get("resources", ())]
        for rule in hit:
            rule["verbs"] = [verb for verb in rule["verbs"] if verb != "patch"]
        if hit:
            patch = json.dumps({"rules": rules})
            control_plane.kubectl("patch", "clusterrole", name, "--type=merge", "--patch", patch)


def give_rights(control_plane: ControlPlane) -> None:
    """Install the manager's roles as they are."""
    roles = [one for one in kustomized(control_plane, "default") if one["kind"] == "ClusterRole"]
    control_plane.kubectl(
        "replace", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(roles)})
    )
