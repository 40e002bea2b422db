# SPDX-License-Identifier: Apache-2.0
"""What most built-in kinds do."""

from typing import ClassVar

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.builtin.defaulting import fill_object
from trainwright.controller.local.apiserver.kinds.strategy import ResetFields, Strategy, set_or_drop
from trainwright.controller.local.gowriting import rewrite


def null_if_empty(document: Document, field: str) -> None:
    """Make an empty list of a field that Go always writes null.

    The store of the real server keeps built-in kinds as protobuf, which does not tell an empty list from none. The
    request does: a manager owns the list that it sent.
    """
    document[field] = document.get(field) or None


class BuiltInStrategy(Strategy):
    """The rules of a kind that is a Go struct to the real server."""

    struct: str
    """The struct, as the table of `gowriting` names it: `core/v1.Pod`."""

    def default(self, document: Document) -> None:
        rewrite(document, self.struct)
        fill_object(document, self.struct)
        self.fill_in(document)

    def fill_in(self, document: Document) -> None:
        """Fill in what the body leaves open and no recorded default says. The others are set."""


class WithSpec(BuiltInStrategy):
    """A built-in kind with spec and status, each written through its own endpoint."""

    reset_fields: ClassVar[ResetFields] = {"": (("status",),), "status": (("spec",),)}
    has_generation: bool = True
    """Whether the kind counts changes of its spec."""

    def prepare_create(self, document: Document) -> None:
        document.pop("status", None)
        if self.has_generation:
            document["metadata"]["generation"] = 1

    def prepare_update(self, new: Document, old: Document, subresource: str) -> None:
        if subresource == "status":
            set_or_drop(new, "spec", old.get("spec"))
            return
        set_or_drop(new, "status", old.get("status"))
        if self.has_generation and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
