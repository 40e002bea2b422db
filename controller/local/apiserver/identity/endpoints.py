# SPDX-License-Identifier: Apache-2.0
"""Puts the endpoints of identity into an API server."""

from trainwright.controller.local.apiserver.admission.chain import Admission
from trainwright.controller.local.apiserver.authorization import Authorizer
from trainwright.controller.local.apiserver.http.server import APIServer
from trainwright.controller.local.apiserver.identity.access import AccessReviews
from trainwright.controller.local.apiserver.identity.accounts import AccountTokens
from trainwright.controller.local.apiserver.identity.authentication import TokenAuthenticator
from trainwright.controller.local.apiserver.identity.reviews import TokenReviewServer, review_self
from trainwright.controller.local.apiserver.identity.tokenrequests import TokenRequests

_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"


def serve_identity(
    server: APIServer,
    tokens: AccountTokens,
    authenticator: TokenAuthenticator,
    authorizer: Authorizer,
    admission: Admission,
) -> None:
    """Serve TokenRequests and all reviews.

    Args:
        server: serves them.
        tokens: issues the tokens.
        authenticator: of the server; TokenReviews ask it.
        authorizer: of the server; access reviews ask it.
        admission: refuses requests in namespaces that do not exist. Webhooks are not asked.
    """
    serve = server.register_handler
    serve("", "serviceaccounts", "token", TokenRequests(server.store, tokens, admission).create)
    serve(_AUTHENTICATION, "tokenreviews", "", TokenReviewServer(authenticator).create)
    serve(_AUTHENTICATION, "selfsubjectreviews", "", review_self)
    reviews = AccessReviews(authorizer)
    for name in ("subjectaccessreviews", "selfsubjectaccessreviews", "localsubjectaccessreviews"):
        serve(_AUTHORIZATION, name, "", reviews.access)
    serve(_AUTHORIZATION, "selfsubjectrulesreviews", "", reviews.rules)
