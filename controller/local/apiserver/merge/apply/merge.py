# SPDX-License-Identifier: Apache-2.0
"""A document merged onto an object: nothing is removed, what the document says counts, and lists keep an order.

Objects are not changed; what a merge leaves as it was is the same object in the result.
"""

from trainwright.controller.local.apiserver.merge.apply.compare import ABSENT
from trainwright.controller.local.apiserver.merge.apply.schema import ListView, MapView, SchemaView, part
from trainwright.controller.local.apiserver.merge.apply.values import Value, equal


class TypedMerge:
    """One merge of a document onto an object.

    Attributes:
        spared: the document has a null or an empty map or list where the object has content, which a merge leaves.
    """

    __slots__ = ("spared",)

    def __init__(self) -> None:
        self.spared = False

    def merge(self, view: SchemaView, live: Value, config: Value) -> Value:
        """The object after a document was merged onto it; both fit the view, and the document repeats no item."""
        if equal(live, config):
            return live
        form = part(view, config)
        if type(form) is MapView and not form.atomic and live and type(live) is dict:
            return self._maps(form, live, config) if config else self._spare(live)
        if type(form) is ListView and not form.atomic and live and type(live) is list:
            return self._lists(form, live, config) if config else self._spare(live)
        return config

    def _spare(self, live: Value) -> Value:
        self.spared = True
        return live

    def _maps(self, view: MapView, live: dict[str, Value], config: dict[str, Value]) -> dict[str, Value]:
        merged: dict[str, Value] | None = None
        for name, wanted in config.items():
            mine = live.get(name, ABSENT)
            if mine is not ABSENT:
                child = view.at(name)
                assert child is not None, f"{name} is checked to be allowed"
                wanted = self.merge(child, mine, wanted)  # noqa: PLW2901 - the merged value takes its place
                if wanted is mine:
                    continue
            if merged is None:
                merged = dict(live)
            merged[name] = wanted
        return live if merged is None else merged

    def _lists(self, view: ListView, live: list[Value], config: list[Value]) -> list[Value]:
        """Items of the document in the document's order, others where they were, as far as that goes together.

        An item that the object has several times is not merged into: the document's takes the place of all of them.
        """
        wanted = dict(zip(view.elements(config), config, strict=True))
        present: dict[str, Value] = {}
        elements = view.elements(live)
        for element, item in zip(elements, live, strict=True):
            present[element] = None if element in present else item
        merged = [
            live[position] if element is None else self._item(view, present.get(element, ABSENT), wanted[element])
            for element, position in _placed(elements, list(wanted))
        ]
        same = len(merged) == len(live) and all(new is old for new, old in zip(merged, live, strict=True))
        return live if same else merged

    def _item(self, view: ListView, live: Value, config: Value) -> Value:
        return config if live is ABSENT else self.merge(view.item, live, config)


def atomic(view: SchemaView, document: Value, path: str = "") -> str:
    """Where a document has something that a merge would replace as a whole; empty if nowhere."""
    form = part(view, document)
    if type(document) is dict and type(form) is MapView:
        if form.atomic:
            return path
        inner = ((form.at(name), value, f"{path}.{name}") for name, value in document.items())
        return next((found for child, value, at in inner if child and (found := atomic(child, value, at))), "")
    if type(document) is list and type(form) is ListView:
        if form.atomic:
            return path
        inside = (atomic(form.item, item, f"{path}[{index}]") for index, item in enumerate(document))
        return next((found for found in inside if found), "")
    return ""


def _placed(live: list[str], config: list[str]) -> list[tuple[str | None, int]]:
    """The order of a merged list: elements of the document, and for other items (None) their index in the object.

    Both lists are walked side by side. Items that only the object has are taken as they come. Shared items are taken in
    the document's order: at one that is not due yet the object's side moves on, and what the document has next is
    placed when the object's side stands at nothing of its own.
    """
    wanted, known = set(config), set(live)
    due = [element for element in config if element in known]
    next_due = 0
    placed: list[tuple[str | None, int]] = []
    done: set[str] = set()
    left = right = 0
    while left < len(live) or right < len(config):
        if left < len(live):
            element = live[left]
            if right < len(config):
                if element == config[right]:
                    placed.append((element, -1))
                    done.add(element)
                    left += 1
                    right += 1
                    next_due += 1
                    continue
                if element in wanted and next_due < len(due) and due[next_due] != element:
                    left += 1
                    continue
            if element not in wanted:
                placed.append((None, left))
                left += 1
                continue
            if element in done:
                left += 1
        if right < len(config):
            element = config[right]
            placed.append((element, -1))
            done.add(element)
            right += 1
            if next_due < len(due) and due[next_due] == element:
                next_due += 1
    return placed
