# SPDX-License-Identifier: Apache-2.0
"""Changes of Jobs, of which the status decides; the others are in tests/integration/local/writes.json."""

import copy
from typing import Any

import pytest

from tests.cases import cases
from trainwright.controller.local.apiserver.kinds.jobs import JobStrategy
from trainwright.controller.local.apiserver.kinds.strategy import Strategy
from trainwright.controller.local.apiserver.schema.published.kinds import recorded
from trainwright.controller.local.types.errors import DocumentError

CASES = cases(__file__)

Document = dict[str, Any]

JOBS = JobStrategy(next(one for one in recorded().kinds if one.kind == "Job"))


def created(strategy: Strategy, spec: Document) -> Document:
    made: Document = {"metadata": {"name": "a", "namespace": "n", "uid": "u"}, "spec": copy.deepcopy(spec)}
    strategy.default(made)
    strategy.prepare_for_create(made)
    return made


def changed(strategy: Strategy, old: Document, change: Document, subresource: str = "") -> list[str]:
    new = copy.deepcopy(old)
    for path, value in change.items():
        *steps, last = path.split(".")
        here: Any = new
        for step in steps:
            here = here[int(step)] if isinstance(here, list) else here.setdefault(step, {})
        here[last] = value
    strategy.default(new)
    strategy.prepare_for_update(new, old, subresource)
    return told(strategy.validate_update(new, old, subresource))


def told(errors: list[DocumentError]) -> list[str]:
    """Reason and field of each error; sentences are the server's own."""
    return [f"{error.reason.removeprefix('FieldValue')} {error.field}" for error in errors]


def pod_spec(*containers: Document, **fields: Any) -> Document:
    named = [{"name": f"c{index}", "image": "i:1", **one} for index, one in enumerate(containers or ({},))]
    return {"containers": named, **fields}


def job_spec(**fields: Any) -> Document:
    return {"template": {"spec": pod_spec(restartPolicy="Never")}, **fields}


@pytest.mark.parametrize(("spec", "status", "path", "value", "field"), CASES["the_template_of_a_job"])
def test_the_template_of_a_job(spec: Document, status: Document, path: str, value: Any, field: str) -> None:
    old = created(JOBS, job_spec(**spec))
    old["status"] = status
    found = changed(JOBS, old, {path: value})
    assert set(found) == ({f"Invalid {field}"} if field else set())
