# SPDX-License-Identifier: Apache-2.0
"""The reviews: kinds that are created to be answered, and never stored."""

from trainwright.controller.local.apiserver.strategies.built_in import BuiltIn
from trainwright.controller.local.apiserver.strategies.strategy import Strategy

_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"


def _review(group: str, kind: str, *, namespaced: bool = False) -> BuiltIn:
    return BuiltIn(group, "v1", kind, f"{kind.lower()}s", namespaced, Strategy(), verbs=("create",))


REVIEWS: tuple[BuiltIn, ...] = (
    _review(_AUTHENTICATION, "SelfSubjectReview"),
    _review(_AUTHENTICATION, "TokenReview"),
    _review(_AUTHORIZATION, "LocalSubjectAccessReview", namespaced=True),
    _review(_AUTHORIZATION, "SelfSubjectAccessReview"),
    _review(_AUTHORIZATION, "SelfSubjectRulesReview"),
    _review(_AUTHORIZATION, "SubjectAccessReview"),
)
