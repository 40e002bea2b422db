# SPDX-License-Identifier: Apache-2.0
"""What a list or a watch asks for: selectors, pages, versions. And the tokens that pages continue with.

https://kubernetes.io/docs/reference/using-api/api-concepts/ has the words.
"""

import base64
import json
from dataclasses import dataclass

import msgspec

from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.request.call import RequestInfo
from trainwright.controller.local.apiserver.request.info import go_integer
from trainwright.controller.local.apiserver.schema.errors import forbidden, invalid, not_supported

_EXACT, _NOT_OLDER = "Exact", "NotOlderThan"
_ENCODED_VERSION = "meta.k8s.io/v1"


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


class _Token(msgspec.Struct):
    """What a token says."""

    v: str | None = None
    rv: int | None = None
    start: str | None = None


def _read_token(token: str) -> Continuation:
    """Decode a token. Raises ValueError."""
    padded = token + "=" * (-len(token) % 4)
    try:
        content = msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=_Token | None)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    if content is None or content.v != _ENCODED_VERSION or not content.rv or not content.start:
        raise ValueError("it is not one that this server gave")
    if any(part in ("", ".", "..") for part in content.start.removeprefix("/").split("/")):
        raise ValueError(f"{content.start} is no place in a list")
    return Continuation(content.rv, content.start.removesuffix("\0"))


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
