# SPDX-License-Identifier: Apache-2.0
"""Namespaces, users and service accounts of a test control plane, and their rights.

Rights are RBAC rules in wire form: `{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}`. The API server
learns of a new role after a moment; the functions here return when the rights are in force.
"""

import base64
import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from trainwright.controller.runtime.testing.programs import Authority
from trainwright.controller.runtime.testing.stored import Poster
from trainwright.controller.runtime.testing.tools import ControlPlaneError
from trainwright.controller.runtime.testing.waiting import GaveUp, eventually_sync

PolicyRule: TypeAlias = Mapping[str, Sequence[str]]

EVERYTHING: Sequence[PolicyRule] = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)
"""All rights there are."""

_RBAC = "rbac.authorization.k8s.io"
_RIGHTS_SECONDS = 30.0


class Users:
    """The users of one control plane. See `ControlPlane.users`."""

    def __init__(self, folder: Path, url: str, authority: Authority, token: str) -> None:
        """`token` is the administrator's."""
        self._folder = folder
        self._url = url
        self._authority = authority
        self._poster = Poster(url, authority.pem, token)

    def create_namespace(self, prefix: str = "test", *, labels: Mapping[str, str] | None = None) -> str:
        """Make a namespace with a unique name; returns the name."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        metadata = {"name": name, "labels": dict(labels or {})}
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        self._poster.send("POST", "/api/v1/namespaces", document)
        return name

    def add_user(
        self, name: str, *, groups: Sequence[str] = (), rules: Sequence[PolicyRule] = (), namespace: str = ""
    ) -> Path:
        """Make a user with a client certificate; returns the kubeconfig. An empty `namespace`: rights everywhere.

        Raises ControlPlaneError: there is a user of this name already, or the rights are not in force after 30 s.
        """
        kubeconfig = self._folder / f"{name}.kubeconfig"
        if kubeconfig.exists():
            raise ControlPlaneError(f"there is a user {name} already: {kubeconfig} is its kubeconfig")
        certificate, key = self._authority.client(name, groups)
        credential = {"client-certificate": str(certificate), "client-key": str(key)}
        self._write(kubeconfig, self._url, name, credential)
        if rules:
            subject = {"apiGroup": _RBAC, "kind": "User", "name": name}
            self._grant(name, subject, name, rules, namespace)
        return kubeconfig

    def add_service_account(self, name: str, namespace: str, *, rules: Sequence[PolicyRule] = ()) -> str:
        """Make a service account with cluster-wide rights; returns a token. Raises as `add_user`."""
        metadata = {"name": name, "namespace": namespace}
        document = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        self._poster.send("POST", _accounts(namespace), document)
        if rules:
            subject = {"kind": "ServiceAccount", **metadata}
            self._grant(f"{namespace}-{name}", subject, f"system:serviceaccount:{namespace}:{name}", rules, "")
        return self.token(name, namespace)

    def token(self, account: str, namespace: str, *, hours: int = 24) -> str:
        """A token of an existing service account."""
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        spec = {"expirationSeconds": hours * 3600}
        answer = self._poster.send("POST", f"{_accounts(namespace)}/{account}/token", {**asked, "spec": spec})
        return str(answer["status"]["token"])

    def mount_service_account(self, account: str, namespace: str, folder: Path) -> Path:
        """Write what a pod of the service account finds at /var/run/secrets; returns `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "namespace").write_text(namespace)
        (folder / "ca.crt").write_bytes(self._authority.pem)
        (folder / "token").write_text(self.token(account, namespace))
        return folder

    def kubeconfig_with_token(self, name: str, token: str, *, server: str = "") -> Path:
        """Write a kubeconfig for the owner of a token; returns it. `server`: URL of a proxy to go through."""
        return self._write(self._folder / f"{name}.kubeconfig", server or self._url, name, {"token": token})

    def _write(self, path: Path, server: str, user: str, credential: Mapping[str, str]) -> Path:
        return write_kubeconfig(path, server=server, authority=self._authority.pem, user=user, credential=credential)

    def _grant(
        self, role: str, subject: Mapping[str, str], user: str, rules: Sequence[PolicyRule], namespace: str
    ) -> None:
        kind = "Role" if namespace else "ClusterRole"
        metadata = {"name": role, "namespace": namespace} if namespace else {"name": role}
        about = {"apiVersion": f"{_RBAC}/v1", "metadata": metadata}
        reference = {"apiGroup": _RBAC, "kind": kind, "name": role}
        path = f"/apis/{_RBAC}/v1/{f'namespaces/{namespace}/' if namespace else ''}{kind.lower()}"
        self._poster.send("POST", f"{path}s", {**about, "kind": kind, "rules": list(rules)})
        binding = {**about, "kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]}
        self._poster.send("POST", f"{path}bindings", binding)
        try:
            eventually_sync(lambda: self._may(user, rules[0], namespace), seconds=_RIGHTS_SECONDS)
        except GaveUp as error:
            raise ControlPlaneError(f"the rights of {user} are not in force after {_RIGHTS_SECONDS:.0f} s") from error

    def _may(self, user: str, rule: PolicyRule, namespace: str) -> bool:
        if paths := rule.get("nonResourceURLs"):
            asked: dict[str, Any] = {"nonResourceAttributes": {"path": paths[0], "verb": rule["verbs"][0]}}
        else:
            resource, _, subresource = rule["resources"][0].partition("/")
            attributes = {
                "group": rule["apiGroups"][0],
                "resource": resource,
                "subresource": subresource,
                "verb": rule["verbs"][0],
                "namespace": namespace,
                "name": next(iter(rule.get("resourceNames", ())), ""),
            }
            asked = {"resourceAttributes": attributes}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, **asked},
        }
        answer = self._poster.send("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])


def _accounts(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/serviceaccounts"


def write_kubeconfig(path: Path, *, server: str, authority: bytes, user: str, credential: Mapping[str, str]) -> Path:
    """Write a kubeconfig with one cluster, user and context. Only its owner can read it.

    `authority` is the PEM of the one that signed the server's certificate, `user` a name for display, `credential` the
    user entry, such as `token` or `client-certificate` and `client-key`.
    """
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "test-control-plane",
                "cluster": {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()},
            }
        ],
        "users": [{"name": user, "user": dict(credential)}],
        "contexts": [{"name": "test-control-plane", "context": {"cluster": "test-control-plane", "user": user}}],
        "current-context": "test-control-plane",
    }
    path.touch(mode=0o600)
    # JSON is valid YAML.
    path.write_text(json.dumps(document, indent=2) + "\n")
    return path
