# SPDX-License-Identifier: Apache-2.0
"""`trainwright rbac`: the roles of a manager, with the rights of the plugins that its Configuration enables.

The roles of config/ are made by the same functions.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.controller.runtime.objects import Document
from trainwright.controller.runtime.rights import Rule

if TYPE_CHECKING:
    from trainwright.controller.trainer.permissions import Rights

API_VERSION = "rbac.authorization.k8s.io/v1"
API_GROUP = "rbac.authorization.k8s.io"
NAME = "kubeflow-trainer-controller-manager"
"""Of the roles, their bindings and the service account: the original's."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the sub-command."""
    parser = subparsers.add_parser(
        "rbac",
        help="print the roles that the manager needs",
        description="Print the roles that the manager needs with the plugins that are installed here and enabled in "
        "its Configuration, and their bindings to its service account. Apply them after adding or removing a plugin. "
        "Exit code 1 when the Configuration or a plugin is wrong.",
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="Configuration of the manager (default: the shipped one)"
    )
    parser.add_argument(
        "-n",
        "--namespace",
        default="kubeflow-system",
        help="namespace that the manager runs in (default: %(default)s)",
    )
    parser.add_argument(
        "--only-namespace",
        default="",
        metavar="NAMESPACE",
        help="for a manager that is started with --namespace=NAMESPACE (default: for one of all namespaces)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the roles; returns the exit code."""
    # Loaded here: the help of the command needs none of it.
    from trainwright.api.config.v1alpha1 import LeaderElectionConfiguration  # noqa: PLC0415
    from trainwright.controller.cli.configuration import load_effective  # noqa: PLC0415
    from trainwright.controller.runtime.errors import ConfigurationError  # noqa: PLC0415
    from trainwright.controller.trainer.permissions import rights  # noqa: PLC0415
    from trainwright.controller.trainer.settings import settings_of  # noqa: PLC0415
    from trainwright.plugins.contract import RegistryError  # noqa: PLC0415
    from trainwright.plugins.registry import Registry, Selection  # noqa: PLC0415

    try:
        configuration = load_effective(arguments.config, {})
        if arguments.config is None:
            # All that the shipped one says beside defaults which costs a right.
            configuration.leader_election = LeaderElectionConfiguration(leader_elect=True)
        registry = Registry.load(Selection.of(configuration.plugins))
    except ConfigurationError as error:
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        return 1
    except RegistryError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        return 1
    needed = rights(settings_of(configuration), registry, arguments.namespace)
    only = arguments.only_namespace
    sys.stdout.write(rendered([*roles(needed, only), *bindings(needed, arguments.namespace, only)]))
    return 0


def roles(needed: "Rights", jobs_in: str = "") -> Iterator[Document]:
    """The roles. `jobs_in`: the only namespace with TrainJobs that the manager looks after; empty: all."""
    for namespace, rules in _placed(needed, jobs_in):
        yield _object("Role" if namespace else "ClusterRole", namespace) | {"rules": [*map(_rule, rules)]}


def bindings(needed: "Rights", home: str, jobs_in: str = "") -> Iterator[Document]:
    """The bindings of the same roles to the service account, which is in the namespace `home`."""
    for namespace, _ in _placed(needed, jobs_in):
        kind = "Role" if namespace else "ClusterRole"
        yield _object(f"{kind}Binding", namespace) | {
            "roleRef": {"apiGroup": API_GROUP, "kind": kind, "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": home}],
        }


def _placed(needed: "Rights", jobs_in: str) -> Iterator[tuple[str, list[Rule]]]:
    """Namespaces and the rules that are given there; first those of no namespace."""
    here = [rule for rule in needed.on_jobs if jobs_in and rule.namespaced]
    everywhere = [rule for rule in needed.on_jobs if rule not in here]
    yield "", everywhere
    places = {jobs_in: here} if here else {}
    for namespace, rules in needed.by_namespace.items():
        given = [*everywhere, *places.get(namespace, ())]
        places[namespace] = [*places.get(namespace, ()), *(rule for rule in rules if not _is_given(rule, given))]
    yield from sorted((namespace, rules) for namespace, rules in places.items() if rules)


def _is_given(rule: Rule, given: Iterable[Rule]) -> bool:
    """Whether the others give the right already."""
    return any(
        (rule.group, rule.resource) == (other.group, other.resource)
        and not other.names
        and set(rule.verbs) <= set(other.verbs)
        for other in given
    )


def _object(kind: str, namespace: str) -> Document:
    metadata = {"name": NAME} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata}


def _rule(rule: Rule) -> Document:
    return {
        "apiGroups": [rule.group],
        "resources": [rule.resource],
        **({"resourceNames": list(rule.names)} if rule.names else {}),
        "verbs": list(rule.verbs),
    }


def rendered(documents: Iterable[Document]) -> str:
    """As YAML."""
    from trainwright.api.manifest import dump  # noqa: PLC0415 - YAML is not needed for the help

    return "---\n".join(map(dump, documents))
