# SPDX-License-Identifier: Apache-2.0
"""Specifications of Jobs, good and bad, by what they are about."""

from typing import Any

from tests.integration.local.pod_documents import spec as pod_spec

Document = dict[str, Any]


def spec(*, template: Document | None = None, restart: str = "Never", **fields: Any) -> Document:
    """A specification, with a template that is good unless one is given."""
    made = template or {"spec": pod_spec(restartPolicy=restart)}
    return {"template": made, **fields}


def _policy(*rules: Document, **fields: Any) -> Document:
    return spec(podFailurePolicy={"rules": list(rules)}, **fields)


def _codes(**codes: Any) -> Document:
    return _policy({"action": "FailJob", "onExitCodes": codes})


def _indexed(**fields: Any) -> Document:
    return spec(**{"completionMode": "Indexed", "completions": 3, "parallelism": 2, **fields})


def _labelled(**labels: str) -> Document:
    return spec(template={"metadata": {"labels": labels}, "spec": pod_spec(restartPolicy="Never")})


SPECS: dict[str, Document] = {
    "small": spec(),
    "parallel": spec(parallelism=3),
    "complete": spec(completions=3, backoffLimit=0, ttlSecondsAfterFinished=0, activeDeadlineSeconds=1),
    "indexed": _indexed(backoffLimitPerIndex=1, maxFailedIndexes=2),
    "labels": _labelled(a="b"),
    "policy": _policy(
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2], "containerName": "c0"}},
    ),
    "success": _indexed(successPolicy={"rules": [{"succeededIndexes": "0,1-2", "succeededCount": 1}]}),
    "managed": spec(managedBy="example.com/me", suspend=True),
    "manual": spec(
        manualSelector=True,
        selector={"matchLabels": {"a": "b"}},
        template={"metadata": {"labels": {"a": "b"}}, "spec": pod_spec(restartPolicy="OnFailure")},
    ),
    "limits in the template": spec(
        template={"spec": pod_spec({"resources": {"limits": {"cpu": "1000m"}}}, restartPolicy="Never")}
    ),
    # Bad ones.
    "always": spec(restart="Always"),
    "sometimes": spec(restart="Sometimes"),
    "many policies": spec(
        podFailurePolicy={"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}] * 21}
    ),
    "more numbers": spec(
        activeDeadlineSeconds=-1,
        backoffLimitPerIndex=-1,
        maxFailedIndexes=-1,
        completionMode="Indexed",
        completions=1,
        parallelism=100_001,
    ),
    "negative": spec(completions=-1, parallelism=-1, backoffLimit=-1, ttlSecondsAfterFinished=-1),
    "no completions": spec(completionMode="Indexed", parallelism=2),
    "mode": spec(completionMode="X"),
    "per index": spec(backoffLimitPerIndex=1, maxFailedIndexes=1),
    "per index alone": _indexed(maxFailedIndexes=1),
    "too many failed": _indexed(backoffLimitPerIndex=1, maxFailedIndexes=4),
    "manager": spec(managedBy="me"),
    "manager host": spec(managedBy="A_/b c"),
    "manager length": spec(managedBy="example.com/" + "x" * 60),
    "policy action": _policy({"onExitCodes": {"operator": "In", "values": [1]}}, {"action": "X"}),
    "policy per index": _policy({"action": "FailIndex", "onPodConditions": [{"type": "A"}]}),
    "policy both": _policy(
        {"action": "Count", "onPodConditions": [{"type": "A"}], "onExitCodes": {"operator": "In", "values": [1]}}
    ),
    "policy restart": _policy(
        {"action": "Count", "onPodConditions": [{"type": "A", "status": "X"}]}, restart="OnFailure"
    ),
    "policy condition": _policy({"action": "Count", "onPodConditions": [{"type": "a b"}]}),
    "policy replacement": _policy(
        {"action": "Count", "onPodConditions": [{"type": "A"}]}, podReplacementPolicy="TerminatingOrFailed"
    ),
    "policy codes": _codes(operator="In", values=[0, 3, 2, 2], containerName="x"),
    "policy no codes": _codes(operator="", values=[]),
    "policy operator": _codes(operator="X", values=[1]),
    "replacement": spec(podReplacementPolicy="X"),
    "success not indexed": spec(successPolicy={"rules": []}),
    "success without rules": _indexed(successPolicy={"rules": []}),
    "success rules": _indexed(
        successPolicy={
            "rules": [
                {},
                {"succeededIndexes": "2,1"},
                {"succeededIndexes": "1-2-3"},
                {"succeededIndexes": "a"},
                {"succeededIndexes": "7"},
                {"succeededIndexes": "1" * 5000},
                {"succeededIndexes": "2-1"},
                {"succeededCount": -1},
                {"succeededCount": 5, "succeededIndexes": "0"},
            ]
        }
    ),
    "selector": spec(selector={"matchLabels": {"a": "b"}}),
    "manual without selector": spec(manualSelector=True),
    "other labels": _labelled(**{"job-name": "x", "controller-uid": "y"}),
    "template": spec(template={"metadata": {"labels": {"a b": "c"}}, "spec": {"containers": []}}),
    "template ephemeral": spec(
        template={"spec": pod_spec(restartPolicy="Never", ephemeralContainers=[{"name": "e", "image": "i"}])}
    ),
    "template host network": spec(
        template={
            "spec": pod_spec({"ports": [{"containerPort": 1, "hostPort": 2}]}, restartPolicy="Never", hostNetwork=True)
        }
    ),
}


def documents(namespace: str) -> list[tuple[str, Document]]:
    """Jobs of all specifications, and some with bad metadata."""
    made = [
        (name, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": one})
        for name, one in SPECS.items()
    ]
    for name in ("x" * 62, "a.b"):
        indexed = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": _indexed()}
        made.append((f"name {name}", indexed))
    finalizers = {"name": "j", "finalizers": ["nothing"]}
    made.append(("finalizers", {"apiVersion": "batch/v1", "kind": "Job", "metadata": finalizers, "spec": spec()}))
    return made
