# SPDX-License-Identifier: Apache-2.0
"""What a user wants to do, and the authorizer that allows everything."""

from dataclasses import dataclass
from typing import NamedTuple

from trainwright.api.names import path_segment
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.request.info import (
    ANONYMOUS,
    AUTHENTICATED,
    Route,
    ServerRequest,
    User,
    verb_of,
)

_UNSAFE = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """One thing that a user wants to do."""

    user: User
    verb: str
    is_resource: bool = True
    """Else it is about a path."""
    group: str = ""
    resource: str = ""
    """The plural."""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def combined(self) -> str:
        """The resource as rules name it: `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes_of(user: User, request: ServerRequest, route: Route | None) -> Attributes:
    """What a request wants."""
    verb = verb_of(request, route)
    if route is None:
        return Attributes(user=user, verb=verb, is_resource=False, path=request.path)
    # A Namespace counts as in itself.
    namespace = route.name if (route.group, route.resource) == ("", "namespaces") else route.namespace
    return Attributes(
        user=user,
        verb=verb,
        group=route.group,
        resource=route.resource,
        subresource=route.subresource,
        namespace=namespace,
        name=route.name or _selected_name(request, verb),
    )


def _selected_name(request: ServerRequest, verb: str) -> str:
    """The one name that a list or watch is limited to: a rule with `resourceNames` allows those."""
    selector = request.param("fieldSelector") if verb in ("list", "watch") else ""
    if "metadata.name" not in selector:
        return ""
    for term in selector.split(","):
        field, _, value = term.partition("=")
        value = value.removeprefix("=")
        if field == "metadata.name" and value and not path_segment(value):
            return value
    return ""


def forbidden(wanted: Attributes, reason: str = "") -> errors.StatusError:
    """403 for a user without rights, in the words of kube-apiserver."""
    more = f": {reason}" if reason else ""
    if not wanted.is_resource:
        why = f'User "{wanted.user.name}" cannot {wanted.verb} path "{wanted.path}"'.translate(_UNSAFE)
        return errors.StatusError(403, "Forbidden", f"forbidden: {why}{more}", {})
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    why = (
        f'User "{wanted.user.name}" cannot {wanted.verb} resource "{wanted.combined}" in API group "{wanted.group}" '
        f"{where}"
    ).translate(_UNSAFE)
    return errors.forbidden(wanted.group, wanted.resource, wanted.name, f"{why}{more}")


MASTERS = "system:masters"
"""The group whose members may do everything, whatever the roles say."""
PUBLIC = ("/healthz", "/livez", "/readyz", "/version")
"""What requests without credentials may ask, as in kube-apiserver."""
EVERYTHING: tuple[Document, ...] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
"""All rights there are, as rules."""


class AccessDecision(NamedTuple):
    """Whether something is allowed, and what SubjectAccessReviews say of it."""

    allowed: bool
    reason: str = ""


class UserRules(NamedTuple):
    """The rights of a user in a namespace."""

    rules: list[Document]
    problem: str = ""
    """Why some may be missing."""


class Authorizer:
    """Tells who may do what: users with credentials may do everything, all others what is public."""

    def decide(self, wanted: Attributes) -> AccessDecision:
        """Whether a user may do something."""
        if _has_credentials(wanted.user):
            return AccessDecision(True)
        return AccessDecision(not wanted.is_resource and wanted.path.rstrip("/") in PUBLIC)

    def rules(self, user: User, namespace: str) -> UserRules:  # noqa: ARG002 - the same everywhere
        """What a user may do in a namespace, and in the whole cluster."""
        if _has_credentials(user):
            return UserRules(list(EVERYTHING))
        return UserRules([{"verbs": ["*"], "nonResourceURLs": list(PUBLIC)}])


def _has_credentials(user: User) -> bool:
    return user.name != ANONYMOUS.name or not {MASTERS, AUTHENTICATED}.isdisjoint(user.groups)
