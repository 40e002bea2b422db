# SPDX-License-Identifier: Apache-2.0
"""What a client is answered instead of an object: a `Status` with the codes, reasons and texts of the real server."""

from collections.abc import Sequence
from typing import Any

from trainwright.api.objects import Document
from trainwright.controller.local.types.errors import DocumentError

LOCK_MESSAGE = "the object has been modified; please apply your changes to the latest version and try again"


class StatusError(Exception):
    def __init__(self, code: int, reason: str, message: str, details: Document | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def document(self) -> Document:
        return status("Failure", code=self.code, reason=self.reason, message=self.message, details=self.details)

    @property
    def retry_after(self) -> int | None:
        """Seconds for the header `Retry-After`, if the client is asked to wait."""
        seconds: int | None = (self.details or {}).get("retryAfterSeconds")
        return seconds


def status(
    outcome: str, *, code: int = 0, reason: str = "", message: str = "", details: Document | None = None
) -> Document:
    made: Document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": outcome}
    for name, value in (("message", message), ("reason", reason), ("details", details), ("code", code)):
        # Errors that the real server does not classify carry details that are empty.
        if value or (name == "details" and value is not None):
            made[name] = value
    return made


def qualified(group: str, name: str) -> str:
    """A resource or kind with its group, as messages name it: `jobs.batch`."""
    return f"{name}.{group}" if group else name


def _details(group: str, kind: str, name: str, **more: Any) -> Document:
    named = {"name": name, "group": group, "kind": kind}
    return {**{key: value for key, value in named.items() if value}, **more}


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, plural: str, name: str, why: str, **details: Any) -> StatusError:
    """403: admission refuses."""
    what = f'{qualified(group, plural)} "{name}"' if name else qualified(group, plural)
    return StatusError(403, "Forbidden", f"{what} is forbidden: {why}", _details(group, plural, name, **details))


def not_found(group: str, plural: str, name: str) -> StatusError:
    message = f'{qualified(group, plural)} "{name}" not found'
    return StatusError(404, "NotFound", message, _details(group, plural, name))


def no_such_resource() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> StatusError:
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def already_exists(group: str, plural: str, name: str, more: str = "", **details: Any) -> StatusError:
    message = f'{qualified(group, plural)} "{name}" already exists{more}'
    return StatusError(409, "AlreadyExists", message, _details(group, plural, name, **details))


def conflict(group: str, plural: str, name: str, why: str = LOCK_MESSAGE) -> StatusError:
    message = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return StatusError(409, "Conflict", message, _details(group, plural, name))


def apply_conflict(message: str, causes: Sequence[tuple[str, str]]) -> StatusError:
    """409: other managers own what an apply would change; causes are fields with messages."""
    listed = [{"reason": "FieldManagerConflict", "message": text, "field": field} for field, text in causes]
    return StatusError(409, "Conflict", message, {"causes": listed})


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def too_large(message: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def unsupported_media_type(accepted: Sequence[str], details: Document | None = None) -> StatusError:
    text = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {text}"
    return StatusError(415, "UnsupportedMediaType", message, details)


def not_acceptable(message: str, details: Document | None = None) -> StatusError:
    return StatusError(406, "NotAcceptable", message, details)


def not_supported(group: str, plural: str, verb: str) -> StatusError:
    """405: a custom resource does not support the verb."""
    message = f'{verb} is not supported on resources of kind "{qualified(group, plural)}"'
    return StatusError(405, "MethodNotAllowed", message, _details(group, plural, ""))


def invalid(group: str, kind: str, name: str, errors: Sequence[DocumentError]) -> StatusError:
    what = f'{qualified(group, kind)} "{name}" is invalid'
    causes = [{"reason": error.reason, "message": error.message, "field": error.field} for error in errors]
    texts = list(dict.fromkeys(str(error) if error.field else f"<nil>: {error.message}" for error in errors))
    together = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f"{what}: {together}" if texts else what
    return StatusError(422, "Invalid", message, _details(group, kind, name, **({"causes": causes} if causes else {})))


def internal(message: str) -> StatusError:
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def plain_internal(message: str) -> StatusError:
    """500 without a reason, for errors that the real server does not classify."""
    return StatusError(500, "", message)


def too_large_version(version: int, current: int) -> StatusError:
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})
