# SPDX-License-Identifier: Apache-2.0
"""Random TrainJobs and runtimes, made from the schemas, put through admission and reconcile on a real API server.

Each starts as something that a user could have written, for one of the frameworks, and gets random values at random
places of its schema. Most are refused or run; whichever it is, somebody has to say so: the API server or a webhook with
an error that is not an internal one, or the controller with a JobSet or the condition Blocked.
"""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.managers import MANAGER
from tests.repository import ROOT, documents
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.controller.runtime import Client, HTTPTransport, NotFound, load_config
from trainwright.controller.runtime.errors import ApiError, Forbidden, Invalid
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually

Json = dict[str, Any]
CRDS = (ROOT / "config" / "crd", ROOT / "tests" / "conformance" / "crds")
AT_ONCE = 16
SECONDS = 60.0
DEPTH = 6
OURS = "trainer.kubeflow.org/trainjob-controller"
WORDS = ["a", "node", "launcher", "trainer", "example.com/a", "auto", "1", "100m", "1Gi", "A_B", "IfNotPresent"]
ODD_WORDS = ["", "x" * 70, "ü☃", "%s%n%20d", "{{ . }}", "-", "a b", "b\n", "../..", "0x10", "1e400", "null", "😀"]
NUMBERS = [0, 1, 2, 3, 8, 29500]
ODD_NUMBERS = [-1, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1]
POLICIES: tuple[Json, ...] = (
    {},
    {"torch": {}},
    {"torch": {"envInjection": {"targets": [{"jobName": "launcher", "containerNames": ["sidecar"]}]}}},
    {"mpi": {"mpiImplementation": "OpenMPI", "runLauncherAsNode": True}},
    {"mpi": {"mpiImplementation": "OpenMPI"}},
    {"jax": {}},
    {"xgboost": {}},
    {"flux": {}},
)
GROUPS: tuple[Json, ...] = ({}, {}, {"coscheduling": {}}, {"volcano": {"networkTopology": {}}})


class Maker:
    """Documents of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.schemas = {
            kind: documents(ROOT / "config" / "crd" / f"trainer.kubeflow.org_{plural}.yaml")[0]["spec"]["versions"][0][
                "schema"
            ]["openAPIV3Schema"]["properties"]["spec"]
            for kind, plural in (("TrainJob", "trainjobs"), ("TrainingRuntime", "trainingruntimes"))
        }

    def runtime(self, name: str) -> Json:
        """A runtime for one of the frameworks, with up to three random values."""
        steps = {"launcher": "trainer"} if self.random.random() < 0.3 else {"node": "trainer"}
        jobs = [self._replicated(job, steps.get(job)) for job in ("launcher", "node")[self.random.randrange(2) :]]
        spec = {
            "mlPolicy": {"numNodes": self.random.choice((1, 1, 2, 3)), **self.random.choice(POLICIES)},
            "podGroupPolicy": self.random.choice(GROUPS),
            "template": {"spec": {"replicatedJobs": jobs}},
        }
        return self._spoiled("TrainingRuntime", name, {key: value for key, value in spec.items() if value})

    def job(self, name: str, runtime: str) -> Json:
        """A TrainJob of that runtime, with up to three random values."""
        spec: Json = {"runtimeRef": {"kind": "TrainingRuntime", "name": runtime}}
        if self.random.random() < 0.3:
            spec["suspend"] = True
        if self.random.random() < 0.7:
            env = [{"name": "A", "value": "b"}]
            spec["trainer"] = {"numNodes": self.random.choice((1, 2, 4)), "image": "example.com/mine", "env": env}
        if self.random.random() < 0.2:
            spec["trainer"] = {**spec.get("trainer", {}), "command": ["tune", "run"]}
        if self.random.random() < 0.3:
            pod = {"nodeSelector": {"a": "b"}, "containers": [{"name": "sidecar", "env": [{"name": "C"}]}]}
            jobs = [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]
            template = {"metadata": {"labels": {"a": "b"}}, "spec": {"replicatedJobs": jobs}}
            spec["runtimePatches"] = [{"manager": "example.com/a", "trainingRuntimeSpec": {"template": template}}]
        return self._spoiled("TrainJob", name, spec)

    def change(self) -> Json:
        """A merge patch for a TrainJob that exists."""
        if self.random.random() < 0.4:
            return {"spec": {"suspend": self.random.random() < 0.5}}
        if self.random.random() < 0.2:
            return {"metadata": {"labels": {"a": "c"}}}
        spec: Json = {}
        self._graft(self.schemas["TrainJob"], spec)
        return {"spec": {"suspend": True, **spec}}

    def _replicated(self, name: str, step: str | None) -> Json:
        containers = [{"name": "node", "image": "example.com/none"}]
        if self.random.random() < 0.4:
            containers.append({"name": "sidecar", "image": "example.com/none"})
        labels = {"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": step}}} if step else {}
        return {"name": name, "template": {**labels, "spec": {"template": {"spec": {"containers": containers}}}}}

    def _spoiled(self, kind: str, name: str, spec: Json) -> Json:
        for _ in range(self.random.choice((0, 0, 1, 1, 2))):
            self._graft(self.schemas[kind], spec)
        api = TrainJob.RESOURCE.api_version
        return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}

    def _graft(self, schema: Json, target: Json) -> None:
        """Put a random value at a random place: deeper as long as there is something to go into."""
        while True:
            name = self.random.choice(sorted(schema["properties"]))
            inner, held = schema["properties"][name], target.get(name)
            if isinstance(held, list) and held and "properties" in inner["items"] and self.random.random() < 0.9:
                held, inner = self.random.choice(held), inner["items"]
            if isinstance(held, dict) and "properties" in inner and self.random.random() < 0.9:
                schema, target = inner, held
                continue
            if name == "runtimeRef" and self.random.random() < 0.9:
                continue
            target[name] = self._value(inner, 0)
            return

    def _value(self, schema: Json, depth: int) -> Any:
        odd = self.random.random() < 0.07
        if "enum" in schema and not odd:
            return self.random.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return self.random.choice([*NUMBERS, "50%", "1", "1Gi"])
        plain: dict[str, list[Any]] = {
            "string": ODD_WORDS if odd else WORDS,
            "integer": ODD_NUMBERS if odd else NUMBERS,
            "number": [0.5, -1.0, 1e300],
            "boolean": [True, False],
        }
        kind = schema.get("type")
        if kind in plain:
            return self.random.choice(plain[kind])
        if kind == "array":
            count = self.random.choice((0, 1, 1, 2)) if depth < DEPTH else 0
            return [self._value(schema["items"], depth + 1) for _ in range(count)]
        return self._object(schema, depth)

    def _object(self, schema: Json, depth: int) -> Json:
        properties: Json = schema.get("properties") or {}
        if not properties:
            values = schema.get("additionalProperties")
            return {self.random.choice(WORDS): self._value(values, depth + 1)} if isinstance(values, dict) else {}
        chosen = set(schema.get("required", ()))
        if depth < DEPTH:
            chosen |= set(self.random.sample(sorted(properties), min(len(properties), self.random.choice((0, 1, 2)))))
        return {name: self._value(properties[name], depth + 1) for name in sorted(chosen)}


@dataclass
class Findings:
    """What became of the documents."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


async def fuzz(plane: ControlPlane, seed: int, pairs: int) -> Findings:
    """Create so many runtimes, each with a TrainJob, and look at what is said about each."""
    maker, findings = Maker(seed), Findings()
    namespace = plane.create_namespace("fuzz")
    made = [
        (index, maker.runtime(f"r{index}"), maker.job(f"j{index}", f"r{index}"), maker.change())
        for index in range(pairs)
    ]
    gate = asyncio.Semaphore(AT_ONCE)
    client = Client(HTTPTransport(load_config(plane.kubeconfig)), user_agent="fuzz")

    async def life(index: int, runtime: Json, job: Json, change: Json) -> None:
        async with gate:
            try:
                await _life(client, namespace, findings, runtime, job, change)
            except (ApiError, TimeoutError) as error:
                findings.wrong.append(
                    f"seed {seed}, {index}: {type(error).__name__}: {error}\n  {runtime}\n  {job}\n  {change}"
                )

    try:
        await asyncio.gather(*(life(*each) for each in made))
    finally:
        await client.close()
    component = plane.components[MANAGER]
    if not component.running:
        findings.wrong.append(f"seed {seed}: the manager ended: {component.last_log_lines()}")
    log = component.log.read_text()
    if "Traceback" in log:
        findings.wrong.append(f"seed {seed}: tracebacks in the log: {log[log.index('Traceback') - 500 :][:3000]}")
    return findings


async def _life(client: Client, namespace: str, findings: Findings, runtime: Json, job: Json, change: Json) -> None:
    """Raises what the API server should not have answered, or TimeoutError if nothing is said about the job."""
    try:
        await client.create(_placed(runtime, namespace), kind=TrainingRuntime.RESOURCE)
        await client.create(_placed(job, namespace), kind=TrainJob.RESOURCE)
    except (Invalid, Forbidden) as error:
        findings.counts["refused by the schema" if isinstance(error, Invalid) else "refused by a webhook"] += 1
        return
    name = job["metadata"]["name"]
    findings.counts[await _said(client, namespace, name)] += 1
    try:
        await client.patch(TrainJob.RESOURCE, name, namespace, change)
    except (Invalid, Forbidden):
        findings.counts["change refused"] += 1
        return
    findings.counts[f"changed: {await _said(client, namespace, name)}"] += 1


async def _said(client: Client, namespace: str, name: str) -> str:
    """What the manager says about a job, once it says something."""

    async def look() -> tuple[str, Any]:
        job = await client.get(TrainJob.RESOURCE, name, namespace)
        if job["spec"].get("managedBy", OURS) != OURS:
            return "of another manager", None
        for condition in job.get("status", {}).get("conditions", ()):
            if condition["status"] == "True" and condition["type"] in {"Blocked", "Failed"}:
                return f"{condition['type']}: {condition['reason']}", None
        try:
            jobset = await client.get(JobSet.RESOURCE, name, namespace)
        except NotFound:
            return "", job.get("status")
        runs = bool(jobset["spec"].get("suspend")) == bool(job["spec"].get("suspend"))
        return "runs" if runs else "", job.get("status")

    said, _ = await eventually(look, lambda seen: seen[0], seconds=SECONDS, what=f"a word about {name}")
    return said


def _placed(document: Json, namespace: str) -> Json:
    return {**document, "metadata": {**document["metadata"], "namespace": namespace}}
