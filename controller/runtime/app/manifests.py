# SPDX-License-Identifier: Apache-2.0
"""The manifests of an operator: its rights, and what else `kubectl apply` installs. All follow from declarations."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from trainwright.api.objects import Document
from trainwright.api.rights import Rule
from trainwright.controller.runtime.app.declarations import Operator
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.leaderelection.candidate import LeaseLock

METRICS_PORT = 8080
PROBE_PORT = 8081
_RBAC = "rbac.authorization.k8s.io"


def policy_rules(rules: Iterable[Rule]) -> list[Document]:
    """RBAC rules in wire form."""
    found = []
    for rule in rules:
        document: Document = {"apiGroups": [rule.group], "resources": [rule.resource], "verbs": list(rule.verbs)}
        found.append({**document, "resourceNames": list(rule.names)} if rule.names else document)
    return found


def own_rules(operator: Operator) -> tuple[Rule, ...]:
    """The rights of a process in its own namespace: the election."""
    return LeaseLock.rules(operator.name)


def rbac(operator: Operator, namespace: str, *, watched: str = "") -> list[Document]:
    """The account, the roles and their bindings.

    Args:
        operator: its declarations.
        namespace: where it runs.
        watched: the only namespace whose objects it reconciles, with a Role in place of a ClusterRole; empty: all.

    Raises:
        ConfigurationError: a right on an object without a namespace, which no Role can grant.
    """
    rules = operator.rules
    if watched and (cluster := [rule.resource for rule in rules if not rule.namespaced]):
        raise ConfigurationError(
            f"{operator.name} uses {', '.join(cluster)}, which are in no namespace: leave --only-namespace out"
        )
    account = _named("v1", "ServiceAccount", operator.name, namespace)
    own = f"{operator.name}-leader-election"
    found = [account, *_granted(operator.name, watched, policy_rules(rules), namespace, account=operator.name)]
    return [*found, *_granted(own, namespace, policy_rules(own_rules(operator)), namespace, account=operator.name)]


def _granted(name: str, where: str, rules: list[Document], namespace: str, *, account: str) -> Iterable[Document]:
    """A role and its binding to the account; without `where` in the whole cluster."""
    prefix = "" if where else "Cluster"
    yield {**_named(f"{_RBAC}/v1", f"{prefix}Role", name, where), "rules": rules}
    yield {
        **_named(f"{_RBAC}/v1", f"{prefix}RoleBinding", name, where),
        "roleRef": {"apiGroup": _RBAC, "kind": f"{prefix}Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def definitions(operator: Operator) -> list[Document]:
    """The CustomResourceDefinitions of the app's folder. Raises ConfigurationError if it cannot be read."""
    if operator.crds is None:
        return []
    import yaml  # noqa: PLC0415 - a process in a cluster does not need it

    found: list[Document] = []
    try:
        for path in sorted(Path(operator.crds).iterdir()):
            if path.suffix in {".yaml", ".yml", ".json"}:
                found += [one for one in yaml.safe_load_all(path.read_text()) if one]
    except (OSError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{operator.name}: {error}") from error
    return found


def installation(
    operator: Operator, *, image: str, namespace: str, replicas: int = 2, watched: str = "", command: Sequence[str] = ()
) -> list[Document]:
    """All objects of an installation, in the order in which they are applied. Raises ConfigurationError, as `rbac`.

    Args:
        operator: its declarations.
        image: of its container.
        namespace: where it runs.
        replicas: of its Deployment; one leads.
        watched: as in `rbac`.
        command: of the container; empty: that of the image. `run` and its options are its arguments.
    """
    space = _named("v1", "Namespace", namespace, "")
    return [
        space,
        *definitions(operator),
        *rbac(operator, namespace, watched=watched),
        _deployment(operator, image, namespace, replicas, watched, command),
    ]


def _deployment(
    operator: Operator, image: str, namespace: str, replicas: int, watched: str, command: Sequence[str]
) -> Document:
    arguments = ["run", f"--metrics-address=:{METRICS_PORT}", f"--probe-address=:{PROBE_PORT}"]
    if watched:
        arguments.append(f"--only-namespace={watched}")
    probe = {"port": "probes", "scheme": "HTTP"}
    container: dict[str, Any] = {
        "name": "manager",
        "image": image,
        "args": arguments,
        "ports": [
            {"name": "metrics", "containerPort": METRICS_PORT},
            {"name": "probes", "containerPort": PROBE_PORT},
        ],
        "livenessProbe": {"httpGet": {"path": "/healthz", **probe}, "initialDelaySeconds": 15, "periodSeconds": 20},
        "readinessProbe": {"httpGet": {"path": "/readyz", **probe}, "periodSeconds": 10},
        "resources": {"requests": {"cpu": "20m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    if command:
        container["command"] = list(command)
    labels = {"app.kubernetes.io/name": operator.name}
    pod = {
        "serviceAccountName": operator.name,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    return {
        **_named("apps/v1", "Deployment", operator.name, namespace),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _named(api_version: str, kind: str, name: str, namespace: str) -> Document:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
