# SPDX-License-Identifier: Apache-2.0
"""TokenReview and SelfSubjectReview: whose a token is, and who asks.

https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/
"""

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.identity.authentication import InvalidTokenError, TokenAuthenticator
from trainwright.controller.local.apiserver.request import bodies
from trainwright.controller.local.apiserver.request.call import RequestInfo, negotiate
from trainwright.controller.local.apiserver.request.info import ServerResponse, user_info, write_options
from trainwright.controller.local.apiserver.verbs.reads import shown
from trainwright.controller.local.apiserver.verbs.writes import track
from trainwright.controller.local.apiserver.views.negotiation import MediaTypeOptions


def read_review(call: RequestInfo) -> tuple[Document, MediaTypeOptions]:
    """The review in the body, with managed fields, and the form of the answer. Raises StatusError."""
    if call.name:
        raise errors.no_such_resource()
    if call.request.method != "POST" or (call.resource.namespaced and not call.namespace):
        raise errors.method_not_allowed()
    wanted = negotiate(call)
    options = write_options(call.request, "CreateOptions")
    document = bodies.read_object(call, options.validation)
    document.setdefault("metadata", {})
    document.setdefault("spec", {})
    return track(call, None, document, options), wanted


class TokenReviewServer:
    """Serves TokenReviews."""

    def __init__(self, authenticator: TokenAuthenticator) -> None:
        self._authenticator = authenticator

    async def create(self, call: RequestInfo) -> ServerResponse:
        """Tell whose a token is. Raises StatusError."""
        review, wanted = read_review(call)
        spec = review["spec"]
        if not spec.get("token"):
            raise errors.bad_request("token is required for TokenReview in authentication")
        try:
            found = self._authenticator.identify(spec["token"], spec.get("audiences") or ())
        except InvalidTokenError as error:
            review["status"] = {"user": {}, "error": str(error)}
        else:
            user = user_info(found.user)
            review["status"] = {"authenticated": True, "user": user, "audiences": list(found.audiences)}
        return shown(call, review, wanted, 201)


async def review_self(call: RequestInfo) -> ServerResponse:
    """Serve a SelfSubjectReview. Raises StatusError."""
    _, wanted = read_review(call)
    review = {
        "kind": call.kind,
        "apiVersion": call.resource.api_version,
        "metadata": {"creationTimestamp": times.format_time(call.now)},
        "status": {"userInfo": user_info(call.user)},
    }
    return shown(call, review, wanted, 201)
