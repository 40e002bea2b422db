# SPDX-License-Identifier: Apache-2.0
"""Checks of readiness: a condition of an object, an answer of a server."""

import http
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any


def has_condition(document: Mapping[str, Any], kind: str) -> bool:
    """Whether a condition of the object is True."""
    conditions = document.get("status", {}).get("conditions") or []
    return any((condition["type"], condition["status"]) == (kind, "True") for condition in conditions)


def answers(url: str, *, authority: bytes | None = None, token: str | None = None) -> bool:
    """Whether a GET succeeds; over HTTPS only with a certificate of the authority."""
    # Proxies of the environment do not apply to the loopback.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if authority is not None:
        context = ssl.create_default_context(cadata=authority.decode())
        handlers.append(urllib.request.HTTPSHandler(context=context))
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=2) as answer:
            return bool(answer.status == http.HTTPStatus.OK)
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return False
