# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N818 - named after the reasons that the API server gives, which nobody suffixes with Error
"""Every exception that the runtime raises, and what a caller may do about each.

KubernetesError
├── ApiError                    the server answered; carries its Status (reason, causes, retry_after)
│   ├── BadRequest        400   the request is wrong; do not retry
│   ├── Unauthorized      401   credentials were refreshed once already; an operator has to act
│   ├── Forbidden         403   the role lacks a verb; the message names verb and resource
│   ├── NotFound          404   the object, or (before its CRD is installed) the kind, does not exist
│   ├── AlreadyExists     409   a create met an object of that name; read it, then decide
│   ├── Conflict          409   version or field ownership moved on; read again, then retry
│   ├── Gone              410   the resourceVersion is too old to list or watch from; list again
│   ├── TooLarge          413   the request body is above the server's limit; do not retry
│   ├── Invalid           422   refused by validation; `causes` holds field and message of each cause
│   ├── TooManyRequests   429   asked to slow down; `retry_after` says how long
│   └── ServerError       5xx   the server failed; a read may be retried, a write's outcome is unknown
├── TransportError              no answer
│   ├── Unreachable             nothing was sent: refused, no route, name or certificate wrong; may be retried
│   ├── ConnectionLost          sent, then cut: the outcome of a write is unknown; read before a retry
│   ├── RequestTimeout          sent, no answer in time: as ConnectionLost
│   └── NotLeading              not sent: leader-elected work of a replica that does not lead, or not surely
├── LeadershipLost              ends the process; another replica leads or will
├── DecodeError                 the body is not what the model says
├── ConfigurationError          kubeconfig, credentials or options cannot be used
├── CertificateError            a certificate or key that a server was to use cannot be used; the one before stays
├── CacheError                  a read that the cache cannot answer
│   ├── NotCached               nobody declared the kind; the message says how
│   └── NotSynced               the first list has not arrived yet
├── NotControlled               an object of that name exists and is not controlled by the given owner
└── Terminal                    raised by a reconciler: wrong until something changes; no retry
"""

from dataclasses import dataclass
from typing import ClassVar


class KubernetesError(Exception):
    """Root of the tree."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `Status.details.causes`."""

    reason: str
    field: str
    message: str


class ApiError(KubernetesError):
    """The API server answered with an error.

    `status` is the HTTP status, `reason` Kubernetes' word for it, `retry_after` the seconds that the server asked to
    wait (None: it did not ask), `attempts` how often the request was sent.
    """

    code: ClassVar[int] = 0
    """The status that makes this class; 0 for a class that several make."""

    def __init__(
        self,
        message: str,
        *,
        code: int,
        reason: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
        request: str = "",
        attempts: int = 1,
    ) -> None:
        super().__init__(f"{request}: {message}" if request else message)
        self.message = message
        self.status = code
        self.reason = reason
        self.causes = causes
        self.retry_after = retry_after
        self.request = request
        self.attempts = attempts


class BadRequest(ApiError):
    """400."""

    code = 400


class Unauthorized(ApiError):
    """401, after the credentials were read again once."""

    code = 401


class Forbidden(ApiError):
    """403."""

    code = 403


class NotFound(ApiError):
    """404: the object or the whole kind."""

    code = 404


class AlreadyExists(ApiError):
    """409 with reason AlreadyExists."""

    code = 409


class Conflict(ApiError):
    """409 with any other reason: the version or a field's owner is not the expected one."""

    code = 409


class Gone(ApiError):
    """410, reason Expired or Gone; also a resource version that the server does not know yet."""

    code = 410


class TooLarge(ApiError):
    """413."""

    code = 413


class Invalid(ApiError):
    """422; see `causes`."""

    code = 422


class TooManyRequests(ApiError):
    """429, after the retries that the server asked for."""

    code = 429


class ServerError(ApiError):
    """500 and above."""

    code = 500


class TransportError(KubernetesError):
    """No answer was received."""


class Unreachable(TransportError):
    """The connection could not be opened, so nothing was sent."""


class ConnectionLost(TransportError):
    """The connection broke after the request may have been sent."""


class RequestTimeout(TransportError):
    """No answer within the request's limit."""


class NotLeading(TransportError):
    """Refused here and not sent: this replica's lease has run out, or is not surely held any more."""


class LeadershipLost(KubernetesError):
    """This replica led, and does not any more; the process ends, and a new one may stand for election."""


class DecodeError(KubernetesError):
    """The body of an answer, or one object of a list, does not fit its model."""


class ConfigurationError(KubernetesError):
    """A kubeconfig, a credential or an option that cannot work; the message says which and why."""


class CertificateError(KubernetesError):
    """A certificate or key cannot be loaded, or does not belong together; what was loaded before is still in use."""


class CacheError(KubernetesError):
    """The cache cannot answer this read."""


class NotCached(CacheError):
    """No informer was declared for this kind and scope."""


class NotSynced(CacheError):
    """The informer exists, but its first list has not arrived."""


class NotControlled(KubernetesError):
    """An object with the wanted name exists and belongs to somebody else; it was not touched."""


class Terminal(KubernetesError):
    """What a reconciler raises when a retry cannot help: nothing happens until an object it watches changes."""


_BY_CODE: dict[int, type[ApiError]] = {
    kind.code: kind
    for kind in (
        BadRequest,
        Unauthorized,
        Forbidden,
        NotFound,
        Conflict,
        Gone,
        TooLarge,
        Invalid,
        TooManyRequests,
    )
}


def api_error(
    code: int,
    message: str,
    *,
    reason: str = "",
    causes: tuple[Cause, ...] = (),
    retry_after: float | None = None,
    request: str = "",
    attempts: int = 1,
) -> ApiError:
    """The leaf of the tree for an answer's code and reason (H-15)."""
    kind = _BY_CODE.get(code)
    if code == 409 and reason == "AlreadyExists":
        kind = AlreadyExists
    elif {"Expired", "Gone", "ResourceVersionTooLarge"} & {reason, *(cause.reason for cause in causes)}:
        kind = Gone
    if kind is None:
        kind = ServerError if code >= 500 else ApiError
    return kind(
        message,
        code=code,
        reason=reason,
        causes=causes,
        retry_after=retry_after,
        request=request,
        attempts=attempts,
    )
