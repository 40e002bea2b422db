# SPDX-License-Identifier: Apache-2.0
"""Conflicts: fields that an apply would change and other managers own."""

from dataclasses import dataclass

from trainwright.controller.local.apiserver.merge.apply import fieldset
from trainwright.controller.local.apiserver.merge.apply.errors import ConflictError, FieldCause
from trainwright.controller.local.apiserver.merge.apply.fieldset import Path, Tree
from trainwright.controller.local.apiserver.merge.apply.owners import ManagerIdentity


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """One field and who owns it."""

    manager: ManagerIdentity
    path: Path


class Conflicts(Exception):  # noqa: N818 - it carries what may yet be allowed, and becomes a ConflictError
    """The conflicts of an apply that is not forced, by manager and field."""

    def __init__(self, found: dict[ManagerIdentity, Tree]) -> None:
        super().__init__(f"{len(found)} managers own what would change")
        managers = sorted(found, key=lambda manager: manager.identifier)
        self.conflicts = tuple(
            FieldConflict(manager, path) for manager in managers for path in fieldset.paths(found[manager])
        )

    @property
    def fields(self) -> Tree:
        """All fields in conflict."""
        return fieldset.of(*(conflict.path for conflict in self.conflicts))


def conflict_error(conflicts: tuple[FieldConflict, ...], *, stored: bool) -> ConflictError:
    """The error for the client.

    Args:
        conflicts: at least one, those of each manager together.
        stored: the owners were read from managedFields, where numbers in keys are float64.
    """
    texts = [fieldset.text(conflict.path, stored=stored) for conflict in conflicts]
    causes = tuple(
        FieldCause(f"conflict with {conflict.manager}", text) for conflict, text in zip(conflicts, texts, strict=True)
    )
    if len(causes) == 1:
        return ConflictError(f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}", causes)
    lines: list[str] = []
    previous: ManagerIdentity | None = None
    for conflict, text in zip(conflicts, texts, strict=True):
        if conflict.manager != previous:
            lines.append(f"conflicts with {conflict.manager}:")
            previous = conflict.manager
        lines.append(f"- {text}")
    return ConflictError(f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines), causes)
