# SPDX-License-Identifier: Apache-2.0
"""The admission policy that fences the manager's right on `pods/exec`.

RBAC cannot limit exec to some commands. The API server asks the policy for each exec of the manager's account, and lets
only the commands of `reading` through. The manifest in config/ is made from this, so that the two cannot differ.
https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
"""

import json

from trainwright.api.objects import Document
from trainwright.controller.trainer.progress.reading import READERS

NAME = "kubeflow-trainer-progress-exec"
_GROUP = "admissionregistration.k8s.io/v1"


def exec_policy(account: str) -> list[Document]:
    """The policy and its binding. `account`: the user name of the manager's service account."""
    spec: Document = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/exec"]}
            ]
        },
        "matchConditions": [{"name": "by-the-manager", "expression": f"request.userInfo.username == {_text(account)}"}],
        "validations": [
            {
                "expression": "has(object.command) && (" + " || ".join(_is(command) for command in READERS) + ")",
                "message": "the manager of TrainJobs may only run the commands that read a progress file",
            },
            {
                "expression": "!(has(object.stdin) && object.stdin) && !(has(object.tty) && object.tty)",
                "message": "the manager of TrainJobs may not use standard input or a terminal",
            },
        ],
    }
    binding = {"policyName": NAME, "validationActions": ["Deny"]}
    return [
        {"apiVersion": _GROUP, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": NAME}, "spec": spec},
        {"apiVersion": _GROUP, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": NAME}, "spec": binding},
    ]


def _is(command: tuple[str, ...]) -> str:
    """CEL: the command is this one, with an absolute path as its last argument."""
    parts = [f"object.command[{index}] == {_text(word)}" for index, word in enumerate(command)]
    last = len(command)
    checks = [f"size(object.command) == {last + 1}", *parts, f"object.command[{last}].startsWith('/')"]
    return "(" + " && ".join(checks) + ")"


def _text(value: str) -> str:
    """A string literal of CEL; JSON's escapes are among CEL's."""
    return json.dumps(value)
