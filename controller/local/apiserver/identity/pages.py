# SPDX-License-Identifier: Apache-2.0
"""OpenID Connect discovery of the tokens' issuer: its metadata and its public key.

https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#service-account-issuer-discovery
"""

from collections.abc import Callable

from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.identity.jwt import SigningKey
from trainwright.controller.local.apiserver.request.info import ServerRequest, ServerResponse, encode

CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
_JSON, _KEY_SET = "application/json", "application/jwk-set+json"
_CACHED = {"Cache-Control": "public, max-age=3600"}


class IssuerPages:
    """The two pages.

    Args:
        key: signs the tokens.
        issuer: of the tokens.
        url: gives the URL of the API server.
    """

    def __init__(self, key: SigningKey, issuer: str, url: Callable[[], str]) -> None:
        self._key = key
        self._issuer = issuer
        self._url = url

    def __call__(self, request: ServerRequest) -> ServerResponse | None:
        """Answer one of the pages. Raises StatusError."""
        if request.path not in (CONFIGURATION, KEYS):
            return None
        if request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        media = _JSON if request.path == CONFIGURATION else _KEY_SET
        _check_accepted(request.headers.get("accept", ""), media)
        if request.path == KEYS:
            return ServerResponse(
                body=encode({"keys": [self._key.public()]}), content_type=media, headers=dict(_CACHED)
            )
        document = {
            "issuer": self._issuer,
            "jwks_uri": f"{self._url()}{KEYS}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        return ServerResponse(body=encode(document), content_type=media, headers=dict(_CACHED))


def _check_accepted(accept: str, media: str) -> None:
    """Raises StatusError if a client accepts another media type only."""
    offered = {media, "application/*", "*/*"}
    if accept and not any(part.partition(";")[0].strip() in offered for part in accept.split(",")):
        message = f"406: Not Acceptable\n\nAvailable representations: {media}"
        raise errors.StatusError(406, "NotAcceptable", message, {})
