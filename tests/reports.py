# SPDX-License-Identifier: Apache-2.0
"""Sends reports of progress to a status server, as training processes do."""

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TIME = "2026-05-06T07:08:09Z"


@dataclass(frozen=True)
class Reply:
    """An answer."""

    code: int
    body: dict[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


def path_of(namespace: str, name: str) -> str:
    """Where the progress of a TrainJob is reported."""
    return f"/apis/{audience(namespace, name)}"


def audience(namespace: str, name: str) -> str:
    """The audience of tokens for it."""
    return f"trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs/{name}/status"


def progress(percentage: int | None = None, *, time: str = TIME, **fields: Any) -> dict[str, Any]:
    """The body of a report."""
    status = {"lastUpdatedTime": time, **fields}
    if percentage is not None:
        status["progressPercentage"] = percentage
    return {"trainerStatus": status}


def send(
    port: int,
    path: str,
    body: dict[str, Any] | str | bytes,
    *,
    token: str | None = None,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    seconds: float = 30.0,
) -> Reply:
    """Send a report on a connection of its own, which checks no certificate. `token` None: no header."""
    data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=seconds, context=tls)
    sent = {"Content-Type": "application/json", **(headers or {})}
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"
    try:
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        assert answer.headers["Content-Type"] == "application/json"
        return Reply(answer.status, json.loads(answer.read()), dict(answer.headers.items()))
    finally:
        connection.close()
