# SPDX-License-Identifier: Apache-2.0
"""Which objects a list, a watch or a deletion of a collection is about."""

from dataclasses import dataclass

from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds.resources import ServedResource
from trainwright.controller.local.apiserver.request.call import RequestInfo
from trainwright.controller.local.apiserver.store import ObjectName, StoredObject
from trainwright.controller.local.apiserver.views.selection import (
    FieldSelector,
    LabelMatcher,
    SelectorError,
    custom_selectable_fields,
    parse_field_selector,
    parse_label_selector,
    selectable_fields,
)

_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    """The scope and the selectors of a call."""

    served: ServedResource
    namespace: str
    """Empty for all."""
    name: str
    """Empty for all."""
    labels: LabelMatcher
    fields: FieldSelector

    @property
    def everything(self) -> bool:
        """Whether no selector leaves anything out."""
        return not self.labels and not self.fields

    @property
    def single(self) -> str:
        """The name of the one object that there can be; empty where there can be several."""
        if self.namespace or not self.served.type.namespaced:
            return self.fields.exact(_NAME) or ""
        return ""

    def stored(self, one: StoredObject) -> bool:
        """Whether a stored object is one of them."""
        if (self.namespace and one.name.namespace != self.namespace) or (self.name and one.name.name != self.name):
            return False
        if self.labels and not self.labels.matches(one.labels):
            return False
        if self.fields.fields <= {_NAME, _NAMESPACE}:
            return self._named(one.name)
        # A value of a custom resource may be another one in another version.
        if not self.served.type.custom and not self.fields.may_match(one.body):
            return False
        return self.fields.matches(self.served.named(one.document()))

    def _named(self, name: ObjectName) -> bool:
        values = {_NAME: name.name, _NAMESPACE: name.namespace}
        return all((values[label] == value) == (sign == "=") for label, sign, value in self.fields.terms)


def selection_of(call: RequestInfo) -> ObjectSelection:
    """Read the selectors from the query. Raises StatusError."""
    served = call.served
    if served.type.custom:
        selectable = custom_selectable_fields(served.selectable, namespaced=served.type.namespaced)
    else:
        selectable = selectable_fields(served.api_version, served.type.kind)
    try:
        labels = parse_label_selector(call.request.asked("labelSelector"))
        fields = parse_field_selector(call.request.asked("fieldSelector"), selectable)
    except SelectorError as error:
        raise errors.bad_request(str(error)) from error
    name = call.name
    if name and fields and fields.exact(_NAME) != name:
        raise errors.bad_request("fieldSelector metadata.name doesn't match requested name")
    namespace = call.namespace or fields.exact(_NAMESPACE) or ""
    return ObjectSelection(served, namespace, name, labels, fields)
