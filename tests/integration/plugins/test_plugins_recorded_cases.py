# SPDX-License-Identifier: Apache-2.0
"""The recorded cases against the pipeline alone: what it refuses, and what its documents become on an API server.

For cases that happen in one moment. The objects of the case are created, the pipeline runs on what the API server made
of them, and each of its documents is applied as a dry run; the answer is compared with the recording by the replay
program's own rules. What only a running manager does (later steps, snapshots, events, admission of runtimes) is left to
the replay against the manager.
"""

import base64
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob
from trainwright.controller.local.testing.control_plane import LocalControlPlane
from trainwright.controller.runtime.testing.programs import Authority
from trainwright.plugins.contract import ClusterFacts, Installation, Reference, Runtime
from trainwright.plugins.contract.errors import PipelineError
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection, built_in

ROOT = Path(__file__).parents[3]
CONFORMANCE = ROOT / "tests" / "conformance"

MANAGER_ONLY = {
    "277-managed-by-other-controller": "the manager leaves the job alone",
    "284-ref-unknown-runtime-rejected": "admission looks the runtime up",
    "302-snapshot-name-taken": "the manager refuses the foreign snapshot",
    "308-jobset-name-taken-running": "the manager finds a foreign JobSet",
    "309-jobset-name-taken-suspended": "the manager finds a foreign JobSet",
}
"""Cases of one moment in which the pipeline is not asked, or not alone."""


def _load_replay() -> ModuleType:
    spec = importlib.util.spec_from_file_location("conformance_replay", CONFORMANCE / "replay.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


replay: Any = _load_replay()


def _stored(folder: Path) -> dict[str, Any]:
    about = replay.load_documents(folder / "case.yaml")[0]
    name = "expected.ours.yaml" if about.get("differs") else "expected.yaml"
    found: dict[str, Any] = (replay.load_documents(folder / name) or [{}])[0]
    return found


def _cases() -> Iterator[Any]:
    """Cases of one moment, in which a TrainJob meets an existing runtime."""
    for folder in sorted((CONFORMANCE / "cases").iterdir()):
        if folder.name in MANAGER_ONLY or (folder / "steps.yaml").exists():
            continue
        if _has_runtime(folder) and not _is_refused_elsewhere(folder):
            yield pytest.param(folder, id=folder.name)


def _is_refused_elsewhere(folder: Path) -> bool:
    # Each worker collects all cases, and most files are long and hold no refusal: they are not parsed for that.
    if not any("rejected:" in path.read_text(encoding="utf-8") for path in folder.glob("expected*.yaml")):
        return False
    refused = _stored(folder).get("rejected") or {}
    return bool(refused) and (refused["at"] != "trainjob.yaml" or refused["code"] != 403)


def _has_runtime(folder: Path) -> bool:
    if not (folder / "runtime.yaml").exists():
        return False
    reference = (replay.load_documents(folder / "trainjob.yaml")[0].get("spec") or {}).get("runtimeRef") or {}
    wanted = (reference.get("kind", "ClusterTrainingRuntime"), reference.get("name"))
    return wanted in {(d["kind"], d["metadata"]["name"]) for d in replay.load_documents(folder / "runtime.yaml")}


@pytest.fixture(scope="module")
def api_server(local_jobset_crd: Path) -> Iterator[LocalControlPlane]:
    with LocalControlPlane(crds=[ROOT / "config" / "crd", CONFORMANCE / "crds", local_jobset_crd]) as running:
        authority = Authority(running.folder / "authority")
        data = {"ca.crt": base64.b64encode(authority.pem).decode()}
        running.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHIPPED.namespace}})
        metadata = {"name": SHIPPED.secret, "namespace": SHIPPED.namespace}
        running.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
        yield running


@pytest.fixture(scope="module")
def server(api_server: LocalControlPlane) -> Any:
    return replay.Cluster(api_server.kubeconfig)


@pytest.fixture(autouse=True)
def closes_connection(server: Any) -> Iterator[None]:
    """The replay's client keeps its connection, which would count as left behind."""
    yield
    connection = getattr(server._local, "connection", None)
    if connection is not None:
        connection.close()
        server._local.connection = None


OPTIONS = replay.Options(
    record=False, jobs=1, timeout=1, quiet=0, interval=0, keep=False, gates=frozenset(), status_server=None
)
PIPELINE = Pipeline(Registry.load(candidates=built_in()))
GATED = Pipeline(Registry.load(Selection(enabled=frozenset({"TrainJobStatus"})), built_in()))
"""For the cases with the feature gate TrainJobStatus, which is the only one that cases need."""
SHIPPED = Installation()


@pytest.mark.parametrize("folder", list(_cases()))
def test_the_outcome_is_the_recorded_one(server: Any, folder: Path, request: pytest.FixtureRequest) -> None:
    number = request.session.items.index(request.node)
    case = replay.Case(folder, server, OPTIONS, number)
    expected = _stored(folder)
    try:
        outcome = _outcome(case)
    finally:
        case.clean_up()

    wanted = {"rejected": expected["rejected"]["causes"]} if "rejected" in expected else {"objects": _built(expected)}
    assert replay.canonical(outcome, case.rules) == replay.canonical(wanted, case.rules)


def _built(expected: dict[str, Any]) -> list[Any]:
    objects = expected.get("objects") or []
    return [item for item in objects if not item["metadata"]["name"].endswith("-runtime-snapshot")]


def _outcome(case: Any) -> dict[str, Any]:
    """Refusals, or the objects as the API server would store them."""
    case.cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": case.namespace}})
    runtimes = replay.load_documents(case.folder / "runtime.yaml")
    case._learn_cluster_names(runtimes)
    for document in runtimes:
        case.create(document, "runtime.yaml")
    document = replay.load_documents(case.folder / "trainjob.yaml")[0]
    case.trainjob_name = document["metadata"]["name"]
    case.create(document, "trainjob.yaml")
    job = msgspec.convert(case.get_trainjob().body, TrainJob)
    runtime = _runtime(case, job)
    run = (GATED if case.about.get("featureGates") else PIPELINE).begin(job, runtime)
    facts = ClusterFacts({ref: _fact(case, ref) for ref in run.admission_references()})
    verdict = run.validate(facts)
    if not verdict.allowed:
        causes = {(error.path, error.type.value) for error in verdict.errors}
        return {"rejected": [{"field": field, "type": type_} for field, type_ in sorted(causes)]}
    try:
        components = run.render(facts).components
    except PipelineError:
        return {"objects": []}
    # An existing object with generated content stays as it is.
    made = [c for c in components if c.generate is None or _fact(case, c.reference) is None]
    documents = [c.generate(c.document) if c.generate else c.document for c in made]
    objects = [case.normalise(_dry_run(case, document)) for document in documents]
    return {"objects": sorted(objects, key=lambda item: (item["kind"], item["apiVersion"], item["metadata"]["name"]))}


def _runtime(case: Any, job: TrainJob) -> Runtime:
    assert job.spec is not None
    reference = job.spec.runtime_ref
    model: type[Runtime] = TrainingRuntime if reference.kind == "TrainingRuntime" else ClusterTrainingRuntime
    path = case.cluster.path(model.RESOURCE.api_version, reference.kind, case.namespace, reference.name)
    found: Runtime = msgspec.convert(case.cluster.request("GET", path).body, model)
    return found


def _fact(case: Any, reference: Reference) -> Any:
    reply = case.cluster.request("GET", reference.resource.path(reference.namespace, reference.name))
    return reply.body if reply.ok else None


def _dry_run(case: Any, document: dict[str, Any]) -> Any:
    path = case.cluster.path(document["apiVersion"], document["kind"], case.namespace, document["metadata"]["name"])
    query = "?fieldManager=trainer&force=true&dryRun=All"
    reply = case.cluster.request("PATCH", path + query, document, "application/apply-patch+yaml")
    assert reply.ok, reply.body
    return reply.body
