# SPDX-License-Identifier: Apache-2.0
"""`s3://bucket/prefix`: objects of a storage that speaks the protocol of Amazon S3.

OpenDAL signs, lists and finds credentials, as in the initializers of Kubeflow Trainer, so the same chain of credentials
works. Each request for a piece of an object names the ETag of the listing, so an object that is replaced meanwhile is
never mixed with its successor.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ClassVar, TypeVar
from urllib.parse import urlsplit

from trainwright.api.extras import install
from trainwright.controller.initialize.contract import Digest, InitializeError, ProviderRequest, RemoteFile

if TYPE_CHECKING:
    from opendal import Operator
    from opendal.types import Metadata

T = TypeVar("T")
_ENDPOINTS = ("ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("REGION", "AWS_REGION", "AWS_DEFAULT_REGION")
_DEFAULT_REGION = "us-east-1"
_KINDS = {
    "NotFound": ("NotFound", "{host} has no {what}"),
    "ConditionNotMatch": ("Damaged", "{what} was changed in {bucket} in the meantime"),
    "RangeNotSatisfied": ("Damaged", "{host} has fewer bytes of {what} than it listed"),
}
"""By the class of OpenDAL's error."""
PIECE = 2**22
"""Bytes of one request, which are in memory at once for each connection."""
REQUEST_SECONDS = 30.0
_BUCKET = re.compile(r"[A-Za-z0-9][\w.-]{1,254}")
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
"""The ETag of an object that was uploaded in one part. With several parts, their number follows."""
_REFUSED = frozenset(
    {"ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch", "XAdminUserNotFound"}
)
_NO_CREDENTIALS = "failed to load signing credential"
_BUSY = frozenset({"RequestLimitExceeded", "SlowDown", "TooManyRequests"})


class ObjectStorage:
    """Reads the objects of a bucket below a prefix."""

    variables: ClassVar[Sequence[str]] = (
        *_ENDPOINTS,
        *_REGIONS,
        "ACCESS_KEY_ID",
        "SECRET_ACCESS_KEY",
        "ROLE_ARN",
        "AWS_CA_BUNDLE",
    )
    secrets: ClassVar[Sequence[str]] = ("SECRET_ACCESS_KEY",)

    def __init__(self, request: ProviderRequest) -> None:
        bucket, _, self._prefix = request.address.partition("://")[2].partition("/")
        if not _BUCKET.fullmatch(bucket):
            raise InitializeError("WrongAddress", f"{request.address} names no bucket: write s3://bucket/prefix")
        self._variables = request.variables
        endpoint = self._first(_ENDPOINTS).rstrip("/")
        try:
            parts = urlsplit(endpoint)
            host = parts.hostname or ""
        except ValueError:
            parts, host = urlsplit(""), ""
        if endpoint and (parts.scheme not in ("http", "https") or not host):
            raise InitializeError("WrongAddress", f"ENDPOINT is {endpoint}: it must be https://host")
        if bool(self._first(("ACCESS_KEY_ID",))) != bool(self._first(("SECRET_ACCESS_KEY",))):
            raise InitializeError("TokenMissing", "set both ACCESS_KEY_ID and SECRET_ACCESS_KEY, or none of them")
        self._bucket = bucket
        self._kind = request.kind
        self._warn = request.warn
        self._name = f"s3://{bucket}/{self._prefix}"
        self._host = host or "Amazon S3"
        self._region = self._first(_REGIONS) or _DEFAULT_REGION
        self._connections = request.connections
        self._at_once = 1
        # Threads and not OpenDAL's coroutines: their runtime aborts the process if it ends at the wrong moment.
        self._threads = ThreadPoolExecutor(request.connections, thread_name_prefix="s3")
        self._is_unsigned = False
        self._endpoint = endpoint
        self._trust()
        self._operator = self._made()
        self.source = f"{self._name} of {endpoint}" if endpoint else self._name
        self.allow: Sequence[str] = ()

    async def resolve(self) -> str:
        """A bucket has no revision: sizes and ETags tell what changed."""
        return ""

    async def files(self, revision: str) -> Sequence[RemoteFile]:  # noqa: ARG002 - there is one
        """The objects below the prefix, and the one of that name."""
        files = await self._do(self._name, self._files)
        # Few large objects come in several ranges at once.
        self._at_once = max(1, self._connections // max(1, len(files)))
        return files

    def _files(self) -> list[RemoteFile]:
        prefix = self._prefix.rstrip("/")
        if not prefix:
            return self._listed("", cut=0)
        files = self._listed(f"{prefix}/", cut=len(prefix) + 1)
        if self._prefix.endswith("/"):
            return files
        files += self._object(prefix)
        if not files and (files := self._listed(prefix, cut=len(prefix))):
            # `shards/train-` is a prefix and not a folder. Kubeflow Trainer accepts it, with the same names.
            self._warn(f"warning: no object is at or below {self._name}: taking those whose keys begin with it")
        return files

    def _listed(self, start: str, *, cut: int) -> list[RemoteFile]:
        """The objects whose keys begin with `start`, named by what follows the first `cut` letters."""
        return [
            _file(entry.path, entry.path[cut:], entry.metadata)
            for entry in self._operator.list(start, recursive=True)
            if not entry.path.endswith("/")
        ]

    def _object(self, key: str) -> list[RemoteFile]:
        try:
            found = self._operator.stat(key)
        except Exception as error:
            if type(error).__name__ == "NotFound":
                return []
            raise
        return [_file(key, key.rpartition("/")[2], found)]

    async def read(self, file: RemoteFile, revision: str, offset: int) -> AsyncGenerator[bytes, None]:  # noqa: ARG002
        """The bytes of an object, as long as it is the one that was listed."""
        while offset < file.size:
            start, size = offset, min(PIECE * self._at_once, file.size - offset)
            data = await self._do(file.path, lambda: self._piece(file, start, size))  # noqa: B023 - awaited at once
            if not data:
                return
            yield data
            offset += len(data)

    def _piece(self, file: RemoteFile, offset: int, size: int) -> bytes:
        return self._operator.read(
            file.pattern_name,
            offset=offset,
            size=size,
            if_match=file.etag or None,
            concurrent=self._at_once,
            chunk=PIECE if self._at_once > 1 else None,
        )

    async def close(self) -> None:
        """Drop what has not begun. OpenDAL closes its connections itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _do(self, what: str, action: Callable[[], T]) -> T:
        def run() -> T | InitializeError:
            try:
                try:
                    return action()
                except Exception as error:
                    if self._is_unsigned or _NO_CREDENTIALS not in str(error):
                        raise
                self._is_unsigned = True
                self._warn(f"there is no key for {self._name}: requests are not signed, as for public buckets")
                self._operator = self._made()
                return action()
            except Exception as error:  # OpenDAL's errors have no other common base
                # Raised by the caller: a traceback that leaves this thread takes a lister along, which must not.
                return self._failure(error, what)

        done = await asyncio.get_running_loop().run_in_executor(self._threads, run)
        if isinstance(done, InitializeError):
            raise done
        return done

    def _failure(self, error: Exception, what: str) -> InitializeError:  # noqa: PLR0911 - one for each reason
        """What OpenDAL's error means. Its text has the answer of the server."""
        kind, text = type(error).__name__, str(error).partition("Backtrace:")[0]
        code = _found(r'code: "([^"]*)"', text)
        status = _found(r"status: (\d+)", text)
        if code in _REFUSED:
            names = "ACCESS_KEY_ID and SECRET_ACCESS_KEY" if self._first(("ACCESS_KEY_ID",)) else "the AWS variables"
            return InitializeError("TokenRefused", f"{self._host} does not accept the key in {names} ({code})")
        if code == "NoSuchBucket":
            return InitializeError("NotFound", f"there is no bucket {self._bucket} on {self._host}")
        if region := _found(r'expecting \\?"([\w-]+)', text):
            return InitializeError("WrongSetting", f"{self._bucket} is in region {region}: set REGION to it")
        if status == "301" or code in ("AuthorizationHeaderMalformed", "PermanentRedirect"):
            return InitializeError("WrongSetting", f"{self._bucket} is not in region {self._region}: set REGION")
        if kind == "PermissionDenied" or status in ("401", "403"):
            return self._denied(what)
        if kind in _KINDS:
            word, sentence = _KINDS[kind]
            return InitializeError(word, sentence.format(what=what, bucket=self._bucket, host=self._host))
        if kind == "RateLimited" or code in _BUSY or status == "429":
            return InitializeError("TooManyRequests", f"{self._host} has too many requests", retry=True)
        if status:
            retry = status.startswith("5") or "(temporary)" in text
            return InitializeError("ServerError", f"{self._host} answers {status} {code} for {what}", retry=retry)
        return self._unreachable(text, what)

    def _unreachable(self, text: str, what: str) -> InitializeError:
        """Why there is no answer at all."""
        if "timeout" in text:
            return InitializeError("Unreachable", f"{self._host} sends nothing within the time limit", retry=True)
        if "certificate" in text:
            return InitializeError(
                "Unreachable", f"the certificate of {self._host} is not trusted: set SSL_CERT_FILE or AWS_CA_BUNDLE"
            )
        if "(temporary)" in text:
            reason = "name not found" if "dns error" in text else _found(r"([\w ]+) \(os error", text).strip()
            return InitializeError(
                "Unreachable", f"{self._host} does not answer ({reason or 'the connection broke off'})", retry=True
            )
        return InitializeError("ServerError", f"{what} cannot be read: {' '.join(text.split())[:200]}")

    def _denied(self, what: str) -> InitializeError:
        if self._is_unsigned:
            return InitializeError(
                "TokenMissing",
                f"{self._name} needs a key: put ACCESS_KEY_ID and SECRET_ACCESS_KEY into a Secret and name it in "
                f"spec.initializer.{self._kind}.secretRef",
            )
        return InitializeError("AccessNotGranted", f"{self._host} refuses {what}: this key has no right to read it")

    def _first(self, names: Sequence[str]) -> str:
        return next((self._variables[name] for name in names if self._variables.get(name)), "")

    def _trust(self) -> None:
        if (bundle := self._first(("AWS_CA_BUNDLE",))) and not os.environ.get("SSL_CERT_FILE"):
            # The name by which OpenDAL's TLS library knows it.
            os.environ["SSL_CERT_FILE"] = bundle

    def _made(self) -> "Operator":
        try:
            from opendal import Operator  # noqa: PLC0415 - an extra
            from opendal.layers import TimeoutLayer  # noqa: PLC0415
        except ImportError:
            raise InitializeError("UnknownScheme", f"s3:// needs opendal: {install(['opendal'])}") from None
        options = {
            "endpoint": self._endpoint,
            "access_key_id": self._first(("ACCESS_KEY_ID",)),
            "secret_access_key": self._first(("SECRET_ACCESS_KEY",)),
            "role_arn": self._first(("ROLE_ARN",)),
        }
        given = {name: value for name, value in options.items() if value}
        if self._is_unsigned:
            given["skip_signature"] = "true"
        try:
            operator = Operator("s3", bucket=self._bucket, region=self._region, **given)
        except Exception as error:
            raise InitializeError("WrongSetting", f"the settings of {self._name} are refused: {error}") from None
        return operator.layer(TimeoutLayer(timeout=REQUEST_SECONDS, io_timeout=REQUEST_SECONDS))


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match[1] if match else ""


def _file(key: str, path: str, found: "Metadata") -> RemoteFile:
    etag = found.etag or ""
    match = _MD5.fullmatch(etag)
    return RemoteFile(path, found.content_length, Digest("md5", match[1]) if match else None, etag, pattern_name=key)
