# SPDX-License-Identifier: Apache-2.0
"""Soak of the generated roles: they hold what the manager needs, and no more.

A manager with the roles of config/default does everything once that it does with the plugins that are shipped: it is
elected, makes its certificate, runs jobs of each kind, ends one, tells of one that cannot run. Nothing may be refused
to it, and every verb of every rule must have been used. Then each rule is taken away in turn, the same is done again,
and something must be refused. Exit code 1 if it is not so.
"""

import argparse
import functools
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.builders import train_job
from tests.installation import CONFIG, NAME, NAMESPACE, WITHOUT_ADMISSION, Document, Installation, install, kustomized
from tests.managers import MANAGER, is_asked
from tests.repository import ROOT
from trainwright.api.objects import wire
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.testing.audit import AuditedCall
from trainwright.controller.runtime.testing.waiting import GaveUp, eventually_sync
from trainwright.plugins.testing import replicated_job, runtime_document

USER = f"system:serviceaccount:{NAMESPACE}:{NAME}"
GROUPS = ROOT / "tests" / "conformance" / "crds"
CERTIFICATE = "kubeflow-trainer-webhook-cert"
SECONDS = 90
OBSOLETE = "trainer.kubeflow.org/resource-in-use"
NOT_CALLED = {("trainer.kubeflow.org", "trainjobs/finalizers")}
"""Asked by the API server about owner references; no request is made with them."""
ROLES = ("ClusterRole", "Role")
Held = Callable[[], object]


class RefusedError(Exception):
    """The API server refused something to the manager."""


@dataclass
class Round:
    """One manager, from its start to its end."""

    installation: Installation
    begun: int
    """Calls of the manager before this one."""
    last_error: str = ""
    """What the user was last told."""

    @property
    def control_plane(self) -> ControlPlane:
        return self.installation.control_plane

    def calls(self) -> list[AuditedCall]:
        return [*self.control_plane.audit_log.calls(user=USER)][self.begun :]

    def until(self, what: str, holds: Held) -> None:
        """Wait. Raises RefusedError as soon as something is refused, TimeoutError if nothing is and nothing happens."""

        def look() -> object:
            for call in self.calls():
                if call.code == 403:
                    raise RefusedError(f"{call.verb} {call.uri}")
            return holds()

        try:
            eventually_sync(look, seconds=SECONDS, what=what)
        except GaveUp as error:
            raise TimeoutError(f"{error}; {self.last_error}") from None

    def get(self, kind: str, name: str, namespace: str) -> Document:
        text = self.control_plane.kubectl(
            "get", kind, name, f"--namespace={namespace}", "--ignore-not-found", "--output=json"
        )
        found: Document = json.loads(text or "{}")
        return found

    def condition(self, job: str, namespace: str) -> str:
        """Types of the conditions that are true."""
        status = self.get("trainjobs", job, namespace).get("status", {})
        return " ".join(one["type"] for one in status.get("conditions", ()) if one["status"] == "True")

    def create(self, *documents: Document) -> None:
        """As a user would, who tries again while the webhooks do not answer."""
        for document in documents:
            self.until(f"{document['metadata']['name']} is taken", functools.partial(self._taken, document))

    def _taken(self, document: Document) -> bool:
        try:
            self.control_plane.apply(document)
        except ControlPlaneError as error:
            # What was refused to the manager is in the audit log, which is looked at next.
            self.last_error = str(error)
            return False
        return True


def runtime(
    name: str, namespace: str, *, pod: Document | None = None, finalizers: tuple[str, ...] = (), **spec: Any
) -> Document:
    """A TrainingRuntime, or without a namespace a ClusterTrainingRuntime, with one container."""
    made = runtime_document(name, replicated_job(pod=pod), namespace=namespace, **spec)
    made["metadata"]["finalizers"] = list(finalizers)
    return made


def job(name: str, namespace: str, kind: str = "TrainingRuntime", of: str = "", **spec: Any) -> Document:
    """A TrainJob."""
    reference = {"name": of or name, "kind": kind}
    return wire(train_job(name, namespace, uid="", runtimeRef=reference, **spec))


def everything(this: Round) -> None:
    """All that a manager does. Raises RefusedError, TimeoutError."""
    control_plane = this.control_plane
    this.until("the manager is asked", lambda: is_asked(control_plane))
    here = control_plane.create_namespace("soak")
    nowhere = {"nodeSelector": {"example.com/nowhere": "yes"}}
    gang: Document = {"volcano": {}}
    cluster_runtime = f"old-{here}"
    this.create(
        runtime("plain", here, finalizers=(OBSOLETE,)),
        runtime(cluster_runtime, "", finalizers=(OBSOLETE,)),
        runtime("waits", here, pod=nowhere),
        runtime("coscheduling", here, podGroupPolicy={"coscheduling": {"scheduleTimeoutSeconds": 60}}),
        runtime("volcano", here, pod={"priorityClassName": "soak"}, podGroupPolicy=gang),
        job("plain", here),
        job("old", here, "ClusterTrainingRuntime", cluster_runtime),
        job("coscheduling", here),
        job("volcano", here),
        job("mpi", here, "ClusterTrainingRuntime", "deepspeed-distributed"),
        job("flux", here, "ClusterTrainingRuntime", "flux-distributed"),
        job("late", here, of="waits", activeDeadlineSeconds=3),
        job("kept", here, of="waits"),
    )
    names = ("plain", "old", "coscheduling", "volcano", "mpi", "flux")
    this.until("all complete", lambda: all("Complete" in this.condition(name, here) for name in names))
    this.until("late is ended", lambda: "Failed" in this.condition("late", here))
    this.until("its JobSet is deleted", lambda: not this.get("jobsets", "late", here))
    this.until(
        "the finalizer goes", lambda: "finalizers" not in this.get("trainingruntimes", "plain", here)["metadata"]
    )
    there = ("clustertrainingruntimes", cluster_runtime, here)
    this.until("the finalizer goes", lambda: "finalizers" not in this.get(*there)["metadata"])
    secrets = ("mpi-mpi-ssh-auth", "flux-flux-curve")
    this.until("the Secrets are made", lambda: all(this.get("secrets", name, here) for name in secrets))
    # As Kubeflow Trainer ships it.
    control_plane.kubectl("patch", "secret", CERTIFICATE, f"--namespace={NAMESPACE}", '--patch={"data": null}')
    this.until("the certificate is made anew", lambda: "data" in this.get("secret", CERTIFICATE, NAMESPACE))
    tell_twice(this, here)
    # What it finds after a start, such as the snapshot of a job that runs, it reads.
    control_plane.restart(MANAGER)
    this.until("the manager is asked again", lambda: is_asked(control_plane))
    this.create(job("again", here, of="plain"))
    this.until("it works again", lambda: "Complete" in this.condition("again", here))


def tell_twice(this: Round, here: str) -> None:
    """The same reason to wait, twice: an event, and then its count."""
    control_plane = this.control_plane
    control_plane.kubectl("label", "namespace", here, f"{WITHOUT_ADMISSION}=true")
    this.create(job("waiting", here, suspend=True))
    this.until("the event is written", lambda: notes(this, here))
    this.create(runtime("waiting", here))
    this.until("the snapshot is taken", lambda: this.get("configmaps", "waiting-runtime-snapshot", here))
    control_plane.kubectl("delete", "trainingruntime", "waiting", f"--namespace={here}")
    control_plane.kubectl("delete", "configmap", "waiting-runtime-snapshot", f"--namespace={here}")
    this.until("the event is counted", lambda: any("series" in event for event in notes(this, here)))


def notes(this: Round, here: str) -> list[Document]:
    """The events about the job that waits."""
    text = this.control_plane.kubectl("get", "events.v1.events.k8s.io", f"--namespace={here}", "--output=json")
    return [event for event in json.loads(text)["items"] if event["regarding"]["name"] == "waiting"]


def unused(roles: list[Document], calls: list[AuditedCall]) -> Iterator[str]:
    """Verbs of the roles that no call needed."""
    for role in roles:
        for rule in role["rules"]:
            (group,), (resource,), names = rule["apiGroups"], rule["resources"], rule.get("resourceNames")
            if (group, resource) in NOT_CALLED:
                continue
            used = set()
            for call in calls:
                called = f"{call.resource}/{call.subresource}" if call.subresource else call.resource
                named = (
                    names is None or call.name in names or any(f"metadata.name%3D{name}" in call.uri for name in names)
                )
                placed = role["kind"] == "ClusterRole" or call.namespace == role["metadata"]["namespace"]
                if (call.group, called) == (group, resource) and named and placed and call.code < 400:
                    used.add(call.verb)
                    # What an apply makes anew needs both; older API servers are asked for a list instead of a stream.
                    used |= {"create"} if call.code == 201 else set()
                    used |= {"list"} if "sendInitialEvents=true" in call.uri else set()
            yield from (f"{role['kind']}: {verb} {resource}.{group}" for verb in rule["verbs"] if verb not in used)


def without(roles: list[Document]) -> Iterator[tuple[str, list[Document]]]:
    """The roles without one of their rules, for each of these; with its description."""
    for place, role in enumerate(roles):
        for index, rule in enumerate(role["rules"]):
            rest = [one for at, one in enumerate(role["rules"]) if at != index]
            (group,), (resource,) = rule["apiGroups"], rule["resources"]
            names = rule.get("resourceNames", [])
            yield (
                f"{role['kind']}: {','.join(rule['verbs'])} {' '.join([f'{resource}.{group}', *names])}",
                [*roles[:place], {**role, "rules": rest}, *roles[place + 1 :]],
            )


def attempt(installation: Installation, roles: list[Document]) -> Round:
    """One manager with these roles and nothing of an earlier one. Raises RefusedError, TimeoutError."""
    control_plane = installation.control_plane
    control_plane.apply(*roles)
    scope = (f"--namespace={NAMESPACE}", "--ignore-not-found")
    control_plane.kubectl("delete", "lease/trainer.kubeflow.org", f"secret/{CERTIFICATE}", *scope)
    this = Round(installation, len([*control_plane.audit_log.calls(user=USER)]))
    installation.start(wait=False)
    try:
        everything(this)
    finally:
        if MANAGER in control_plane.components:
            control_plane.stop_program(MANAGER)
    return this


def soak(control_plane: ControlPlane) -> list[str]:
    """Everything, once; gives what was wrong."""
    control_plane.apply(*kustomized(control_plane, "runtimes"))
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "soak"}, "value": 1}
    control_plane.apply(priority)
    installation = install(control_plane)
    roles = [
        {key: role[key] for key in ("apiVersion", "kind", "metadata", "rules")}
        for role in kustomized(control_plane, "default")
        if role["kind"] in ROLES and role["metadata"]["name"] == NAME
    ]
    wrong: list[str] = []
    try:
        calls = attempt(installation, roles).calls()
    except (RefusedError, TimeoutError) as error:
        return [f"with all rules: {type(error).__name__}: {error}"]
    wrong += [f"never used: {verb}" for verb in unused(roles, calls)]
    print(f"with all rules: {len(calls)} calls, none refused", *wrong, sep="\n", flush=True)
    for what, fewer in without(roles):
        try:
            attempt(installation, fewer)
        except RefusedError as error:
            print(f"without {what}: refused: {error}", flush=True)
        except TimeoutError as error:
            print(f"without {what}: did not happen: {error}", flush=True)
        else:
            wrong.append(f"not needed: {what}")
            print(wrong[-1], flush=True)
    return wrong


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.rbac", description="Soak of the generated roles.")
    parser.add_argument("--rounds", type=int, default=1, help="(default: %(default)s)")
    rounds: int = parser.parse_args().rounds
    wrong = []
    for _ in range(rounds):
        with ControlPlane.complete(crds=[CONFIG / "crd", GROUPS], audit=True) as control_plane:
            wrong += soak(control_plane)
    print(*(f"WRONG {one}" for one in wrong), f"{rounds} round(s), {len(wrong)} wrong", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
