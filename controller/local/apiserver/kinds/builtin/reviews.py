# SPDX-License-Identifier: Apache-2.0
"""The reviews: kinds that are created to be answered, and never stored."""

from trainwright.controller.local.apiserver.kinds.builtin.built_in import BuiltIn
from trainwright.controller.local.apiserver.kinds.strategy import Strategy
from trainwright.controller.local.apiserver.schema.published import models_by_kind
from trainwright.controller.local.apiserver.schema.published.kinds import RecordedKind

_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"


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
