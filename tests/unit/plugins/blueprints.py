# SPDX-License-Identifier: Apache-2.0
"""Runtimes in a line, and what the pipeline with all built-in plugins makes of a job of theirs."""

from typing import Any

import yaml

from trainwright.api.trainer.v1alpha1 import TrainingRuntime
from trainwright.plugins.contract import OFFLINE, ClusterFacts
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, built_in
from trainwright.plugins.testing import Result, runtime, train_job

PIPELINE = Pipeline(Registry.load(candidates=built_in()))
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def container(name: str = "node", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "base", **fields}


def job_template(
    name: str = "node", step: str | None = "trainer", *containers: dict[str, Any], **pod: Any
) -> dict[str, Any]:
    """A replicated job; without containers it has one called node."""
    metadata = {"labels": {STEP: step}} if step else {}
    spec = {"containers": list(containers) or [container()], **pod}
    return {"name": name, "template": {"metadata": metadata, "spec": {"template": {"spec": spec}}}}


def blueprint(
    policy: Any = None, *jobs: dict[str, Any], name: str = "blueprint", gang: Any = None, **template: Any
) -> TrainingRuntime:
    """A runtime with these jobs, or one called node; `gang` is its podGroupPolicy."""
    policy = yaml.safe_load(policy) if isinstance(policy, str) else policy
    text = yaml.safe_dump(
        {"spec": {"template": {"spec": {"replicatedJobs": list(jobs) or [job_template()], **template}}}}
    )
    fields = {"mlPolicy": policy} if policy is not None else {}
    fields |= {"podGroupPolicy": gang} if gang is not None else {}
    return runtime(text, metadata={"name": name}, **fields)


def outcome(made: TrainingRuntime, spec: str = "", *, facts: ClusterFacts = OFFLINE, **fields: Any) -> Result:
    job = train_job(spec, **fields)
    run = PIPELINE.begin(job, made)
    return Result(run.validate(facts), run.render(facts))
