# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N818 - named after the API server's reasons, which have no suffix Error
"""Every exception that the runtime raises, and what a caller can do about it.

KubernetesError
├── ApiError                    the server answered with an error; carries its Status (reason, causes, retry_after)
│   ├── BadRequest        400   the request is wrong; do not retry
│   ├── Unauthorized      401   refused although the credentials were renewed once; the operator has to act
│   ├── Forbidden         403   the role lacks a verb; the message names verb and resource
│   ├── NotFound          404   the object does not exist, or its kind (before the CRD is installed)
│   ├── AlreadyExists     409   an object of that name exists; read it, then decide
│   ├── Conflict          409   the version or the owner of a field has changed; read again, then retry
│   ├── Gone              410   the resourceVersion is too old to list or watch from; list again
│   ├── TooLarge          413   the request body exceeds the server's limit; do not retry
│   ├── Invalid           422   validation failed; `causes` holds the field and the message of each error
│   ├── TooManyRequests   429   the server is overloaded; `retry_after` says how long to wait
│   └── ServerError       5xx   the server failed; retry a read; the outcome of a write is unknown
├── TransportError              no complete answer
│   ├── Unreachable             not sent: refused, no route, wrong name or certificate; can be retried
│   ├── ConnectionLost          sent, then cut off: the outcome of a write is unknown; read before a retry
│   ├── RequestTimeout          sent, no answer in time: as ConnectionLost
│   ├── OutputTooLarge          the answer exceeds the caller's limit and was not read to its end
│   └── NotLeading              not sent: this replica does not lead, or its lease may have expired
├── LeadershipLost              ends the process, so that another replica can lead
├── DecodeError                 the body does not fit the model
├── ConfigurationError          a kubeconfig, a credential or an option is wrong
├── CertificateError            a server certificate or key is unusable; the previous one stays in use
├── TokenRefused                a bearer token is malformed, expired, for another audience, or wrongly signed
├── TokensUnavailable           a bearer token cannot be checked now; the API server gives neither keys nor reviews
├── CacheError                  the cache cannot answer a read
│   ├── NotCached               the kind was not declared; the message says how to declare it
│   └── NotSynced               the first list has not arrived yet
├── NotControlled               an object of that name exists and has another controller
└── Terminal                    raised by a reconciler: a retry cannot help until an object changes
"""

import errno
import os
import ssl
from dataclasses import dataclass
from typing import ClassVar

from trainwright.api.errors import UserError


class KubernetesError(UserError):
    """Root of the tree."""

    @property
    def message(self) -> str:
        """The text for users; of an ApiError without the request, which tells them nothing."""
        return str(self)


@dataclass(frozen=True, slots=True)
class ErrorCause:
    """One entry of `Status.details.causes`."""

    reason: str
    field: str
    message: str


class ApiError(KubernetesError):
    """The API server answered with an error.

    `status` is the HTTP status, `reason` the reason in the Status, `retry_after` the seconds that the server asked to
    wait (None: it did not ask), `attempts` the number of times the request was sent. Without `code` and `reason`, they
    are those of the class: for an error that no answer of a server brought.
    """

    code: ClassVar[int] = 0
    """HTTP status of this class; 0 for a class of several."""

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        reason: str | None = None,
        causes: tuple[ErrorCause, ...] = (),
        retry_after: float | None = None,
        request: str = "",
        attempts: int = 1,
    ) -> None:
        super().__init__(f"{request}: {message}" if request else message)
        self._message = message
        self.status = self.code if code is None else code
        self.reason = type(self).__name__ if reason is None else reason
        self.causes = causes
        self.retry_after = retry_after
        self.request = request
        self.attempts = attempts

    @property
    def message(self) -> str:
        """What the server said, without the request."""
        return self._message


class BadRequest(ApiError):
    code = 400


class Unauthorized(ApiError):
    """401, after the credentials were renewed once."""

    code = 401


class Forbidden(ApiError):
    code = 403


class NotFound(ApiError):
    """404: the object or its kind does not exist."""

    code = 404


class AlreadyExists(ApiError):
    """409 with reason AlreadyExists."""

    code = 409


class Conflict(ApiError):
    """409 with any other reason: the version or the owner of a field is not the expected one."""

    code = 409


class Gone(ApiError):
    """410, reason Expired or Gone; also a resource version that the server has not reached yet."""

    code = 410


class TooLarge(ApiError):
    code = 413


class Invalid(ApiError):
    """422; see `causes`."""

    code = 422


class TooManyRequests(ApiError):
    """429, after the retries were used up."""

    code = 429


class ServerError(ApiError):
    """500 and above."""

    code = 500


class TransportError(KubernetesError):
    """No complete answer was received."""


class Unreachable(TransportError):
    """The connection could not be opened, so nothing was sent."""


class ConnectionLost(TransportError):
    """The connection broke after the request may have been sent."""


class RequestTimeout(TransportError):
    """No answer within the request's limit."""


class OutputTooLarge(TransportError):
    """The server sent more than the caller wants to hold. The rest was not read."""


class NotLeading(TransportError):
    """Not sent: this replica does not hold the lease, or the lease may have expired."""


class LeadershipLost(KubernetesError):
    """This replica no longer leads. The process ends; a new process can take part in the next election."""


class DecodeError(KubernetesError):
    """The body of an answer, or an object of a list, does not fit its model."""


class ConfigurationError(KubernetesError):
    """A kubeconfig, a credential or an option is wrong; the message says which and why."""


class NoClusterError(ConfigurationError):
    """Nothing says which cluster: no file, no variable, no service account."""


class CertificateError(KubernetesError):
    """A certificate and its key cannot be loaded or do not match. The previous pair stays in use."""


class TokenRefused(KubernetesError):
    """A bearer token is not valid. The message says why and does not contain the token."""


class TokensUnavailable(KubernetesError):
    """A bearer token cannot be checked now, so it is neither valid nor invalid."""


class CacheError(KubernetesError):
    """The cache cannot answer this read."""


class NotCached(CacheError):
    """No informer was declared for this kind and scope."""


class NotSynced(CacheError):
    """The first list of the informer has not arrived yet."""


class NotControlled(KubernetesError):
    """An object of the wanted name exists and has another controller. It was not changed."""


class Terminal(KubernetesError):
    """Raised by a reconciler when a retry cannot help. The key is not retried until a watched object changes."""


_BY_CODE: dict[int, type[ApiError]] = {
    kind.code: kind
    for kind in (BadRequest, Unauthorized, Forbidden, NotFound, Conflict, Gone, TooLarge, Invalid, TooManyRequests)
}


def is_namespace_ending(error: Exception) -> bool:
    """Whether a creation was refused because the namespace is being deleted, so that a retry is in vain."""
    return isinstance(error, Forbidden) and any(cause.reason == "NamespaceTerminating" for cause in error.causes)


def reason_of(error: OSError) -> str:
    """The system's words for what went wrong with a connection; asyncio puts the address before them."""
    if isinstance(error, ssl.SSLError) or error.errno is None:
        return str(error) or type(error).__name__
    if error.errno not in errno.errorcode:  # of the resolver
        return error.strerror or str(error)
    return os.strerror(error.errno)


def error_type(code: int, reason: str, causes: tuple[ErrorCause, ...]) -> type[ApiError]:
    """The exception for the HTTP status, the reason and the causes of an answer."""
    if code == 409 and reason == "AlreadyExists":
        return AlreadyExists
    if {"Expired", "Gone", "ResourceVersionTooLarge"} & {reason, *(cause.reason for cause in causes)}:
        return Gone
    return _BY_CODE.get(code) or (ServerError if code >= 500 else ApiError)
