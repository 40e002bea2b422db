# SPDX-License-Identifier: Apache-2.0
"""Serves the built-in kinds, by their published models."""

from collections.abc import Iterator, Mapping
from functools import cache, partial

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.builtin.built_in import BuiltIn, built_in_kinds
from trainwright.controller.local.apiserver.kinds.builtin.definitions import DefinitionStrategy
from trainwright.controller.local.apiserver.kinds.builtin.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.kinds.resources import (
    ALL_VERBS,
    ResourceRegistry,
    ResourceType,
    ServedResource,
    Subresource,
)
from trainwright.controller.local.apiserver.kinds.strategy import Strategy
from trainwright.controller.local.apiserver.merge.apply import FieldManager, Types, empty_object, fieldset
from trainwright.controller.local.apiserver.schema import unknown_field
from trainwright.controller.local.apiserver.schema.published import models_by_kind, published_models
from trainwright.controller.local.apiserver.schema.published.kinds import (
    RecordedKind,
    RecordedSubresource,
    published_structs,
)
from trainwright.controller.local.apiserver.views.tables import table_format
from trainwright.controller.local.gowriting import rewrite

_DEFINITION = "CustomResourceDefinition"
_EXTENSIONS = "apiextensions.k8s.io"
_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"


def serve_built_in(registry: ResourceRegistry, *, for_others: bool, rbac: bool = False) -> None:
    """Add the built-in kinds.

    Args:
        registry: of what is served.
        for_others: controllers from elsewhere act on kinds that nothing of this process acts on.
        rbac: roles count.
    """
    for kind in (*built_in_kinds(for_others=for_others, rbac=rbac), _definitions(), *reviews()):
        registry.add(_served(kind))


def _definitions() -> BuiltIn:
    row = RecordedKind(
        group=_EXTENSIONS,
        version="v1",
        kind=_DEFINITION,
        plural="customresourcedefinitions",
        namespaced=False,
        verbs=ALL_VERBS,
        model=models_by_kind()[f"{_EXTENSIONS}/v1", _DEFINITION],
        singular=_DEFINITION.lower(),
        stored_as=f"{_EXTENSIONS}/v1beta1",
        short_names=("crd", "crds"),
        categories=("api-extensions",),
    )
    return BuiltIn(row, DefinitionStrategy(), (RecordedSubresource("status", _DEFINITION, ("get", "patch", "update")),))


def _served(kind: BuiltIn) -> ServedResource:
    row = kind.recorded
    made = ResourceType(
        group=row.group,
        kind=row.kind,
        plural=row.plural,
        singular=row.singular,
        namespaced=row.namespaced,
        storage_version=row.version,
        strategy=kind.strategy,
        list_kind=row.list_kind,
        short_names=row.short_names,
        categories=row.categories,
        collection=row.collection,
        stored_as=row.stored_as,
    )
    return ServedResource(
        type=made,
        version=row.version,
        strategy=kind.strategy,
        managers=_Managers(kind),
        table=table_format(row.api_version, row.kind),
        verbs=row.verbs,
        warning=row.warning,
        subresources={
            sub.name: Subresource(
                name=sub.name,
                kind=sub.kind,
                group=sub.group,
                version=sub.version,
                verbs=sub.verbs,
                structs=partial(_drop_unknown, _model_of_body(sub)) if sub.group else None,
            )
            for sub in kind.subresources
        },
        model=row.model,
        structs=partial(_drop_unknown, row.model),
        to_storage=kind.to_storage,
        from_storage=kind.from_storage,
    )


class _Managers(Mapping[str, FieldManager]):
    """The field managers of a kind by subresource, made when they are asked for: most kinds are never written."""

    def __init__(self, kind: BuiltIn) -> None:
        self._kind = kind
        self._made: dict[str, FieldManager] = {}
        named = {sub.name: sub for sub in kind.subresources}
        own = ("", *(sorted(named.keys() & {"approval", "finalize", "status"})))
        self._of_others = {name: sub for name, sub in named.items() if sub.group}
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
        row = self._kind.recorded
        paths = self._kind.strategy.reset_fields.get(subresource, ())
        reset = fieldset.of(*(tuple(f"f:{step}" for step in path) for path in paths)) if paths else None
        return FieldManager(
            _types(),
            row.api_version,
            row.kind,
            subresource=subresource,
            reset={row.api_version: reset} if reset is not None else None,
            empty=_empty(self._kind),
        )


def _of_another_kind(sub: RecordedSubresource) -> FieldManager:
    version = f"{sub.group}/{sub.version}"
    nothing = empty_object(published_models(), _model_of_body(sub), version, sub.kind)
    if sub.kind == "TokenRequest":
        # Go writes this pointer although it is nil and may be absent, which no model says.
        nothing["spec"]["boundObjectRef"] = None
    return FieldManager(_types(), version, sub.kind, subresource=sub.name, empty=nothing)


def _empty(kind: BuiltIn) -> Document:
    row = kind.recorded
    if not isinstance(kind.strategy, BuiltInStrategy):
        return empty_object(published_models(), row.model, row.api_version, row.kind)
    made: Document = {"apiVersion": row.api_version, "kind": row.kind}
    rewrite(made, kind.strategy.struct)
    return made


def _drop_unknown(model: str, document: Document) -> list[str]:
    return [unknown_field(path) for path in published_structs().decode(model, document)]


def _model_of_body(sub: RecordedSubresource) -> str:
    return models_by_kind()[f"{sub.group}/{sub.version}", sub.kind]


@cache
def _types() -> Types:
    return Types(published_models())


def _review(group: str, kind: str, *, namespaced: bool = False) -> BuiltIn:
    model = models_by_kind()[f"{group}/v1", kind]
    singular = kind.lower()
    row = RecordedKind(group, "v1", kind, f"{singular}s", namespaced, ("create",), model, singular=singular)
    return BuiltIn(row, Strategy())


def reviews() -> list[BuiltIn]:
    """All of them."""
    return [
        _review(_AUTHENTICATION, "SelfSubjectReview"),
        _review(_AUTHENTICATION, "TokenReview"),
        _review(_AUTHORIZATION, "LocalSubjectAccessReview", namespaced=True),
        _review(_AUTHORIZATION, "SelfSubjectAccessReview"),
        _review(_AUTHORIZATION, "SelfSubjectRulesReview"),
        _review(_AUTHORIZATION, "SubjectAccessReview"),
    ]
