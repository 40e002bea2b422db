# SPDX-License-Identifier: Apache-2.0
"""JobSet's defaults and refusals. `test_same_as_the_real_ones` compares them with the real webhook."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from tests.cases import cases
from tests.unit.local.controllers.objects import jobset, pod, replicated
from trainwright.api.objects import Document
from trainwright.controller.local.controllers.jobset_objects import (
    HANDLERS,
    configurations,
    default,
    default_pod,
    validate,
)
from trainwright.controller.runtime.certificates.configurations import paths_of
from trainwright.controller.runtime.webhook.review import ReviewRequest

CASES = cases(__file__)


@pytest.mark.parametrize(("given", "wanted"), CASES["defaults"])
def test_defaults(given: Document, wanted: Document | None) -> None:
    """What is set stays."""
    document = {"spec": deepcopy(given)}
    default(document)
    assert document["spec"] == (wanted or given)


def test_templates_are_written_as_go_does() -> None:
    container: Document = {"name": "c", "resources": {"limits": {"cpu": "0.5", "nvidia.com/gpu": 2}, "claims": []}}
    claim: Document = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1024Mi"}}}}
    template: Document = {
        "spec": {"template": {"spec": {"containers": [container], "nodeName": None, "new": {"a": 1}}}}
    }
    document: Document = {
        "spec": {
            "replicatedJobs": [{"name": "a", "template": template}],
            "volumeClaimPolicies": [{"templates": [claim]}],
        }
    }
    default(document)
    (replicated,) = document["spec"]["replicatedJobs"]
    pod_spec = replicated["template"]["spec"]["template"]["spec"]
    resources = {"limits": {"cpu": "500m", "nvidia.com/gpu": "2"}, "claims": []}
    assert pod_spec["containers"] == [{"name": "c", "resources": resources}]
    assert (pod_spec["nodeName"], pod_spec["new"]) == (None, {"a": 1})
    (policy,) = document["spec"]["volumeClaimPolicies"]
    assert policy["templates"] == [
        {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}, "status": {}}
    ]


def test_pods_of_a_jobset_get_their_priority() -> None:
    made = pod(annotations={"jobset.sigs.k8s.io/jobset-name": "set"}, spec={"priority": 7})
    default_pod(made)
    assert made["metadata"]["labels"] == {"jobset.sigs.k8s.io/priority": "7"}
    other = pod(spec={"priority": 7})
    default_pod(other)
    assert other["metadata"]["labels"] == {}


def made(jobs: Sequence[Document] = ({},), **spec: Any) -> Document:
    """A JobSet. Its replicated jobs may give parts of their pods: `metadata` and, as `pod`, the spec."""
    listed = []
    for job in deepcopy(jobs):
        parts = {"metadata": job.pop("metadata", None), "spec": job.pop("pod", None)}
        listed.append(replicated(**job))
        for name, part in parts.items():
            if part is not None:
                listed[-1]["template"]["spec"]["template"].setdefault(name, {}).update(part)
    return jobset(*listed, **spec)


@pytest.mark.parametrize(("document", "fields", "detail"), CASES["refusals"])
def test_refusals(document: Document, fields: list[str], detail: str) -> None:
    found = validate(made(**document), None)
    assert [error.field for error in found] == fields
    assert detail in "".join(map(str, found[:1]))


@pytest.mark.parametrize(("new", "old", "fields"), CASES["changes"])
def test_changes(new: Document, old: Document, fields: list[str]) -> None:
    given = made(**new), made(**old)
    before = deepcopy(given)
    found = validate(*given)
    assert [error.field for error in found] == fields
    assert all(error.message.endswith(": field is immutable") for error in found)
    assert given == before


def raw(document: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(document))


@pytest.mark.parametrize("spec", CASES["the_defaults_refuse_another_type"], ids=str)
async def test_the_defaults_refuse_another_type(spec: Any) -> None:
    """The schema is checked after them."""
    review = ReviewRequest(uid="u", operation="CREATE", object=raw({"metadata": {}, "spec": spec}))
    answer = await HANDLERS["/mutate-jobset-x-k8s-io-v1alpha2-jobset"].answer(review)
    assert (answer.allowed, answer.code) == (False, 400)


async def test_the_webhooks_answer_reviews() -> None:
    known = HANDLERS
    assert paths_of(configurations()) == known.keys()
    mutated = await known["/mutate-jobset-x-k8s-io-v1alpha2-jobset"].answer(
        ReviewRequest(uid="1", operation="CREATE", object=raw(jobset(replicated())))
    )
    assert mutated.allowed
    assert {"/spec/network", "/spec/startupPolicy"} <= {operation["path"] for operation in mutated.patch}
    wrong = jobset(replicated(dependsOn=[{"name": "node"}]))
    refused = await known["/validate-jobset-x-k8s-io-v1alpha2-jobset"].answer(
        ReviewRequest(uid="1", operation="CREATE", object=raw(wrong))
    )
    assert (refused.allowed, refused.code, refused.reason) == (False, 422, "Invalid")
    assert refused.message.startswith('JobSet.jobset.x-k8s.io "set" is invalid: <nil>: Internal error: the first')
    assert [cause.reason for cause in refused.causes] == ["InternalError"]
    deletion = ReviewRequest(uid="1", operation="DELETE", old_object=raw(wrong))
    assert all([(await handler.answer(deletion)).allowed for handler in known.values()])
