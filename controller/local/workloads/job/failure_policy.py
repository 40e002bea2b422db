# SPDX-License-Identifier: Apache-2.0
"""`spec.podFailurePolicy`: what a failed pod means for its Job.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
"""

from dataclasses import dataclass

from trainwright.api.objects import Document, name_of, namespace_of
from trainwright.controller.local.workloads.documents import conditions_of, status_of


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    """What the policy says of one failed pod."""

    counts: bool = True
    """Whether the failure counts towards the back-off limit."""
    action: str = ""
    """The action of the matching rule; empty if no rule matches."""
    message: str | None = None
    """Why the Job fails; only with the action FailJob."""


_NO_RULE = PolicyVerdict()


def judge(policy: Document | None, pod: Document) -> PolicyVerdict:
    """The verdict of the first rule that matches."""
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        cause = _cause(rule, pod, index)
        if cause is None:
            continue
        action = rule.get("action")
        if action == "Ignore":
            return PolicyVerdict(counts=False, action=action)
        if action in ("Count", "FailIndex"):
            return PolicyVerdict(action=action)
        if action == "FailJob":
            return PolicyVerdict(action=action, message=cause)
    return _NO_RULE


def _cause(rule: Document, pod: Document, index: int) -> str | None:
    """What of the pod matches the rule, as a sentence; None if nothing does."""
    who = f"{namespace_of(pod)}/{name_of(pod)}"
    matching = f"matching {rule.get('action')} rule at index {index}"
    if rule.get("onExitCodes") is not None:
        container = _container(pod, rule["onExitCodes"])
        if container is None:
            return None
        code = container["state"]["terminated"]["exitCode"]
        return f"Container {container.get('name')} for pod {who} failed with exit code {code} {matching}"
    patterns = [(p.get("type"), p.get("status") or "True") for p in rule.get("onPodConditions") or ()]
    for condition in conditions_of(pod):
        if (condition.get("type"), condition.get("status")) in patterns:
            return f"Pod {who} has condition {condition['type']} {matching}"
    return None


def _container(pod: Document, requirement: Document) -> Document | None:
    """The first container that ended with a code that the rule asks for; containers before init containers."""
    status = status_of(pod)
    wanted, values = requirement.get("containerName"), requirement.get("values") or ()
    containers: list[Document] = [
        *(status.get("containerStatuses") or ()),
        *(status.get("initContainerStatuses") or ()),
    ]
    for container in containers:
        code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode")
        if not code or (wanted is not None and wanted != container.get("name")):
            continue
        if (code in values) == (requirement.get("operator") == "In"):
            return container
    return None
