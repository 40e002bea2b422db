# SPDX-License-Identifier: Apache-2.0
"""Turns an error answer into an exception.

The body is normally a `Status`. If it is not (from a proxy, or while a server starts), the HTTP status decides.
"""

from collections.abc import Mapping

import msgspec

from trainwright.api.kubernetes.meta.v1 import Status
from trainwright.controller.runtime.errors import ApiError, ErrorCause, error_type

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}


_DECODER = msgspec.json.Decoder(Status)


def error_of(
    code: int, headers: Mapping[str, str], body: bytes | msgspec.Raw, *, request: str = "", attempts: int = 1
) -> ApiError:
    """The exception for an answer with status `code` (400 and above), or for an ERROR frame of a watch (code 0)."""
    status, text = Status(), ""
    try:
        decoded = _DECODER.decode(body)
    except msgspec.MsgspecError:
        text = bytes(body)[:200].decode(errors="replace").strip()
    else:
        if decoded.kind == "Status":
            status = decoded
    code = code or status.code or 500
    details = status.details_or_empty
    header = headers.get("retry-after", "")
    asked = float(header) if header.isdecimal() else details.retry_after_seconds
    causes = tuple(ErrorCause(c.reason or "", c.field_ or "", c.message or "") for c in details.causes or ())
    reason = status.reason or _REASONS.get(code, "")
    return error_type(code, reason, causes)(
        status.message or text or f"HTTP {code}",
        code=code,
        reason=reason,
        causes=causes,
        retry_after=asked,
        request=request,
        attempts=attempts,
    )
