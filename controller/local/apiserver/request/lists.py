# SPDX-License-Identifier: Apache-2.0
"""What a list or a watch asks for: its options, its place in the pages, its selectors.

https://kubernetes.io/docs/reference/using-api/api-concepts/ has the words.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from trainwright.api.selectors import LabelMatcher, SelectorError, parse_label_selector
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds.registry import Resource
from trainwright.controller.local.apiserver.request.info import RequestInfo, go_integer
from trainwright.controller.local.apiserver.store import ObjectName, StoredObject
from trainwright.controller.local.apiserver.views.selection import (
    FieldSelector,
    parse_field_selector,
    selectable_fields,
)
from trainwright.controller.local.types.errors import DocumentError, forbidden, not_supported

_EXACT, _NOT_OLDER = "Exact", "NotOlderThan"


class Continuation(msgspec.Struct, frozen=True):
    """Where the next page begins: at a version, after the sort key of the last object."""

    version: int
    after: str

    def token(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
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
    request = call.request
    watch = request.flag("watch")
    version, match = request.param("resourceVersion"), request.param("resourceVersionMatch")
    token = request.param("continue")
    initial = request.flag("sendInitialEvents") if request.has_param("sendInitialEvents") else None
    if watch and initial is None and not match and version in ("", "0"):
        # A watch from no version has always begun with what is there; a bookmark now says where that ends.
        initial, match = True, _NOT_OLDER
    if found := _errors(watch, version, match, token, initial):
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


def _errors(watch: bool, version: str, match: str, token: str, initial: bool | None) -> list[DocumentError]:
    field, known = "resourceVersionMatch", (_NOT_OLDER,) if watch else (_EXACT, _NOT_OLDER, "")
    refused = [
        (watch and initial is not None and match != _NOT_OLDER, f"sendInitialEvents requires {field}={_NOT_OLDER}"),
        (bool(match) and watch and initial is None, "is forbidden for a watch without sendInitialEvents"),
        (bool(match) and not watch and not version, "is forbidden unless resourceVersion is provided"),
        (bool(match and token), "is forbidden when continue is provided"),
        (match == _EXACT and not watch and version == "0", 'Exact is forbidden for resourceVersion "0"'),
    ]
    found = [forbidden(field, text) for bad, text in refused if bad]
    if match and match not in known:
        found.append(not_supported(field, match, known))
    if initial is not None and not watch:
        found.append(forbidden("sendInitialEvents", "is forbidden for a list"))
    return found


def _continuation(token: str, version: str) -> Continuation | None:
    if not token:
        return None
    if version and version != "0":
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    try:
        said = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(said, type=Continuation)
    except (ValueError, msgspec.DecodeError) as error:
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {error}") from error


def parsed_version(version: str, refused: Callable[[str], errors.StatusError]) -> int:
    """A version of the query; 0 where there is none. Raises StatusError, made by `refused`, if it is no number."""
    if not version:
        return 0
    try:
        return go_integer(version, signed=False)
    except ValueError as error:
        raise refused(f"resourceVersion {version!r}: {error}") from error


_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    served: Resource
    namespace: str
    """Empty for all."""
    name: str
    """Empty for all."""
    labels: LabelMatcher
    fields: FieldSelector

    @property
    def everything(self) -> bool:
        return not self.labels and not self.fields

    @property
    def single(self) -> str:
        """The name of the one object that there can be; empty where there can be several."""
        if self.namespace or not self.served.namespaced:
            return self.fields.exact(_NAME) or ""
        return ""

    def stored(self, one: StoredObject) -> bool:
        if (self.namespace and one.name.namespace != self.namespace) or (self.name and one.name.name != self.name):
            return False
        if self.labels and not self.labels.matches(one.labels):
            return False
        if self.fields.fields <= {_NAME, _NAMESPACE}:
            return self._named(one.name)
        # A value of a custom resource may be another one in another version.
        if not self.served.custom and not self.fields.may_match(one.body):
            return False
        return self.fields.matches(self.served.named(one.document()))

    def _named(self, name: ObjectName) -> bool:
        values = {_NAME: name.name, _NAMESPACE: name.namespace}
        return all((values[label] == value) == (sign == "=") for label, sign, value in self.fields.terms)


def selection_of(call: RequestInfo) -> ObjectSelection:
    served = call.resource
    selectable = selectable_fields(served)
    try:
        labels = parse_label_selector(call.request.param("labelSelector"))
        fields = parse_field_selector(call.request.param("fieldSelector"), selectable)
    except SelectorError as error:
        raise errors.bad_request(str(error)) from error
    name = call.name
    if name and fields and fields.exact(_NAME) != name:
        raise errors.bad_request("fieldSelector metadata.name doesn't match requested name")
    namespace = call.namespace or fields.exact(_NAMESPACE) or ""
    return ObjectSelection(served, namespace, name, labels, fields)
