# SPDX-License-Identifier: Apache-2.0
"""The defaults that explain what was seen in fields that a request did not say."""

import json
from dataclasses import dataclass
from typing import Any

from trainwright.controller.local.apiserver.schema.published.kinds import RecordedDefault

Document = dict[str, Any]


@dataclass(frozen=True)
class SeenField:
    """What a field was, that the request did not say."""

    value: Any
    """None if it stayed away."""
    features: dict[str, str]


def defaults_of(seen: dict[tuple[str, str], list[SeenField]]) -> dict[str, list[RecordedDefault]]:
    made: dict[str, list[RecordedDefault]] = {}
    unexplained: list[str] = []
    for (model, name), observed in sorted(seen.items()):
        values = {json.dumps(one.value, sort_keys=True) for one in observed}
        if values == {"null"}:
            continue
        if len(values) == 1:
            made.setdefault(model, []).insert(0, RecordedDefault(name, observed[0].value))
            continue
        rule = _stump(observed)
        if rule is None:
            unexplained.append(f"{model}.{name}: {values}")
            continue
        made.setdefault(model, []).extend(RecordedDefault(name, value, when) for when, value in rule)
    if unexplained:
        raise SystemExit("defaults that nothing explains:\n" + "\n".join(unexplained))
    return made


def _stump(observed: list[SeenField]) -> list[tuple[tuple[str, str], Any]] | None:
    """The one feature that decides, with the value for each of its values."""
    found: list[tuple[tuple[Any, ...], list[tuple[tuple[str, str], Any]]]] = []
    for name in sorted({key for one in observed for key in one.features}):
        by_value: dict[str, set[str]] = {}
        for one in observed:
            by_value.setdefault(one.features.get(name, ""), set()).add(json.dumps(one.value, sort_keys=True))
        if all(len(values) == 1 for values in by_value.values()):
            rules = [((name, value), json.loads(next(iter(values)))) for value, values in sorted(by_value.items())]
            rank = (name == "@kind", name == "@field", len(rules), name)
            found.append((rank, [rule for rule in rules if rule[1] is not None]))
    return min(found)[1] if found else None
