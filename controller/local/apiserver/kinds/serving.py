# SPDX-License-Identifier: Apache-2.0
"""Serves the built-in kinds, by their published models."""

from trainwright.controller.local.apiserver.kinds.built_in import built_in_kinds, resource_of
from trainwright.controller.local.apiserver.kinds.custom import DefinitionStrategy
from trainwright.controller.local.apiserver.kinds.registry import ALL_VERBS, Resource, ResourceRegistry
from trainwright.controller.local.apiserver.kinds.strategy import Strategy
from trainwright.controller.local.apiserver.schema.published.kinds import RecordedKind, Subresource
from trainwright.controller.local.types.model import models_by_kind

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
        registry.add(kind)


def _definitions() -> Resource:
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
        subresources=(Subresource("status", _DEFINITION, ("get", "patch", "update")),),
    )
    return resource_of(row, DefinitionStrategy())


def _review(group: str, kind: str, *, namespaced: bool = False) -> Resource:
    model = models_by_kind()[f"{group}/v1", kind]
    singular = kind.lower()
    row = RecordedKind(group, "v1", kind, f"{singular}s", namespaced, ("create",), model, singular=singular)
    return resource_of(row, Strategy())


def reviews() -> list[Resource]:
    """All of them."""
    return [
        _review(_AUTHENTICATION, "SelfSubjectReview"),
        _review(_AUTHENTICATION, "TokenReview"),
        _review(_AUTHORIZATION, "LocalSubjectAccessReview", namespaced=True),
        _review(_AUTHORIZATION, "SelfSubjectAccessReview"),
        _review(_AUTHORIZATION, "SelfSubjectRulesReview"),
        _review(_AUTHORIZATION, "SubjectAccessReview"),
    ]
