# SPDX-License-Identifier: Apache-2.0
"""What a list or a watch asks for: selectors, pages, versions. And the tokens that pages continue with.

https://kubernetes.io/docs/reference/using-api/api-concepts/ has the words.
"""

import base64
import json
import re
from dataclasses import dataclass

from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.merge.patch import read_json
from trainwright.controller.local.apiserver.request.call import RequestInfo
from trainwright.controller.local.apiserver.request.info import go_integer
from trainwright.controller.local.apiserver.schema.errors import forbidden, invalid, not_supported

_EXACT, _NOT_OLDER = "Exact", "NotOlderThan"
_ENCODED_VERSION = "meta.k8s.io/v1"
_NOT_BASE64 = re.compile("[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Continuation:
    """Where the next page begins: at a version, after the sort key of the last object."""

    version: int
    after: str

    def token(self) -> str:
        """As clients carry it around."""
        text = json.dumps({"v": _ENCODED_VERSION, "rv": self.version, "start": self.after + "\0"})
        return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The options of a list or watch, checked."""

    watch: bool
    version: str
    match: str
    limit: int
    page: Continuation | None
    seconds: int | None
    """How long a watch lasts; None if not said."""
    bookmarks: bool
    initial: bool | None
    """`sendInitialEvents`."""


def list_options(call: RequestInfo) -> ListOptions:
    """Read the options from the query. Raises StatusError."""
    request = call.request
    watch = request.flag("watch")
    version, match = request.asked("resourceVersion"), request.asked("resourceVersionMatch")
    token = request.asked("continue")
    initial = request.flag("sendInitialEvents") if request.says("sendInitialEvents") else None
    if watch and initial is None and not match and version in ("", "0"):
        # A watch from no version has always begun with what is there; a bookmark now says where that ends.
        initial, match = True, _NOT_OLDER
    check = _watch_errors if watch else _list_errors
    found = check(version, match, token, initial)
    if found:
        raise errors.invalid("meta.k8s.io", "ListOptions", "", found)
    return ListOptions(
        watch=watch,
        version=version,
        match=match,
        limit=call.request.number("limit") or 0,
        page=None if watch else _continuation(token, version),
        seconds=call.request.number("timeoutSeconds"),
        bookmarks=request.flag("allowWatchBookmarks"),
        initial=initial,
    )


def _list_errors(version: str, match: str, token: str, initial: bool | None) -> list[DocumentError]:
    field = "resourceVersionMatch"
    found = []
    if match:
        if not version:
            found.append(forbidden(field, f"{field} is forbidden unless resourceVersion is provided"))
        if token:
            found.append(forbidden(field, f"{field} is forbidden when continue is provided"))
        if match not in (_EXACT, _NOT_OLDER):
            found.append(not_supported(field, match, (_EXACT, _NOT_OLDER, "")))
        if match == _EXACT and version == "0":
            found.append(forbidden(field, f'{field} "exact" is forbidden for resourceVersion "0"'))
    if initial is not None:
        found.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return found


def _watch_errors(_: str, match: str, token: str, initial: bool | None) -> list[DocumentError]:
    field = "resourceVersionMatch"
    found = []
    if initial is not None and match != _NOT_OLDER:
        text = f"sendInitialEvents requires setting {field} to {_NOT_OLDER}"
        found.append(forbidden(field, text))
    if match:
        if initial is None:
            text = f"{field} is forbidden for watch unless sendInitialEvents is provided"
            found.append(forbidden(field, text))
        if match != _NOT_OLDER:
            found.append(not_supported(field, match, (_NOT_OLDER,)))
        if token:
            found.append(forbidden(field, f"{field} is forbidden when continue is provided"))
    return found


def _continuation(token: str, version: str) -> Continuation | None:
    if not token:
        return None
    if version and version != "0":
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    try:
        return _read_token(token)
    except ValueError as error:
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {error}") from error


class _TokenError(ValueError):
    """A token that says no place in a list."""


def _read_token(token: str) -> Continuation:
    """Decode a token. Raises ValueError with the words of kube-apiserver."""
    content = read_json(_from_base64(token))
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise _TokenError("it is not an object")
    for name, known in (("v", str), ("rv", int), ("start", str)):
        value = content.get(name)
        if value is not None and type(value) is not known:
            raise _TokenError(f"{name} is of the wrong type")
    if content.get("v") != _ENCODED_VERSION:
        raise _TokenError(f"server does not recognize this encoded version {content.get('v') or ''}")
    version, start = content.get("rv"), content.get("start")
    if not version:
        raise _TokenError(f"incorrect encoded start resourceVersion (version {_ENCODED_VERSION})")
    if not start:
        raise _TokenError(f"encoded start key empty (version {_ENCODED_VERSION})")
    if any(part in ("", ".", "..") for part in start.removeprefix("/").split("/")):
        raise _TokenError(start)
    return Continuation(version, start.removesuffix("\0"))


def _from_base64(token: str) -> bytes:
    """Decode base64 for URLs, without padding. Raises ValueError with the words of Go."""
    wrong = _NOT_BASE64.search(token)
    if wrong or len(token) % 4 == 1:
        raise ValueError(f"illegal base64 data at input byte {wrong.start() if wrong else len(token) - 1}")
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


class InvalidVersionError(ValueError):
    """A version that is no number."""


def parsed_version(version: str) -> int:
    """A version of the query; 0 where there is none. Raises InvalidVersionError."""
    if not version:
        return 0
    try:
        return go_integer(version, signed=False)
    except ValueError as error:
        raise InvalidVersionError(str(invalid("resourceVersion", version, str(error)))) from error
