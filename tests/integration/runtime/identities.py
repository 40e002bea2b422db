# SPDX-License-Identifier: Apache-2.0
"""An OpenID Connect issuer on the loopback, and the user that the API server sees."""

import base64
import http.server
import json
import ssl
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from trainwright.controller.runtime import Client
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing.programs import Authority

CLIENT = "the-client"


async def who_am_i(client: Client) -> str:
    """The name of the user whose credentials the client shows."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await client.send(
        Request(
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            headers={"Content-Type": "application/json"},
            body=json.dumps(review).encode(),
        )
    )
    return str(json.loads(answer.body)["status"]["userInfo"]["username"])


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """Signs tokens; gives a new one for each refresh token, which it takes once."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.refresh_tokens = ["refresh-1"]
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, issuer._documents()[self.path])

            def do_POST(self) -> None:
                asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                if asked["refresh_token"] != issuer.refresh_tokens[-1:]:
                    self._answer(400, {"error": "invalid_grant", "error_description": "used already"})
                    return
                issuer.refresh_tokens.append(f"refresh-{len(issuer.refresh_tokens) + 1}")
                answer = {"id_token": issuer.token(3600), "refresh_token": issuer.refresh_tokens[-1]}
                self._answer(200, {**answer, "access_token": "x", "token_type": "Bearer"})

            def _answer(self, status: int, document: Any) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(document).encode())

            def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - the name that it has there

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.authority.server("issuer"))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def token(self, seconds: float) -> str:
        """A token for alice that ends in so many seconds."""
        claims = {"iss": self.url, "aud": CLIENT, "sub": "alice", "exp": int(time.time() + seconds), "iat": 0}
        parts = [{"alg": "RS256", "kid": "one", "typ": "JWT"}, claims]
        signed = ".".join(_text(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{_text(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def user(self, token: str) -> dict[str, Any]:
        """The entry of a kubeconfig."""
        config = {
            "client-id": CLIENT,
            "client-secret": "s",
            "id-token": token,
            "refresh-token": self.refresh_tokens[-1],
            "idp-issuer-url": self.url,
            "idp-certificate-authority-data": base64.b64encode(self.authority.pem).decode(),
        }
        return {"auth-provider": {"name": "oidc", "config": config}}

    def _documents(self) -> dict[str, Any]:
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA",
            "alg": "RS256",
            "use": "sig",
            "kid": "one",
            "n": _text(numbers.n.to_bytes(256, "big")),
            "e": _text(numbers.e.to_bytes(3, "big")),
        }
        return {
            "/.well-known/openid-configuration": {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "token_endpoint": f"{self.url}/token",
                "id_token_signing_alg_values_supported": ["RS256"],
            },
            "/keys": {"keys": [key]},
        }
