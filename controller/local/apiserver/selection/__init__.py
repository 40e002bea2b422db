# SPDX-License-Identifier: Apache-2.0
"""Which objects a list or watch is about (for now: labels, names and namespaces)."""

from dataclasses import dataclass, field

from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.call import Call
from trainwright.controller.local.apiserver.store import Stored
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.selectors import LabelSelector, parse_label_selector


@dataclass(frozen=True, slots=True)
class Selection:
    labels: LabelSelector
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def everything(self) -> bool:
        return not self.labels.requirements and not self.fields

    def stored(self, one: Stored) -> bool:
        if self.labels.requirements and not self.labels.matches(one.labels):
            return False
        for path, value in self.fields.items():
            found = one.document()
            for step in path.split("."):
                found = (found or {}).get(step)
            if (found or "") != value:
                return False
        return True


def selection_of(call: Call) -> Selection:
    try:
        labels = parse_label_selector(call.request.asked("labelSelector"))
    except ConfigurationError as error:
        raise errors.bad_request(str(error)) from error
    fields = {}
    for term in filter(None, call.request.asked("fieldSelector").split(",")):
        name, _, value = term.partition("=")
        fields[name] = value.lstrip("=")
    return Selection(labels, fields)
