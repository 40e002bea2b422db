# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI v3 index and the documents of group versions."""

from collections.abc import Iterable, Mapping
from typing import Any

from trainwright.controller.local.apiserver.kinds.registry import Resource
from trainwright.controller.local.apiserver.views.openapi.operations import paths_of
from trainwright.controller.local.apiserver.views.openapi.schemas import custom_model_name, custom_models, reachable
from trainwright.controller.local.types.model import models_by_kind

Document = dict[str, Any]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_ROOTS = tuple(f"{_META}.{name}" for name in ("DeleteOptions", "Patch", "Status", "WatchEvent"))


def document_path(group: str, version: str) -> str:
    """The path of a document below `/openapi/v3/`, which is its key in the index."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def index(hashes: Mapping[str, str]) -> Document:
    """`/openapi/v3`.

    Args:
        hashes: a text per document (`document_path`) that changes with it. Clients keep a document for as long as its
            hash is the same, and a request with another one is redirected.
    """
    return {
        "paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={hashes[path]}"} for path in sorted(hashes)}
    }


def document(resources: Iterable[Resource], kubernetes_version: str) -> Document:
    """`/openapi/v3/<path>`: what there is in a group version.

    Args:
        resources: the resources of one group version; at least one.
        kubernetes_version: such as `1.36`.
    """
    served = list(resources)
    first = served[0]
    own: Document = {}
    paths: Document = {}
    roots = [*_ROOTS]
    for resource in served:
        if resource.custom:
            own |= custom_models(resource, resource.schema or {})
            model, list_model = custom_model_name(resource), custom_model_name(resource, of_list=True)
        else:
            names = models_by_kind()
            model = resource.model
            list_model = names.get((resource.api_version, f"{resource.kind}List"), "")
        roots += (model, list_model, *_kinds_of_subresources(resource))
        paths.update(paths_of(resource, model, list_model))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": kubernetes_version},
        "paths": {path: paths[path] for path in sorted(paths)},
        "components": {"schemas": reachable(roots, own, first.group, first.version)},
    }


def _kinds_of_subresources(resource: Resource) -> Iterable[str]:
    names = models_by_kind()
    for _, subresource in sorted(resource.subresources.items()):
        group = subresource.group if subresource.version else resource.group
        version = subresource.version or resource.version
        found = names.get((f"{group}/{version}" if group else version, subresource.kind))
        if found is not None:
            yield found
