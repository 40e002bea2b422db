# SPDX-License-Identifier: Apache-2.0
"""Refuses roles and bindings that would give more rights than their author has.

https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
"""

from collections.abc import Sequence

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.authorization.attributes import Attributes
from trainwright.controller.local.apiserver.authorization.authorizer import EVERYTHING, MASTERS
from trainwright.controller.local.apiserver.authorization.rbac import GROUP, RBACAuthorizer
from trainwright.controller.local.apiserver.authorization.rules import shown, uncovered
from trainwright.controller.local.apiserver.errors import StatusError, forbidden, not_found
from trainwright.controller.local.apiserver.request.call import Operation, RequestInfo
from trainwright.controller.local.apiserver.request.info import WriteQuery
from trainwright.controller.local.values import quoted

_ROLES, _BINDINGS = ("roles", "clusterroles"), ("rolebindings", "clusterrolebindings")
_COLLECTED = ("ownerReferences", "finalizers", "managedFields")
"""What the garbage collector may change in an object whatever its rights."""


class Escalation:
    """An `Admission`: it changes nothing, and refuses what its author may not give."""

    def __init__(self, authorizer: RBACAuthorizer) -> None:
        self._authorizer = authorizer

    async def mutate(
        self, call: RequestInfo, operation: Operation, new: Document | None, old: Document | None, options: WriteQuery
    ) -> Document | None:
        """See Admission. Before any other part of the chain, as in kube-apiserver."""
        del operation, options
        if call.group == GROUP and new is not None and MASTERS not in call.user.groups and not _only_collects(new, old):
            if call.plural in _ROLES:
                self._check_role(call, new, old)
            elif call.plural in _BINDINGS:
                self._check_binding(call, new)
        return new

    async def validate(
        self, call: RequestInfo, operation: Operation, new: Document | None, old: Document | None, options: WriteQuery
    ) -> None:
        """See Admission."""

    def _check_role(self, call: RequestInfo, new: Document, old: Document | None) -> None:
        if self._may(call, "escalate", call.plural, call.name):
            return
        self._confirm(call, new, new.get("rules") or ())
        if any(((one or {}).get("aggregationRule") or {}).get("clusterRoleSelectors") for one in (new, old)):
            # It can collect any right.
            why = "must have cluster-admin privileges to use the aggregationRule"
            self._confirm(call, new, EVERYTHING, why)

    def _check_binding(self, call: RequestInfo, new: Document) -> None:
        reference = new.get("roleRef") or {}
        kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
        if kind in ("Role", "ClusterRole") and self._may(call, "bind", f"{kind.lower()}s", name):
            return
        try:
            rules = self._authorizer.role_rules(reference, call.namespace)
        except StatusError as error:
            # kube-apiserver names the role, but as what was asked for.
            raise not_found(call.group, call.plural, name) from error
        self._confirm(call, new, rules)

    def _may(self, call: RequestInfo, verb: str, plural: str, name: str) -> bool:
        wanted = Attributes(
            user=call.user, verb=verb, group=GROUP, resource=plural, namespace=call.namespace, name=name
        )
        return self._authorizer.decide(wanted).allowed

    def _confirm(self, call: RequestInfo, new: Document, rules: Sequence[Document], why: str = "") -> None:
        """Raises StatusError if the author lacks one of the rules."""
        own = self._authorizer.rules(call.user, call.namespace)
        missing = uncovered(own.rules, rules)
        if missing:
            raise _refused(call, new, why or _lacks(call, missing, own.problem))


def _lacks(call: RequestInfo, missing: list[Document], problem: str) -> str:
    groups = " ".join(quoted(group) for group in call.user.groups)
    rights = "\n".join(shown(missing))
    more = f"; resolution errors: [{problem}]" if problem else ""
    return (
        f"user {quoted(call.user.name)} (groups=[{groups}]) is attempting to grant RBAC permissions "
        f"not currently held:\n{rights}{more}"
    )


def _refused(call: RequestInfo, new: Document, why: str) -> StatusError:
    return forbidden(call.group, call.plural, str(new["metadata"].get("name") or ""), why)


def _only_collects(new: Document, old: Document | None) -> bool:
    return old is not None and _without_collected(new) == _without_collected(old)


def _without_collected(document: Document) -> Document:
    metadata = {key: value for key, value in document["metadata"].items() if key not in _COLLECTED}
    return {**document, "metadata": metadata}
