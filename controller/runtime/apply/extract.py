# SPDX-License-Identifier: Apache-2.0
"""The part of an object that a manager owns: applying it changes nothing, and is where a small change begins.

The tree of owned fields says which lists are keyed and by what, as in `compare`.
"""

import json
from typing import Any

from trainwright.controller.runtime.objects import Document


def extract(value: Any, owned: Document) -> Any:
    """The owned part of a value of a live object, with shared parts that must not be changed.

    Args:
        value: an object, or any value in it.
        owned: its node of fieldsV1.
    """
    children = [name for name in owned if name != "."]
    kinds = {name[0] for name in children}
    if kinds == {"f"} and isinstance(value, dict):
        return {name[2:]: extract(value[name[2:]], owned[name]) for name in children if name[2:] in value}
    if kinds == {"k"} and isinstance(value, list):
        return [extracted for item in value for extracted in _item(item, owned)]
    if kinds == {"v"} and isinstance(value, list):
        ours = [json.loads(name[2:]) for name in children]
        return [item for item in value if item in ours]
    return value


def _item(item: Any, owned: Document) -> list[Any]:
    """The owned part of an item of a keyed list; none if nothing of it is owned."""
    for name, node in owned.items():
        keys = json.loads(name[2:]) if name.startswith("k:") else None
        if keys and isinstance(item, dict) and all(item.get(key) == value for key, value in keys.items()):
            # A key that is not owned was filled in by the server, and will be again.
            return [extract(item, node)]
    return []
