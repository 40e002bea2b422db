# SPDX-License-Identifier: Apache-2.0
"""Parts of documents in which anything may be absent."""

from collections.abc import Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]

NONE = "<none>"


def part(document: Any, *path: str) -> Document:
    """The object at a path; empty where there is none."""
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document if isinstance(document, Mapping) else {}


def parts(document: Document, key: str) -> Sequence[Any]:
    """The list of a field; empty where there is none."""
    found = document.get(key)
    return found if isinstance(found, list) else ()


def text(document: Document, key: str, default: str = "") -> str:
    """The string of a field; the default where there is none, or an empty one."""
    return document.get(key) or default


def condition_is_true(status: Document, kind: str) -> bool:
    """Whether the first condition of a type is True."""
    found = next((one for one in parts(status, "conditions") if one.get("type") == kind), None)
    return found is not None and found.get("status") == "True"


def pairs(labels: Document) -> str:
    """Labels as `a=1,b=2`, sorted."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or NONE


def selector_text(selector: Document) -> str:
    """A LabelSelector as `a=1,b in (x,y),!c`, sorted by label."""
    terms: list[tuple[str, str]] = [(key, f"{key}={value}") for key, value in part(selector, "matchLabels").items()]
    for expression in parts(selector, "matchExpressions"):
        key, values = text(expression, "key"), ",".join(sorted(parts(expression, "values")))
        shapes = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
        terms.append((key, shapes.get(text(expression, "operator"), key)))
    return ",".join(shape for _, shape in sorted(terms, key=lambda term: term[0])) or NONE
