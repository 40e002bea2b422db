# SPDX-License-Identifier: Apache-2.0
"""Serves the built-in kinds, by their published models."""

from functools import cache, partial

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.apply import FieldManager, Types, empty_object, fieldset
from trainwright.controller.local.apiserver.published import models_by_kind, published_models
from trainwright.controller.local.apiserver.published.structs import published_structs
from trainwright.controller.local.apiserver.resources import ResourceRegistry, ResourceType, ServedResource, Subresource
from trainwright.controller.local.apiserver.schema import unknown_field
from trainwright.controller.local.apiserver.strategies.built_in import BUILT_IN, FOR_OTHERS, BuiltIn
from trainwright.controller.local.apiserver.strategies.built_in import Subresource as BuiltInSubresource
from trainwright.controller.local.apiserver.strategies.definitions import DefinitionStrategy
from trainwright.controller.local.apiserver.strategies.reviews import REVIEWS
from trainwright.controller.local.apiserver.strategies.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.tables import table_format
from trainwright.controller.local.gowriting import rewrite

_DEFINITION = "CustomResourceDefinition"
DEFINITIONS = BuiltIn(
    "apiextensions.k8s.io",
    "v1",
    _DEFINITION,
    "customresourcedefinitions",
    False,
    DefinitionStrategy(),
    ("crd", "crds"),
    ("api-extensions",),
    subresources=(BuiltInSubresource("status", _DEFINITION, ("get", "patch", "update")),),
)


def serve_built_in(registry: ResourceRegistry, *, for_others: bool) -> None:
    """Add the built-in kinds.

    Args:
        registry: of what is served.
        for_others: also those that only controllers from elsewhere act on.
    """
    for kind in (*BUILT_IN, *(FOR_OTHERS if for_others else ()), DEFINITIONS, *REVIEWS):
        registry.add(_served(kind))


def _served(kind: BuiltIn) -> ServedResource:
    made = ResourceType(
        group=kind.group,
        kind=kind.kind,
        plural=kind.plural,
        singular=kind.singular,
        namespaced=kind.namespaced,
        storage_version=kind.version,
        strategy=kind.strategy,
        list_kind=kind.list_kind,
        short_names=kind.short_names,
        categories=kind.categories,
        collection=kind.collection,
    )
    return ServedResource(
        type=made,
        version=kind.version,
        strategy=kind.strategy,
        managers=_managers(kind),
        table=table_format(kind.api_version, kind.kind),
        verbs=kind.verbs,
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
        model=_model(kind),
        structs=partial(_drop_unknown, _model(kind)),
        to_storage=kind.to_storage,
        from_storage=kind.from_storage,
    )


def _managers(kind: BuiltIn) -> dict[str, FieldManager]:
    names = {sub.name for sub in kind.subresources}
    empty = _empty(kind)
    made: dict[str, FieldManager] = {}
    for subresource in ("", *(sorted(names & {"finalize", "status"}))):
        paths = kind.strategy.reset_fields.get(subresource, ())
        reset = fieldset.of(*(tuple(f"f:{step}" for step in path) for path in paths)) if paths else None
        made[subresource] = FieldManager(
            _types(),
            kind.api_version,
            kind.kind,
            subresource=subresource,
            reset={kind.api_version: reset} if reset is not None else None,
            empty=empty,
        )
    for sub in kind.subresources:
        if sub.group:
            version = f"{sub.group}/{sub.version}"
            nothing = empty_object(published_models(), _model_of_body(sub), version, sub.kind)
            if sub.kind == "TokenRequest":
                # Go writes this pointer although it is nil and may be absent, which no model says.
                nothing["spec"]["boundObjectRef"] = None
            made[sub.name] = FieldManager(_types(), version, sub.kind, subresource=sub.name, empty=nothing)
    return made


def _empty(kind: BuiltIn) -> Document:
    if not isinstance(kind.strategy, BuiltInStrategy):
        return empty_object(published_models(), _model(kind), kind.api_version, kind.kind)
    made: Document = {"apiVersion": kind.api_version, "kind": kind.kind}
    rewrite(made, kind.strategy.struct)
    return made


def _drop_unknown(model: str, document: Document) -> list[str]:
    return [unknown_field(path) for path in published_structs().decode(model, document)]


def _model(kind: BuiltIn) -> str:
    return models_by_kind()[kind.api_version, kind.kind]


def _model_of_body(sub: BuiltInSubresource) -> str:
    return models_by_kind()[f"{sub.group}/{sub.version}", sub.kind]


@cache
def _types() -> Types:
    return Types(published_models())
