# SPDX-License-Identifier: Apache-2.0
"""Which names a definition gets beside the others of its group, and the conditions that say so.

Source: `apiextensions-apiserver/pkg/controller/status` and `…/establish`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from trainwright.controller.local.apiserver.merge.apply.values import quoted

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DefinitionCondition:
    """A condition of a definition, without its time."""

    type: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the status of a definition is to say."""

    names: Document
    """`acceptedNames`."""
    conditions: tuple[DefinitionCondition, DefinitionCondition]
    """NamesAccepted and Established."""


def accepted_names(definition: Document, others: Iterable[Document]) -> Accepted:
    """The names of a definition.

    A definition that is established stays so, also when it asks for new names that are taken.

    Args:
        definition: with what its status says already.
        others: all other definitions.
    """
    wanted: Document = definition["spec"]["names"]
    status: Document = definition.get("status", {})
    had: Document = status.get("acceptedNames") or {}
    resources, kinds = _taken(definition, others)
    made = dict(had)
    # The last conflict is told.
    conflict: tuple[str, str] | None = None
    for name, reason, used in (("plural", "PluralConflict", resources), ("singular", "SingularConflict", resources)):
        conflict = _take(made, wanted, had, name, used, reason) or conflict
    if wanted.get("shortNames") != had.get("shortNames"):
        short = [name for name in wanted.get("shortNames", ()) if name not in had.get("shortNames", ())]
        taken = [f"{quoted(name)} is already in use" for name in short if name in resources]
        if taken:
            conflict = "ShortNamesConflict", taken[0] if len(taken) == 1 else f"[{', '.join(taken)}]"
        else:
            _set(made, "shortNames", wanted)
    for name, reason, used in (("kind", "KindConflict", kinds), ("listKind", "ListKindConflict", kinds)):
        conflict = _take(made, wanted, had, name, used, reason) or conflict
    _set(made, "categories", wanted)
    return Accepted(made, (_named(conflict), _established(status, conflict is None)))


def _taken(definition: Document, others: Iterable[Document]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"]["group"] != definition["spec"]["group"]:
            continue
        names: Document = other.get("status", {}).get("acceptedNames", {})
        resources |= {names.get("plural", ""), names.get("singular", ""), *names.get("shortNames", ())}
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources, kinds


def _take(
    made: Document, wanted: Document, had: Document, name: str, used: set[str], reason: str
) -> tuple[str, str] | None:
    requested = wanted.get(name, "")
    if requested != had.get(name, "") and requested in used:
        return reason, f"{quoted(requested)} is already in use"
    made[name] = requested
    return None


def _set(made: Document, name: str, wanted: Document) -> None:
    if name in wanted:
        made[name] = wanted[name]
    else:
        made.pop(name, None)


def _named(conflict: tuple[str, str] | None) -> DefinitionCondition:
    if conflict is None:
        return DefinitionCondition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
    return DefinitionCondition("NamesAccepted", "False", *conflict)


def _established(status: Document, accepted: bool) -> DefinitionCondition:
    established = next((one for one in status.get("conditions") or () if one.get("type") == "Established"), None)
    is_established = established is not None and established.get("status") == "True"
    if accepted or is_established:
        return DefinitionCondition(
            "Established", "True", "InitialNamesAccepted", "the initial names have been accepted"
        )
    if established is not None:
        return DefinitionCondition("Established", established["status"], established["reason"], established["message"])
    return DefinitionCondition("Established", "False", "NotAccepted", "not all names are accepted")
