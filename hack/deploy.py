# SPDX-License-Identifier: Apache-2.0
"""`make deploy IMG=…` and `make undeploy`: installs or removes the manager in the cluster of kubectl's current context.

`deploy` applies config/default with the image, waits until the API server serves our kinds and reaches our webhooks,
and then applies the runtimes, which the webhooks validate. A second run changes nothing. `undeploy` removes the manager
and keeps everything that users created.
"""

import argparse
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trainwright import __version__
from trainwright.api.manifest import documents
from trainwright.controller.cli.configuration import load_settings
from trainwright.controller.trainer.admission.configurations import NAMESPACE
from trainwright.controller.trainer.admission.configurations import SERVICE as NAME

ROOT = Path(__file__).resolve().parent.parent
DEFAULT = ROOT / "config" / "default"
SETTINGS = ROOT / "config" / "manager" / "controller_manager_config.yaml"
RUNTIMES = ROOT / "config" / "runtimes"
SAMPLES = ROOT / "config" / "samples"
OVERLAYS = [ROOT / "config" / "overlays" / name for name in ("progress", "progress-pull", "cert-manager")]
"""What an admin may have applied instead of the default; `undeploy` removes what they add."""
CONFIGURATION = "kubeflow-trainer-config"
CONTAINER = "manager"
JOBSET = "jobsets.jobset.x-k8s.io"
JOBSET_MANIFESTS = "https://github.com/kubernetes-sigs/jobset/releases/download/v0.12.0/manifests.yaml"
VALIDATOR = "validator.trainjob.trainer.kubeflow.org"
SECONDS = 300
"""How long to wait for each thing."""
POLL_SECONDS = 1.0

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REGISTRY = r"(?:localhost|[\w-]+(?:\.[\w-]+)+|[\w-]+(?=:)|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/"
_IMAGE = re.compile(
    rf"(?:{_REGISTRY})?{_COMPONENT}(?:/{_COMPONENT})*(?::\w[\w.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?", re.ASCII
)

Document = dict[str, Any]


class DeployError(Exception):
    """The message says what went wrong and what to do."""


class Kubectl:
    """The user's kubectl, in its current context."""

    def __init__(self) -> None:
        """Raises DeployError if there is none."""
        name = os.environ.get("KUBECTL") or "kubectl"
        found = shutil.which(name)
        if found is None:
            raise DeployError(
                f"there is no {name} on PATH; install kubectl, or name its path: make deploy KUBECTL=/path/to/kubectl"
            )
        self._program = found

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Standard output. Raises DeployError with what kubectl says."""
        code, output, errors = self.tried(*arguments, stdin=stdin)
        if code:
            raise DeployError(f"kubectl {' '.join(arguments)} failed:\n{errors.strip()}")
        return output

    def tried(self, *arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        done = subprocess.run([self._program, *arguments], input=stdin, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def get(self, *arguments: str) -> Document:
        """An object or a list of them; empty if it does not exist."""
        found: Document = json.loads(self("get", *arguments, "--ignore-not-found", "--output=json").strip() or "{}")
        return found

    def kustomized(self, folder: Path) -> list[Document]:
        return [document.data for document in documents(self("kustomize", str(folder)))]

    def apply(self, objects: Sequence[Document]) -> None:
        """Apply the objects, and take over fields that other clients have set."""
        # kubectl's default field manager: removes the fields that only the manifests of Kubeflow Trainer set.
        self("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=_text(objects))


def deploy(kubectl: Kubectl, image: str) -> None:
    """Raises DeployError."""
    if not _IMAGE.fullmatch(image):
        raise DeployError(
            f"IMG={image!r} is not an image; write [registry/]name[:tag], such as IMG=example.com/trainwright:1"
        )
    image = with_tag(image)
    say(f"cluster: {server(kubectl)}")
    if not kubectl.get("crd", JOBSET):
        raise DeployError(
            f"JobSet is not installed in this cluster ({JOBSET} is missing), and TrainJobs run as JobSets. Nothing "
            f"was changed. Install JobSet first:\n  kubectl apply --server-side -f {JOBSET_MANIFESTS}"
        )
    objects = kubectl.kustomized(DEFAULT)
    set_image(objects, image)
    definitions = [one for one in objects if one["kind"] in {"Namespace", "CustomResourceDefinition"}]
    names = [one["metadata"]["name"] for one in definitions if one["kind"] == "CustomResourceDefinition"]
    say(f"applying namespace {NAMESPACE} and {len(names)} definitions")
    kubectl.apply(definitions)
    wait("the API server to serve our kinds", functools.partial(not_established, kubectl, names))
    before = configuration(kubectl)
    say(f"applying the manager with image {image}, its roles and its webhooks")
    kubectl.apply([one for one in objects if one not in definitions])
    if before is not None and before != configuration(kubectl):
        say("the Configuration changed: restarting the manager, which reads it at the start")
        kubectl("rollout", "restart", f"deployment/{NAME}", f"--namespace={NAMESPACE}")
    wait(f"Deployment {NAME}", functools.partial(not_available, kubectl))
    wait("an answer of the webhooks", functools.partial(not_admitting, kubectl))
    runtimes = kubectl.kustomized(RUNTIMES)
    say(f"applying {len(runtimes)} runtimes")
    kubectl.apply(runtimes)
    say(f"done. The first job: kubectl apply --server-side -f {min(SAMPLES.glob('*.yaml')).relative_to(ROOT)}")


def undeploy(kubectl: Kubectl) -> None:
    """Raises DeployError."""
    say(f"cluster: {server(kubectl)}")
    objects = kubectl.kustomized(DEFAULT)
    webhooks = [one for one in objects if "webhooks" in one]
    workload = [one for one in objects if one["kind"] == "Deployment"]
    stays = [one for one in objects if one["kind"] in {"Namespace", "CustomResourceDefinition"}]
    rest = [one for one in objects if one not in [*webhooks, *workload, *stays]]
    # Webhooks first: without a manager, the API server would refuse every request that they match. Rights last, because
    # the manager needs them until it has stopped.
    say("removing the webhooks")
    delete(kubectl, webhooks)
    say("removing the manager, and waiting until it has stopped")
    delete(kubectl, workload, "--cascade=foreground")
    say("removing its roles, admission policy, Configuration, Services, Lease and certificate")
    delete(kubectl, rest)
    settings = load_settings(SETTINGS, {})
    made = [f"secret/{settings.secret}"]
    if settings.election is not None:
        made.append(f"lease/{settings.election.name}")
    kubectl("delete", *made, f"--namespace={NAMESPACE}", "--ignore-not-found")
    remove_additions(kubectl, objects)
    tell_what_stays(kubectl, [one["metadata"]["name"] for one in stays if one["kind"] == "CustomResourceDefinition"])


def remove_additions(kubectl: Kubectl, objects: Sequence[Document]) -> None:
    """Delete what overlays add to the objects of the default installation, such as admission policies."""
    known = {_identity(one) for one in objects}
    additions = [one for overlay in OVERLAYS for one in kubectl.kustomized(overlay) if _identity(one) not in known]
    removed = []
    for one in reversed(additions):  # a binding before its policy
        code, output, errors = kubectl.tried("delete", "--ignore-not-found", "--filename=-", stdin=_text([one]))
        if code and "no matches for kind" not in errors:  # where the cluster does not serve it, there is none
            raise DeployError(f"{one['kind']} {one['metadata']['name']} cannot be deleted:\n{errors.strip()}")
        if output.strip():
            removed.append(f"{one['kind']} {one['metadata']['name']}")
    if removed:
        say(f"removed what overlays had added: {', '.join(removed)}")


def _identity(one: Document) -> tuple[str, str, str]:
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]


def tell_what_stays(kubectl: Kubectl, definitions: Sequence[str]) -> None:
    """List the objects of users, which stay, and the command that removes them."""
    if kubectl.get("namespace", NAMESPACE):
        say(f"what stays: namespace {NAMESPACE}, which may hold other programs such as JobSet")
    there = [name for name in definitions if kubectl.get("crd", name)]
    if not there:
        return
    counts = {name.partition(".")[0]: len(kubectl.get(name, "--all-namespaces").get("items", ())) for name in there}
    say(f"what stays: {', '.join(f'{count} {plural}' for plural, count in counts.items())}, with their definitions")
    if counts.get("trainjobs"):
        say("  running jobs go on; without a manager, their status is not updated and no new job starts")
    say("to remove them too, together with the pods of the jobs:")
    say(f"  kubectl delete crd {' '.join(there)}")


def say(text: str) -> None:
    print(text, flush=True)


def wait(what: str, missing: Callable[[], str | None]) -> None:
    """Wait until `missing` returns None; print its answer whenever it changes. Raises DeployError after `SECONDS`."""
    say(f"waiting for {what}")
    deadline = time.monotonic() + SECONDS
    said = ""
    while (lacking := missing()) is not None:
        if lacking != said:
            say(f"  {lacking}")
            said = lacking
        if time.monotonic() > deadline:
            raise DeployError(f"gave up after {SECONDS} s of waiting for {what}: {lacking}")
        time.sleep(POLL_SECONDS)


def server(kubectl: Kubectl) -> str:
    """The URL of the cluster and the context's name. Raises DeployError if it cannot be reached."""
    code, output, errors = kubectl.tried("config", "view", "--minify", "--output=json")
    if code:
        raise DeployError(f"kubectl has no cluster to work on: {errors.strip().removeprefix('error: ')}")
    view = json.loads(output)
    code, _, errors = kubectl.tried("version", "--output=json", "--request-timeout=15s")
    url = ((view.get("clusters") or [{}])[0].get("cluster") or {}).get("server", "none")
    if code:
        last = errors.strip().splitlines()[-1:] or ["no reason given"]
        raise DeployError(f"the cluster of kubectl's current context ({url}) cannot be reached: {last[0]}")
    return f"{url} (context {view.get('current-context')})"


def with_tag(image: str) -> str:
    """The image; without a tag, that of this version, which `make build-image` gives it too."""
    return image if "@" in image or ":" in image.rpartition("/")[2] else f"{image}:{__version__}"


def set_image(objects: Sequence[Document], image: str) -> None:
    """Into the manager's container."""
    for one in objects:
        if one["kind"] == "Deployment":
            for container in one["spec"]["template"]["spec"]["containers"]:
                if container["name"] == CONTAINER:
                    container["image"] = image


def configuration(kubectl: Kubectl) -> Document | None:
    return kubectl.get("configmap", CONFIGURATION, f"--namespace={NAMESPACE}").get("data")


def not_established(kubectl: Kubectl, names: Sequence[str]) -> str | None:
    """The kinds that are not served yet, in words; None when all are."""
    missing = []
    for name in names:
        conditions = (kubectl.get("crd", name).get("status") or {}).get("conditions") or ()
        established = any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
        # Requests for an established kind may still fail for a moment, until its storage is ready.
        if not established or kubectl.tried("get", name, "--all-namespaces", "--chunk-size=1")[0]:
            missing.append(name)
    return f"not served yet: {', '.join(missing)}" if missing else None


def not_available(kubectl: Kubectl) -> str | None:
    """How many replicas are available, and why pods do not start; None when all are available."""
    found = kubectl.get("deployment", NAME, f"--namespace={NAMESPACE}")
    status, wanted = found.get("status") or {}, (found.get("spec") or {}).get("replicas", 1)
    seen = status.get("observedGeneration", 0) >= (found.get("metadata") or {}).get("generation", 1)
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    if seen and updated == wanted and available >= wanted and status.get("replicas", 0) == wanted:
        return None
    return f"{available if seen else 0} of {wanted} replicas are available{trouble(kubectl)}"


def trouble(kubectl: Kubectl) -> str:
    """Why the manager's pods do not start, from their status."""
    pods = kubectl.get("pods", f"--namespace={NAMESPACE}", "--selector=app.kubernetes.io/component=manager")
    reasons = set()
    for pod in pods.get("items", ()):
        status = pod.get("status") or {}
        for container in status.get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") not in {None, "ContainerCreating", "PodInitializing"}:
                reasons.add(f"{waiting['reason']}: {waiting.get('message', '')[:200]}")
        for condition in status.get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                reasons.add(f"{condition.get('reason')}: {condition.get('message', '')[:200]}")
    return "".join(f"; {reason}" for reason in sorted(reasons))


def not_admitting(kubectl: Kubectl) -> str | None:
    """Why the webhooks do not answer, found with a dry run of a TrainJob that they refuse; None when they answer."""
    probe = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "deploy-probe", "namespace": "default"},
        "spec": {"runtimeRef": {"name": "a-runtime-that-does-not-exist"}},
    }
    code, _, errors = kubectl.tried("create", "--dry-run=server", "--filename=-", stdin=json.dumps(probe))
    if code == 0:
        return "the API server does not call the webhooks yet"
    if f'"{VALIDATOR}" denied the request' in errors:
        return None
    return " ".join((errors.partition("Internal error occurred: ")[2] or errors).split())[:400]


def delete(kubectl: Kubectl, objects: Sequence[Document], *options: str) -> None:
    """Delete the objects that exist, and wait until they are gone."""
    kubectl("delete", "--ignore-not-found", *options, "--filename=-", stdin=_text(objects))


def _text(objects: Sequence[Document]) -> str:
    """JSON: YAML libraries disagree about which plain words are booleans. kubectl 1.31 reads one document of it."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def main() -> int:
    """Exit code 0 when all is done, 1 when it failed, 2 for wrong use."""
    parser = argparse.ArgumentParser(prog="hack/deploy.py", description="Deploy the manager, or remove it again.")
    parser.add_argument("--undeploy", action="store_true", help="remove it")
    parser.add_argument("image", nargs="?", default="", help="image of the manager")
    arguments = parser.parse_args()
    if not arguments.undeploy and not arguments.image:
        print("error: name the image of the manager: make deploy IMG=example.com/trainwright:1", file=sys.stderr)
        return 2
    try:
        kubectl = Kubectl()
        if arguments.undeploy:
            undeploy(kubectl)
        else:
            deploy(kubectl, arguments.image)
    except DeployError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; run it again to continue", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
