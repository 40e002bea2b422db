# SPDX-License-Identifier: Apache-2.0
"""The objects that a binding gives a policy as `params`."""

from collections.abc import Sequence

from trainwright.api.objects import Document
from trainwright.api.selectors import label_selector_of
from trainwright.controller.local.apiserver.kinds.registry import Resource, ResourceRegistry
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore


class ParameterError(ValueError):
    """A binding cannot be used; the text is for the client."""


def parameters(
    kind: Document | None, reference: Document | None, namespace: str, store: ObjectStore, registry: ResourceRegistry
) -> Sequence[Document | None]:
    """The parameters for a request: one None where there is nothing to give, and none where the policy is not asked.

    Args:
        kind: `paramKind` of the policy.
        reference: `paramRef` of the binding.
        namespace: of the request.
        store: of all objects.
        registry: of what is served.

    Raises:
        ParameterError: there is no such kind, or no object and that is to be refused.
    """
    if kind is None or reference is None:
        return [None]
    served = _served(kind, registry)
    if served is None:
        raise ParameterError(f"paramKind kind `{kind.get('apiVersion')}, Kind={kind.get('kind')}` not known")
    where = reference.get("namespace") or ""
    if served.namespaced:
        where = where or namespace
        if not where:
            raise ParameterError(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    elif where:
        raise ParameterError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    name = reference.get("name")
    if name:
        one = store.get(served.stored_in, ObjectName(where, name))
        stored = [] if one is None else [one]
    else:
        selector = label_selector_of(reference.get("selector"))
        listed = store.collection(served.stored_in).listed(where)
        stored = [one for one in listed if selector is not None and selector.matches(one.labels)]
    if not stored and reference.get("parameterNotFoundAction") != "Allow":
        raise ParameterError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [served.named(one.document()) for one in stored]


def _served(kind: Document, registry: ResourceRegistry) -> Resource | None:
    wanted = (kind.get("apiVersion"), kind.get("kind"))
    return next((one for one in registry if (one.api_version, one.kind) == wanted), None)
