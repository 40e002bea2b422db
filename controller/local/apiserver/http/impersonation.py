# SPDX-License-Identifier: Apache-2.0
"""Requests on behalf of another user, as `kubectl --as` makes them.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
"""

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote

from trainwright.api.validation import names
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.authorization import Attributes
from trainwright.controller.local.apiserver.merge.apply.values import quoted
from trainwright.controller.local.apiserver.request.info import ANONYMOUS, User
from trainwright.controller.local.apiserver.request.userinfo import ACCOUNT_PREFIX, AUTHENTICATED, account_groups

_EXTRA = "impersonate-extra-"
_NODE_PREFIX = "system:node:"
_UNAUTHENTICATED = ANONYMOUS.groups[0]
_AUTHENTICATION = "authentication.k8s.io"


def impersonated(headers: Sequence[tuple[str, str]]) -> User | None:
    """The user that headers `Impersonate-*` ask for; None if they ask for none. Raises StatusError."""
    name, uid, groups, extra = _asked(headers)
    if not name:
        if uid or groups or extra:
            wanted = _shown(uid, groups, extra)
            raise errors.bad_request(f"requested {wanted} without impersonating a user name")
        return None
    all_groups = groups or _known_groups(name, alone=not uid and not extra)
    return User(name, tuple(_with_status(name, all_groups)), uid, extra)


def rights_to_impersonate(user: User, headers: Sequence[tuple[str, str]]) -> Iterator[Attributes]:
    """What a user needs the right to, for these headers. Raises StatusError."""
    name, uid, groups, extra = _asked(headers)

    def impersonate(resource: str, value: str, *, group: str = "", key: str = "", namespace: str = "") -> Attributes:
        return Attributes(
            user=user,
            verb="impersonate",
            group=group,
            resource=resource,
            subresource=key,
            namespace=namespace,
            name=value,
        )

    account = _account(name)
    if account is not None:
        yield impersonate("serviceaccounts", account[1], namespace=account[0])
    else:
        yield impersonate("users", name)
    if uid:
        yield impersonate("uids", uid, group=_AUTHENTICATION)
    yield from (impersonate("groups", group) for group in groups)
    for key, values in extra.items():
        yield from (impersonate("userextras", value, group=_AUTHENTICATION, key=key) for value in values)


def _asked(headers: Sequence[tuple[str, str]]) -> tuple[str, str, list[str], dict[str, tuple[str, ...]]]:
    """Name, uid, groups and extra values."""
    name = uid = ""
    groups: list[str] = []
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in headers:
        if header == "impersonate-user":
            name = name or value
        elif header == "impersonate-uid":
            uid = uid or value
        elif header == "impersonate-group":
            groups.append(value)
        elif header.startswith(_EXTRA):
            key = unquote(header.removeprefix(_EXTRA))
            extra[key] = (*extra.get(key, ()), value)
    return name, uid, groups, extra


def _account(name: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that a user name stands for."""
    namespace, _, account = name.removeprefix(ACCOUNT_PREFIX).partition(":")
    if name.startswith(ACCOUNT_PREFIX) and not names.dns_label(namespace) and not names.dns_subdomain(account):
        return namespace, account
    return None


def _known_groups(name: str, *, alone: bool) -> list[str]:
    """The groups of service accounts, and of nodes of which no more than the name is given."""
    account = _account(name)
    if account is not None:
        return list(account_groups(account[0]))
    if alone and name.startswith(_NODE_PREFIX) and not names.dns_subdomain(name.removeprefix(_NODE_PREFIX)):
        return ["system:nodes"]
    return []


def _with_status(name: str, groups: list[str]) -> list[str]:
    """Add the group of all users who are authenticated, or of those who are not."""
    status = _UNAUTHENTICATED if name == ANONYMOUS.name else AUTHENTICATED
    return groups if status in groups or _UNAUTHENTICATED in groups else [*groups, status]


def _shown(uid: str, groups: Sequence[str], extra: Mapping[str, Sequence[str]]) -> str:
    """A user without a name, as Go prints the struct with %#v."""
    pairs = ", ".join(f"{quoted(key)}:{_strings(extra[key])}" for key in sorted(extra))
    shown_extra = f"{{{pairs}}}" if extra else "(nil)"
    return (
        f'&user.DefaultInfo{{Name:"", UID:{quoted(uid)}, Groups:{_strings(groups)}, '
        f"Extra:map[string][]string{shown_extra}}}"
    )


def _strings(texts: Sequence[str]) -> str:
    return f"[]string{{{', '.join(map(quoted, texts))}}}" if texts else "[]string(nil)"
