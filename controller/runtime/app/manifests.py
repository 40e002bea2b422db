# SPDX-License-Identifier: Apache-2.0
"""The manifests of an operator: its rights, and what else `kubectl apply` installs. All follow from declarations."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from trainwright.api.objects import Document
from trainwright.api.rights import Rule, merged
from trainwright.controller.runtime.app.declarations import Operator
from trainwright.controller.runtime.errors import ConfigurationError

METRICS_PORT = 8080
PROBE_PORT = 8081
WEBHOOK_PORT = 9443
STOP_SECONDS = 40
"""Longer than the grace period of the process, so that it can still give up its lease."""
_NAME_LABEL = "app.kubernetes.io/name"
_RBAC = "rbac.authorization.k8s.io"


def rbac(operator: Operator, namespace: str, *, watched: str = "", by_url: bool = False) -> list[Document]:
    """The account, the roles and their bindings.

    Args:
        operator: its declarations.
        namespace: where it runs.
        watched: the only namespace whose objects it reconciles, with a Role in place of a ClusterRole; empty: all.
        by_url: whether it makes its webhook configurations itself, as `run --webhook-url` does.

    Raises:
        ConfigurationError: a right on an object without a namespace, which no Role can grant.
    """
    rules = merged((*operator.rules, *operator.hook_rules(namespace, by_url=by_url)))
    if watched and (cluster := [rule.resource for rule in rules if not rule.namespaced]):
        raise ConfigurationError(
            f"{operator.name} uses {', '.join(cluster)}, which are in no namespace: leave --only-namespace out"
        )
    account = _named("v1", "ServiceAccount", operator.name, namespace)
    own = f"{operator.name}-leader-election"
    found = [account, *_granted(operator.name, watched, rules, namespace, account=operator.name)]
    return [*found, *_granted(own, namespace, operator.own_rules(), namespace, account=operator.name)]


def _granted(name: str, where: str, rules: Iterable[Rule], namespace: str, *, account: str) -> Iterable[Document]:
    """A role and its binding to the account; without `where` in the whole cluster."""
    prefix = "" if where else "Cluster"
    yield {**_named(f"{_RBAC}/v1", f"{prefix}Role", name, where), "rules": [rule.document() for rule in rules]}
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
                loaded = yaml.safe_load_all(path.read_text())
                found += [
                    one for one in loaded if isinstance(one, dict) and one.get("kind") == "CustomResourceDefinition"
                ]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
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
    found = [_named("v1", "Namespace", namespace, ""), *_converted(operator, namespace)]
    found += rbac(operator, namespace, watched=watched)
    if operator.serves:
        found.append(_service(operator.name, namespace))
    found.append(_deployment(operator, image, namespace, replicas, watched, command))
    return [*found, *operator.configurations(namespace)]


def _converted(operator: Operator, namespace: str) -> list[Document]:
    """The definitions, with the webhook that converts their versions. Raises ConfigurationError if one is missing."""
    found = {document["metadata"]["name"]: document for document in definitions(operator)}
    for conversion in operator.conversions(namespace):
        name = conversion["metadata"]["name"]
        if name not in found:
            raise ConfigurationError(
                f"{operator.name} converts {name}, whose CustomResourceDefinition is not in"
                f" {operator.crds or 'a folder: pass crds=… to App'}"
            )
        found[name] = {**found[name], "spec": {**found[name]["spec"], **conversion["spec"]}}
    return list(found.values())


def _service(name: str, namespace: str) -> Document:
    ports = [{"name": "webhooks", "port": 443, "targetPort": "webhooks"}]
    spec = {"selector": {_NAME_LABEL: name}, "ports": ports}
    return {**_named("v1", "Service", name, namespace), "spec": spec}


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
    if operator.serves:
        container["ports"].append({"name": "webhooks", "containerPort": WEBHOOK_PORT})
    if command:
        container["command"] = list(command)
    labels = {_NAME_LABEL: operator.name}
    pod = {
        "serviceAccountName": operator.name,
        "terminationGracePeriodSeconds": STOP_SECONDS,
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
