# SPDX-License-Identifier: Apache-2.0
"""What the pipeline makes of a runtime and a TrainJob: the cases of tests/conformance/renderings, each a test."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec
import pytest

from tests.lined import check, difference, load, rows_of
from tests.repository import ROOT
from tests.unit.plugins.blueprints import STEP
from trainwright.api.config.v1alpha1 import Recovery
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.plugins.contract import OFFLINE, ClusterFacts, FactUnavailable, Installation, RecoveryFacts
from trainwright.plugins.contract.errors import PipelineError
from trainwright.plugins.contract.facts import Unreadable
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection, built_in
from trainwright.plugins.testing import Result, runtime, train_job

FOLDER = ROOT / "tests" / "conformance" / "renderings"
HOME = Installation(host="trainer.ops.svc", port=1234, namespace="ops", secret="cert")
MODELS: dict[str, Any] = {"JobSet": JobSet, "Secret": Secret}


@cache
def pipeline(enabled: tuple[str, ...], recovery: str) -> Pipeline:
    settings = {"Recovery": msgspec.json.decode(recovery, type=Recovery)} if recovery else {}
    selection = Selection(enabled=frozenset(enabled), settings=settings)
    return Pipeline(Registry.load(selection, candidates=built_in(), installation=HOME))


@dataclass
class Case:
    """One case, whose fields are those of schema.json."""

    name: str
    expect: Mapping[str, Any]
    where: str
    plugins: list[str] = field(default_factory=list)
    recovery: dict[str, Any] = field(default_factory=dict)
    runtime: dict[str, Any] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    patches: list[dict[str, Any]] = field(default_factory=list)
    old: dict[str, Any] | None = None
    facts: dict[str, Any] | None = None
    known: dict[str, Any] | None = None


def cases() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.yaml")):
        whole = load(path)
        whole["cases"] = [row for one in whole["cases"] for row in rows_of(one)]
        check(path, whole, FOLDER / "schema.json")
        shared = {name: value for name, value in whole.items() if name not in ("about", "cases")}
        for row in whole["cases"]:
            fields = {name: value for name, value in {**shared, **row}.items() if name != "why"}
            for name in ("runtime", "job"):
                fields[name] = {**shared.get(name, {}), **row.get(name, {})}
            case = Case(where=f"{path.name}:{row.line}", **fields)
            yield pytest.param(case, id=f"{path.stem}: {case.name}")


# ---------------------------------------------------------------------- what goes in


def runtime_of(given: Mapping[str, Any]) -> TrainingRuntime:
    jobs = [_replicated_job(name, dict(one)) for name, one in given.get("jobs", {"node": {}}).items()]
    template = {"metadata": given.get("metadata", {}), "spec": {"replicatedJobs": jobs, **given.get("jobset", {})}}
    fields = {"mlPolicy": given.get("policy", {}), "podGroupPolicy": given.get("gang"), "template": template}
    metadata = {"name": given.get("name", "blueprint"), "annotations": _long(given.get("annotations", {}))}
    return runtime("spec: {}", metadata=metadata, **{name: one for name, one in fields.items() if one is not None})


def _replicated_job(name: str, given: dict[str, Any]) -> dict[str, Any]:
    step = given.pop("step", "trainer" if name == "node" else None)
    labels = {"metadata": {"labels": {STEP: step}}} if step else {}
    spec = {"containers": _containers(given.pop("containers", {"node": {}})), **given.pop("pod", {})}
    if "init" in given:
        spec["initContainers"] = _containers(given.pop("init"))
    pods = {"spec": spec, **({"metadata": given.pop("pods")} if "pods" in given else {})}
    return {"name": name, "template": {**labels, "spec": {"template": pods, **given.pop("spec", {})}}, **given}


def _containers(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "image": "base", **(fields or {})} for name, fields in given.items()]


def _long(annotations: Mapping[str, str]) -> dict[str, str]:
    return {name if "/" in name else f"trainwright.dev/{name}": value for name, value in annotations.items()}


def job_of(case: Case, was: Mapping[str, Any]) -> TrainJob:
    """The job of a case; `was`: what was different before."""
    told = {**case.job, **{name: one for name, one in was.items() if name not in ("annotations", "patches")}}
    spec, annotations = told, was.get("annotations", case.annotations)
    metadata: dict[str, Any] = {name: spec.pop(name) for name in ("name", "uid") if name in spec}
    if patches := was.get("patches", case.patches):
        spec["runtimePatches"] = [_patch(number, dict(one)) for number, one in enumerate(patches)]
    reference = {"name": case.runtime.get("name", "blueprint"), "kind": "TrainingRuntime"}
    marks = {"annotations": _long(annotations)} if annotations else {}
    return train_job(metadata={**metadata, **marks}, runtimeRef=reference, **spec)


def _patch(number: int, given: dict[str, Any]) -> dict[str, Any]:
    """One entry of runtimePatches: `pods` are those of the jobs by name, `jobs` further fields of them."""
    manager = given.pop("manager", f"example.com/{number}")
    pods = {name: {"spec": {"template": {"spec": pod}}} for name, pod in given.get("pods", {}).items()}
    templates = {name: {**pods.get(name, {}), **one} for name, one in {**pods, **given.get("jobs", {})}.items()}
    jobs = [{"name": name, "template": template} for name, template in templates.items()]
    template = {"metadata": given["metadata"]} if "metadata" in given else {}
    template |= {"spec": {"replicatedJobs": jobs}} if jobs else {}
    return {"manager": manager, "trainingRuntimeSpec": {"template": template}}


# ---------------------------------------------------------------------- what comes out


class Outcome:
    """Verdict and objects of a case, and what is wrong with them."""

    def __init__(self, case: Case) -> None:
        made = pipeline(tuple(case.plugins), msgspec.json.encode(case.recovery).decode() if case.recovery else "")
        old = job_of(case, case.old) if case.old is not None else None
        run = made.begin(job_of(case, {}), runtime_of(case.runtime), old)
        facts = OFFLINE
        if case.facts is not None or case.known is not None:
            asked = (*run.references(), *run.admission_references())
            held = {one: _held(one.resource.kind, (case.facts or {}).get(str(one))) for one in asked}
            facts = ClusterFacts(held, recovery=RecoveryFacts(**case.known) if case.known is not None else None)
        self.verdict, self.failed = run.validate(facts), ""
        try:
            self.result = Result(self.verdict, run.render(facts))
        except (PipelineError, FactUnavailable) as error:
            self.failed = str(error)

    def wrong(self, expect: Mapping[str, Any]) -> str:
        """What is not as expected; empty: nothing."""
        wanted = dict(expect)
        errors = [f"{one.path}: {one.type.value}: {one.message}" for one in self.verdict.errors]
        wrong = difference([f"{one}*" for one in wanted.pop("errors", [])], errors, "errors")
        if "fails" in wanted or not errors:  # what is refused may be built or not
            wrong = wrong or difference(wanted.pop("fails", ""), self.failed, "fails")
        if "warnings" in wanted:
            warnings = list(map(str, self.verdict.warnings))
            wrong = wrong or difference([f"{one}*" for one in wanted.pop("warnings")], warnings, "warnings")
        return wrong or next(filter(None, (self._wrong(name, one) for name, one in wanted.items())), "")

    def _wrong(self, name: str, wanted: Any) -> str:
        result = self.result
        if name == "kinds":
            return difference(wanted, [one.resource.kind for one in result.rendering.components], name)
        if name == "overrides":
            return difference(wanted, list(map(str, result.rendering.overrides)), name)
        if name == "counts":
            jobs = result.object("JobSet")["spec"]["replicatedJobs"]
            return difference(list(wanted.items()), [(one["name"], _count(one)) for one in jobs], name)
        if name not in ("jobs", "pods", "containers", "env", "variables"):
            return difference(wanted, result.object(name), name)
        for key, one in wanted.items():
            if wrong := self._wrong_part(name, one, *_split(key)):
                return f"{key}: {wrong}"
        return ""

    def _wrong_part(self, name: str, wanted: Any, job: str, container: str) -> str:
        if name == "env":
            return difference(list(wanted.items()), list(self.result.env(job, container).items()), name)
        found = {
            "jobs": lambda: self.result.replicated_job(job),
            "pods": lambda: self.result.pod(job),
            "containers": lambda: self.result.container(job, container),
            "variables": lambda: dict(self.result.env(job, container)),
        }
        return difference(wanted, found[name](), name)


def _held(kind: str, given: Any) -> Any:
    if isinstance(given, str):
        return Unreadable(given)
    return msgspec.convert(given, MODELS[kind]) if given is not None and kind in MODELS else given


def _count(job: Mapping[str, Any]) -> Any:
    spec = job["template"]["spec"]
    return [job["replicas"], spec["parallelism"]] if job["replicas"] != 1 else spec["parallelism"]


def _split(key: str) -> tuple[str, str]:
    job, _, container = key.partition("/")
    return job, container or "node"


@pytest.mark.parametrize("case", list(cases()))
def test_rendering(case: Case) -> None:
    wrong = Outcome(case).wrong(case.expect)
    assert not wrong, f"{case.where}: {wrong}"
