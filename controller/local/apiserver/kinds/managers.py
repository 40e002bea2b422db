# SPDX-License-Identifier: Apache-2.0
"""The field managers of built-in kinds."""

from collections.abc import Iterator, Mapping

from trainwright.controller.local.apiserver.kinds.registry import model_of_body
from trainwright.controller.local.apiserver.kinds.strategy import Strategy
from trainwright.controller.local.apiserver.merge import fieldset
from trainwright.controller.local.apiserver.merge.fieldmanager import FieldManager
from trainwright.controller.local.apiserver.schema.published.kinds import RecordedKind, Subresource
from trainwright.controller.local.types.go_json import zero
from trainwright.controller.local.types.model import builtin


class BuiltInManagers(Mapping[str, FieldManager]):
    """The field managers of a kind by subresource, made when they are asked for: most kinds are never written."""

    def __init__(self, row: RecordedKind, strategy: Strategy, subresources: Mapping[str, Subresource]) -> None:
        self._row, self._strategy = row, strategy
        self._made: dict[str, FieldManager] = {}
        own = ("", *(sorted(subresources.keys() & {"approval", "finalize", "status"})))
        self._of_others = {name: sub for name, sub in subresources.items() if sub.group}
        self._names = (*own, *self._of_others)

    def __getitem__(self, subresource: str) -> FieldManager:
        if subresource not in self._names:
            raise KeyError(subresource)
        made = self._made.get(subresource)
        if made is None:
            other = self._of_others.get(subresource)
            made = self._made[subresource] = self._own(subresource) if other is None else _of_another_kind(other)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _own(self, subresource: str) -> FieldManager:
        row = self._row
        paths = self._strategy.reset_fields.get(subresource, ())
        reset = fieldset.of(*(tuple(f"f:{step}" for step in path) for path in paths))
        return FieldManager(
            builtin(row.model),
            row.api_version,
            row.kind,
            subresource=subresource,
            reset=reset,
            empty=zero(row.model, apiVersion=row.api_version, kind=row.kind),
        )


def _of_another_kind(sub: Subresource) -> FieldManager:
    version = f"{sub.group}/{sub.version}"
    model = model_of_body(sub)
    nothing = zero(model, apiVersion=version, kind=sub.kind)
    return FieldManager(builtin(model), version, sub.kind, subresource=sub.name, empty=nothing)
