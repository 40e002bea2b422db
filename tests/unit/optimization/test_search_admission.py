# SPDX-License-Identifier: Apache-2.0
"""What is refused when an OptimizationJob is submitted, and what is said; the API server asks the manager."""

from typing import Any

import pytest

from tests.unit.optimization.conftest import Search, optimization_job
from trainwright.controller.runtime.testing.tools import ControlPlaneError

RUNTIME = {"name": "r", "kind": "TrainingRuntime"}


def numbers(*names: str, **space: str) -> dict[str, Any]:
    space = space or {"min": "0", "max": "1"}
    return {"parameters": [{"name": name, "searchSpace": {"uniform": space}} for name in names]}


def choices(*values: str) -> dict[str, Any]:
    return {"parameters": [{"name": "x", "searchSpace": {"categorical": {"choices": list(values)}}}]}


def template(**fields: Any) -> dict[str, Any]:
    metadata = fields.pop("metadata", {})
    return {"trainJobTemplate": {"metadata": metadata, "spec": {"runtimeRef": RUNTIME, **fields}}}


def annotated(**annotations: str) -> dict[str, Any]:
    return {"annotations": {f"trainwright.io/{name.replace('_', '-')}": one for name, one in annotations.items()}}


LABEL_JOB = "trainwright.io/optimization-job"
QUEUED = {"labels": {"kueue.x-k8s.io/queue-name": "q"}}
VARIABLE = [{"name": "KUBEFLOW_TRAINER_OPT_X", "value": "1"}]
NAMED_TWICE = "the parameters a-b and a.b both become the variable KUBEFLOW_TRAINER_OPT_A_B"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a runtime that does not exist": (
        template(runtimeRef={"name": "none"}),
        "ClusterTrainingRuntime none does not exist",
    ),
    "a name too long": ({"name": "s" * 47}, "with 1 trials the longest name is 46"),
    "a name too long for a hundred": ({"name": "s" * 45, "numTrials": 100}, "with 100 trials the longest name is 44"),
    "a variable that is taken": (template(trainer={"env": VARIABLE}), "sets the variable KUBEFLOW_TRAINER_OPT_X"),
    "two parameters that meet": (numbers("a-b", "a.b"), NAMED_TWICE),
    "an empty choice": (choices("", "1"), "spec.parameters[0].searchSpace.categorical.choices: "),
    "an unknown sampler": (annotated(sampler="tpa"), "'tpa' is unknown; use one of tpe, gp, qmc, cmaes"),
    "an unknown pruner": (annotated(pruner="mean"), "'mean' is unknown; use one of median, asha"),
    "steps that are no number": (annotated(pruner="asha", pruner_warmup_steps="-1"), "'-1' is not a number of steps"),
    "steps without a pruner": (annotated(pruner_warmup_steps="5"), "has no effect without trainwright.io/pruner"),
    "a sampler of a grid": ({**annotated(sampler="tpe"), "searchAlgorithm": {"grid": {}}, **choices("1")}, "on a grid"),
    "a pruner in a queue": ({**annotated(pruner="median"), **template(metadata=QUEUED)}, "because Kueue resumes them"),
    "an unknown suspension": (annotated(suspend="yes"), "'yes' is unknown; use one of true, false"),
    "a label of ours": (template(metadata={"labels": {LABEL_JOB: "t"}}), f"metadata.labels[{LABEL_JOB}]: "),
    "an annotation of ours": (template(metadata=annotated(pruned="{}")), "annotations[trainwright.io/pruned]: "),
    "cmaes with one number": (annotated(sampler="cmaes"), "spec.parameters: "),
}


@pytest.fixture
def admitting(search: Search) -> Search:
    search.start()
    search.admit()
    return search


def test_what_is_refused(admitting: Search) -> None:
    for name, (fields, said) in REFUSED.items():
        with pytest.raises(ControlPlaneError) as error:
            admitting.stored.create(optimization_job(**fields))
        assert said in str(error.value), name
        assert "validator.optimizationjob.trainer.kubeflow.org" in str(error.value), name
    assert admitting.stored.list("trainjobs", "default") == []


@pytest.mark.parametrize(
    "fields",
    [
        {},
        annotated(sampler="tpe", pruner="median", pruner_warmup_steps="5"),
        {"name": "s" * 44, "numTrials": 100},
        {"searchAlgorithm": {"grid": {}}, **choices("1")},
    ],
)
def test_what_is_accepted(admitting: Search, fields: dict[str, Any]) -> None:
    admitting.without_sampler("there is none")
    made = admitting.stored.create(optimization_job(**fields))
    assert made["metadata"]["uid"]


def test_annotations_are_checked_later_too_and_the_template_is_not(admitting: Search) -> None:
    admitting.job(numTrials=2)
    admitting.stored.delete("trainingruntime", "r", "default")
    admitting.annotate(note="b")
    with pytest.raises(ControlPlaneError, match="'best' is unknown"):
        admitting.annotate(sampler="best")
    with pytest.raises(ControlPlaneError, match="the sampler cmaes needs two parameters"):
        admitting.annotate(sampler="cmaes")


def test_what_was_wrong_before_keeps_no_other_change_away(search: Search) -> None:
    search.start()
    search.job(**annotated(sampler="best", pruner_warmup_steps="5"))
    search.admit()
    search.annotate(note="b")
    with pytest.raises(ControlPlaneError, match="'worst' is unknown"):
        search.annotate(sampler="worst")
    search.stored.patch("optimizationjob", "s", {"metadata": {"finalizers": ["example.com/keep"]}}, "default")
    search.stored.delete("optimizationjob", "s", "default", wait=False)
    search.annotate(sampler="worst")
    search.stored.patch("optimizationjob", "s", {"metadata": {"finalizers": []}}, "default")
    assert search.stored.get("optimizationjob", "s", "default") is None
