# SPDX-License-Identifier: Apache-2.0
"""JobSet's defaults and refusals. `test_same_as_the_real_ones` compares them with the real webhook."""

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from tests.unit.local.controllers.objects import jobset, pod, replicated
from trainwright.api.objects import Document
from trainwright.controller.local.controllers.jobset_webhooks import (
    HANDLERS,
    configurations,
    default,
    default_pod,
    validate,
)
from trainwright.controller.runtime.certificates.configurations import paths_of
from trainwright.controller.runtime.webhook.review import ReviewRequest


def test_defaults() -> None:
    document: Document = {
        "spec": {
            "replicatedJobs": [
                {"name": "a", "template": {"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}}
            ],
            "failurePolicy": {"rules": [{"action": "FailJobSet"}, {"name": "mine"}]},
            "volumeClaimPolicies": [{"templates": []}],
        }
    }
    default(document)
    assert document["spec"] == {
        "successPolicy": {"operator": "All"},
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "replicatedJobs": [
            {
                "name": "a",
                "template": {
                    "metadata": {},
                    "spec": {
                        "completionMode": "Indexed",
                        "template": {
                            "metadata": {},
                            "spec": {"containers": [{"name": "c", "resources": {}}], "restartPolicy": "OnFailure"},
                        },
                    },
                },
            }
        ],
        "failurePolicy": {"rules": [{"action": "FailJobSet", "name": "failurePolicyRule0"}, {"name": "mine"}]},
        "volumeClaimPolicies": [{"templates": [], "retentionPolicy": {"whenDeleted": "Delete"}}],
    }


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


def test_what_is_set_stays() -> None:
    mine = {
        "spec": {
            "successPolicy": {"operator": "Any"},
            "startupPolicy": {"startupPolicyOrder": "InOrder"},
            "network": {"enableDNSHostnames": False, "publishNotReadyAddresses": False, "subdomain": "x"},
            "replicatedJobs": [],
        }
    }
    before = deepcopy(mine)
    default(mine)
    assert mine == before


def test_pods_of_a_jobset_get_their_priority() -> None:
    made = pod(annotations={"jobset.sigs.k8s.io/jobset-name": "set"}, spec={"priority": 7})
    default_pod(made)
    assert made["metadata"]["labels"] == {"jobset.sigs.k8s.io/priority": "7"}
    other = pod(spec={"priority": 7})
    default_pod(other)
    assert other["metadata"]["labels"] == {}


def rules(*found: Document) -> Document:
    return {"failurePolicy": {"maxRestarts": 1, "rules": list(found)}}


GENERAL, NAME, SUBDOMAIN = "<nil>", "spec.replicatedJobs[0].name", "spec.network.subdomain"
CLAIM: Document = {"metadata": {"name": "data"}, "spec": {}}
CLAIM_NAME = "spec.volumeClaimPolicies[0].template[{}].name"


def mounting(**spec: Any) -> Document:
    pods = {"template": {"spec": {"containers": [{"name": "c", "volumeMounts": [{"name": "data"}]}], **spec}}}
    return replicated(template={"spec": {"completionMode": "Indexed", "completions": 1, **pods}})


@pytest.mark.parametrize(
    ("document", "fields", "detail"),
    [
        (jobset(replicated()), [], ""),
        (jobset(replicated(), network={"subdomain": "Net"}), [SUBDOMAIN] * 2, "lower case"),
        (jobset(replicated(), network={"subdomain": "1net"}), [SUBDOMAIN], "start with an alphabetic"),
        (jobset(replicated(), network={"subdomain": "n" * 64}), [SUBDOMAIN], "no more than 63"),
        (jobset(replicated(), name="s" * 57), [NAME] * 2, "no more than 63"),
        (jobset(replicated(), name="s" * 50), [NAME], "-node-0-0-abcde"),
        (jobset(replicated(groupName="Group")), ["spec.replicatedJobs[0].groupName"], '"Group"'),
        (jobset(replicated(dependsOn=[{"name": "node"}])), [GENERAL], "the first replicated job cannot depend"),
        (jobset(replicated("a"), replicated("b", dependsOn=[{"name": "c"}])), [GENERAL], "b cannot depend on c"),
        (jobset(replicated(), successPolicy={"targetReplicatedJobs": ["x"]}), [GENERAL], "names x"),
        (jobset(replicated(), failurePolicy={"restartStrategy": "InPlaceRestart"}), [GENERAL], "InPlaceRestart"),
        (jobset(replicated(), **rules({"name": "a", "action": "RestartJob"})), [GENERAL], "RestartJob"),
        (
            jobset(replicated(), **rules({"name": "a"}, {"name": "b"}, {"name": "a"})),
            [GENERAL],
            "2 failure policy rules",
        ),
        (
            jobset(
                replicated(),
                **rules({"name": "a", "onJobFailureReasons": ["y"], "targetReplicatedJobs": ["x", "node"]}),
            ),
            [GENERAL] * 2,
            "the failure policy rule a names x",
        ),
        (jobset(replicated(), coordinator={"replicatedJob": "x"}), [GENERAL], "x does not exist"),
        (jobset(replicated(), coordinator={"replicatedJob": "node", "jobIndex": 1}), [GENERAL], "index 1"),
        (jobset(replicated(), coordinator={"replicatedJob": "node", "podIndex": 1}), [GENERAL], "index 1"),
        (
            jobset(replicated(), coordinator={"replicatedJob": "node"}, network={"subdomain": "n" * 60}),
            [GENERAL],
            "would be set-node-0-0.nnn",
        ),
        (
            jobset(replicated(template={}), coordinator={"replicatedJob": "node"}),
            [GENERAL],
            "must be Indexed and have completions",
        ),
        (jobset(mounting(), volumeClaimPolicies=[{"templates": [CLAIM]}]), [], ""),
        (
            jobset(mounting(), volumeClaimPolicies=[{"templates": [CLAIM, CLAIM]}]),
            [CLAIM_NAME.format(1)],
            'two templates have the name "data"',
        ),
        (jobset(replicated(), volumeClaimPolicies=[{"templates": [CLAIM]}]), ["spec.replicatedJobs"], "no container"),
        (
            jobset(mounting(volumes=[{"name": "data"}]), volumeClaimPolicies=[{"templates": [CLAIM]}]),
            ["spec.replicatedJobs[0].template.spec.template.spec.volumes[0].name"],
            'template "data" has that name',
        ),
        (
            jobset(mounting(), volumeClaimPolicies=[{"templates": [{"metadata": {"name": "D" * 60}}]}]),
            [CLAIM_NAME.format(0)] * 2 + ["spec.replicatedJobs"],
            "lower case",
        ),
    ],
)
def test_refusals(document: Document, fields: list[str], detail: str) -> None:
    found = validate(document, None)
    assert [error.field for error in found] == fields
    assert detail in "".join(map(str, found[:1]))


def changed(path: str, value: Any, **fields: Any) -> Document:
    made = jobset(replicated(), **fields)
    part = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    *parents, last = path.split(".")
    for name in parents:
        part = part.setdefault(name, {})
    part[last] = value
    return made


@pytest.mark.parametrize(
    ("new", "old", "fields"),
    [
        (jobset(replicated()), jobset(replicated()), []),
        (jobset(replicated(), suspend=True), jobset(replicated()), []),
        (changed("spec.nodeSelector", {"a": "b"}), jobset(replicated()), ["spec.replicatedJobs"]),
        (changed("spec.nodeSelector", {"a": "b"}, suspend=True), jobset(replicated()), []),
        (changed("spec.nodeSelector", {"a": "b"}), jobset(replicated(), suspend=True), []),
        (changed("metadata.labels", {"a": "b"}), jobset(replicated(), suspend=True), []),
        (jobset(replicated(), suspend=True), changed("spec.tolerations", [{}], suspend=True), []),
        (changed("spec.hostNetwork", True, suspend=True), jobset(replicated()), ["spec.replicatedJobs"]),
        (changed("spec.overhead", {"cpu": "1000m"}), changed("spec.overhead", {"cpu": 1}), []),
        (changed("metadata", {}), jobset(replicated()), []),
        (changed("spec.volumes", []), jobset(replicated()), []),
        (changed("spec.securityContext", {}), jobset(replicated()), ["spec.replicatedJobs"]),
        (jobset(replicated(), replicated("b")), jobset(replicated()), ["spec.replicatedJobs"]),
        (jobset(replicated(), managedBy="a.b/c"), jobset(replicated()), ["spec.managedBy"]),
    ],
)
def test_changes(new: Document, old: Document, fields: list[str]) -> None:
    before = deepcopy((new, old))
    found = validate(new, old)
    assert [error.field for error in found] == fields
    assert all(error.message.endswith(": field is immutable") for error in found)
    assert (new, old) == before


def raw(document: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(document))


@pytest.mark.parametrize(
    "spec",
    [
        "x",
        {"network": []},
        {"failurePolicy": 1},
        {"failurePolicy": {"rules": "x"}},
        {"failurePolicy": {"rules": ["x"]}},
        {"replicatedJobs": {}},
        {"replicatedJobs": [1]},
        {"replicatedJobs": [{"template": "x"}]},
        {"replicatedJobs": [{"template": {"spec": {"template": {"spec": True}}}}]},
        {"volumeClaimPolicies": [{"templates": [1]}]},
    ],
    ids=str,
)
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
