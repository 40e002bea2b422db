# SPDX-License-Identifier: Apache-2.0
"""JobSet's defaults and refusals. The texts were taken from the real webhook; `test_same_as_the_real_ones` compares."""

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from tests.unit.local.controllers.objects import jobset, pod, replicated
from trainwright.api.objects import Document
from trainwright.controller.local.controllers.jobset_validation import validate
from trainwright.controller.local.controllers.jobset_webhooks import HANDLERS, configurations, default, default_pod
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


def errors(new: Document, old: Document | None = None) -> list[str]:
    return [str(error) for error in validate(new, old)]


LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    " '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
TARGET = "invalid replicatedJob name 'x' does not appear in .spec.ReplicatedJobs"


def rules(*found: Document) -> Document:
    return {"maxRestarts": 1, "rules": list(found)}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (jobset(replicated()), []),
        (jobset(replicated(), network={"subdomain": "Net"}), 2),
        (
            jobset(replicated(), network={"subdomain": "1net"}),
            [f'spec.network.subdomain: Invalid value: "1net": {LABEL}'],
        ),
        (
            jobset(replicated(), network={"subdomain": "n" * 64}),
            [
                (
                    f'spec.network.subdomain: Invalid value: "{"n" * 64}": .spec.network.subdomain is too long, must be'
                    " less than 63 characters"
                )
            ],
        ),
        (
            jobset(replicated(), name="s" * 57),
            [
                (
                    f'spec.replicatedJobs[0].name: Invalid value: "{"s" * 57}-node-0": JobSet name is too long,'
                    " job names generated for this JobSet will exceed 63 characters"
                ),
                (
                    f'spec.replicatedJobs[0].name: Invalid value: "{"s" * 57}-node-0": JobSet name is too long,'
                    " pod names generated for this JobSet will exceed 63 characters"
                ),
            ],
        ),
        (
            jobset(replicated(groupName="Group")),
            [f'spec.replicatedJobs[0].groupName: Invalid value: "Group": {LABEL}'],
        ),
        (
            jobset(replicated(), managedBy="nobody"),
            [
                'spec.managedBy: Invalid value: "nobody": must be a domain-prefixed path (such as "acme.io/foo")',
            ],
        ),
        (jobset(replicated(), managedBy=""), ["spec.managedBy: Required value"]),
        (
            jobset(replicated(), managedBy="example.com/" + "x" * 60),
            ["spec.managedBy: Too long: may not be more than 63 bytes"],
        ),
        (
            jobset(replicated(dependsOn=[{"name": "node"}])),
            ["<nil>: Internal error: DependsOn can't be set for the first ReplicatedJob"],
        ),
        (
            jobset(replicated("a"), replicated("b", dependsOn=[{"name": "c"}])),
            ["<nil>: Internal error: replicatedJob: b cannot depend on replicatedJob: c"],
        ),
        (
            jobset(replicated(), successPolicy={"operator": "All", "targetReplicatedJobs": ["x"]}),
            [f"<nil>: Internal error: {TARGET}"],
        ),
        (
            jobset(replicated(replicas=2**31)),
            [
                (
                    "<nil>: Internal error: the product of replicas and parallelism must not exceed 2147483647 for"
                    " replicatedJob 'node'"
                )
            ],
        ),
        (
            jobset(replicated(), failurePolicy={"restartStrategy": "InPlaceRestart"}),
            [
                (
                    "<nil>: Internal error: InPlaceRestart restart strategy cannot be set when InPlaceRestart"
                    " feature gate is disabled"
                )
            ],
        ),
        (
            jobset(replicated(), failurePolicy=rules({"name": "a", "action": "RestartJob"})),
            [
                (
                    "<nil>: Internal error: RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions"
                    " are not allowed when RestartJob feature gate is disabled"
                )
            ],
        ),
        (
            jobset(replicated(), failurePolicy=rules({"name": "a"}, {"name": "b"}, {"name": "a"})),
            ["<nil>: Internal error: rule names are not unique, rules with indices [0 2] all have the same name 'a'"],
        ),
        (
            jobset(
                replicated(),
                failurePolicy=rules({"name": "a", "onJobFailureReasons": ["y"], "targetReplicatedJobs": ["x"]}),
            ),
            [
                (
                    "<nil>: Internal error: invalid replicatedJob name 'x' in failure policy does not appear in"
                    " .spec.ReplicatedJobs"
                ),
                (
                    "<nil>: Internal error: invalid job failure reason 'y' in failure policy is not a recognized job"
                    " failure reason"
                ),
            ],
        ),
        (
            jobset(replicated(), coordinator={"replicatedJob": "x"}),
            ["<nil>: Internal error: coordinator replicatedJob x does not exist"],
        ),
        (
            jobset(replicated(), coordinator={"replicatedJob": "node", "jobIndex": 1}),
            ["<nil>: Internal error: coordinator job index 1 is invalid for replicatedJob node"],
        ),
        (
            jobset(replicated(), coordinator={"replicatedJob": "node", "podIndex": 1}),
            ["<nil>: Internal error: coordinator pod index 1 is invalid for replicatedJob node job index 0"],
        ),
    ],
)
def test_refusals(document: Document, expected: list[str] | int) -> None:
    found = errors(document)
    assert (len(found) if isinstance(expected, int) else found) == expected


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
        (changed("spec.overhead.limits", {"cpu": "1000m"}), changed("spec.overhead.limits", {"cpu": 1}), []),
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
    assert refused.message == (
        'JobSet.jobset.x-k8s.io "set" is invalid: <nil>: Internal error: DependsOn can\'t be set for the first'
        " ReplicatedJob"
    )
    deletion = ReviewRequest(uid="1", operation="DELETE", old_object=raw(wrong))
    assert all([(await handler.answer(deletion)).allowed for handler in known.values()])
