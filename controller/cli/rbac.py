# SPDX-License-Identifier: Apache-2.0
"""`trainwright rbac`: prints the roles of a manager, with the rights of the plugins that its Configuration enables.

It also prints the admission policy that limits the right to create Secrets, which RBAC cannot. The files in config/ are
made by the same functions.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from trainwright.api.manifest import dump
from trainwright.api.objects import Document
from trainwright.api.rights import Rule
from trainwright.controller.cli.commands import refused
from trainwright.controller.cli.configuration import load_settings
from trainwright.controller.runtime import ConfigurationError
from trainwright.controller.trainer.assembly.part import Rights
from trainwright.controller.trainer.assembly.parts import rights
from trainwright.plugins.contract.errors import RegistryError
from trainwright.plugins.registry import Registry

API_VERSION = "rbac.authorization.k8s.io/v1"
API_GROUP = "rbac.authorization.k8s.io"
NAME = "kubeflow-trainer-controller-manager"
"""Name of the roles, their bindings and the service account, as in Kubeflow Trainer."""
SECRET_POLICY = "kubeflow-trainer-secrets"  # noqa: S105 - a name
"""Name of the admission policy for the Secrets that the manager makes."""


def run(arguments: argparse.Namespace) -> int:
    try:
        settings = load_settings(arguments.config, {})
        registry = Registry.load(settings.plugins)
    except ConfigurationError as error:
        return refused(str(error).splitlines())
    except RegistryError as error:
        return refused(error.problems)
    needed = rights(settings, registry, arguments.namespace)
    only = arguments.only_namespace
    policy = secret_policy(registry, arguments.namespace, settings.secret)
    sys.stdout.write(rendered([*roles(needed, only), *bindings(needed, arguments.namespace, only), *policy]))
    return 0


def roles(needed: Rights, jobs_in: str = "") -> Iterator[Document]:
    """The roles. `jobs_in` is the only namespace whose TrainJobs the manager manages; empty for all."""
    for namespace, rules in placed(needed, jobs_in):
        yield _object("Role" if namespace else "ClusterRole", namespace) | {
            "rules": [rule.document() for rule in rules]
        }


def bindings(needed: Rights, home: str, jobs_in: str = "") -> Iterator[Document]:
    """The bindings of the roles to the service account in the namespace `home`."""
    for namespace, _ in placed(needed, jobs_in):
        kind = "Role" if namespace else "ClusterRole"
        yield _object(f"{kind}Binding", namespace) | {
            "roleRef": {"apiGroup": API_GROUP, "kind": kind, "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": home}],
        }


def secret_policy(registry: Registry, home: str, certificate: str) -> list[Document]:
    """The admission policy for the Secrets that the manager's account writes or deletes, and its binding.

    Who may create and read Secrets of the type `kubernetes.io/service-account-token` gets a token of any account. So
    the API server lets the account write only Secrets that plugins declare, each controlled by the TrainJob that it is
    named after, and its own Secret `certificate` in the namespace `home`.
    https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
    """
    allowed = ", ".join(f"[{text(one.type)}, owner.name + {text(one.suffix)}]" for one in registry.secrets())
    return policy(
        SECRET_POLICY,
        f"system:serviceaccount:{home}:{NAME}",
        {"operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["secrets"]},
        variables={"secret": "request.operation == 'DELETE' ? oldObject : object", "owners": _OWNERS},
        validations={
            f"variables.owners.exists(owner, [variables.secret.type, variables.secret.metadata.name] in [{allowed}])"
            f" || (request.namespace == {text(home)} && variables.secret.metadata.name == {text(certificate)}"
            " && variables.secret.type in ['Opaque', 'kubernetes.io/tls'])": (
                "the manager of TrainJobs may only write the Secrets that its plugins make for TrainJobs"
            )
        },
    )


_OWNERS = (
    "has(variables.secret.metadata.ownerReferences) ? variables.secret.metadata.ownerReferences.filter(owner,"
    " owner.kind == 'TrainJob' && owner.apiVersion.startsWith('trainer.kubeflow.org/')"
    " && has(owner.controller) && owner.controller) : []"
)
"""CEL: the TrainJob that controls the Secret, if one does."""


def policy(
    name: str,
    account: str,
    what: Mapping[str, list[str]],
    *,
    validations: Mapping[str, str],
    variables: Mapping[str, str] = MappingProxyType({}),
) -> list[Document]:
    """A ValidatingAdmissionPolicy on requests of one account, and its binding.

    Args:
        what: operations and resources of the core group.
        validations: messages by the CEL expressions that must be true.
        variables: CEL expressions by name.
    """
    spec: Document = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], **what}]},
        "matchConditions": [{"name": "by-the-manager", "expression": f"request.userInfo.username == {text(account)}"}],
        **({"variables": [{"name": key, "expression": one} for key, one in variables.items()]} if variables else {}),
        "validations": [{"expression": expression, "message": said} for expression, said in validations.items()],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": content}
        for kind, content in (("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", binding))
    ]


def text(value: str) -> str:
    """A string literal of CEL; JSON's escapes are among CEL's."""
    return json.dumps(value)


def placed(needed: Rights, jobs_in: str) -> Iterator[tuple[str, list[Rule]]]:
    """Namespaces and the rules that are granted there; the first entry is for the whole cluster."""
    here = [rule for rule in needed.on_jobs if jobs_in and rule.namespaced]
    everywhere = [rule for rule in needed.on_jobs if rule not in here]
    yield "", everywhere
    places = {jobs_in: here} if here else {}
    for namespace, rules in needed.by_namespace.items():
        given = [*everywhere, *places.get(namespace, ())]
        places[namespace] = [*places.get(namespace, ()), *(rule for rule in rules if not _is_given(rule, given))]
    yield from sorted((namespace, rules) for namespace, rules in places.items() if rules)


def _is_given(rule: Rule, given: Iterable[Rule]) -> bool:
    """Whether other rules grant the right already."""
    return any(
        (rule.group, rule.resource) == (other.group, other.resource)
        and not other.names
        and set(rule.verbs) <= set(other.verbs)
        for other in given
    )


def _object(kind: str, namespace: str) -> Document:
    metadata = {"name": NAME} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata}


def rendered(documents: Iterable[Document]) -> str:
    return "---\n".join(map(dump, documents))
