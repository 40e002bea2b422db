# SPDX-License-Identifier: Apache-2.0
"""What a provider of one scheme gives to the core, and what it may rely on."""

import hashlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

Kind: TypeAlias = Literal["dataset", "model"]
Algorithm: TypeAlias = Literal["sha256", "git", "md5"]
WAITING_HELPS = frozenset({"Unreachable", "TooManyRequests", "ServerError"})
"""Words of errors that say nothing about the model or data set: a complete folder stays valid."""


class InitializeError(Exception):
    """Something that a user can mend: a word for programs and one sentence for people.

    `retry` says whether the same request may work later, and `after` how many seconds later, if the server said so.
    """

    def __init__(self, word: str, sentence: str, *, retry: bool = False, after: float | None = None) -> None:
        super().__init__(sentence)
        self.word = word
        self.sentence = sentence
        self.retry = retry
        self.after = after


@dataclass(frozen=True, slots=True)
class Digest:
    """The hash that a file must have."""

    algorithm: Algorithm
    """`git` is the SHA-1 of a git blob: a header with the size comes before the bytes. `md5` is the ETag of an object
    storage, which some storages make in another way: if the same other bytes arrive twice, they are taken."""
    hex: str

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.hex}"


def hasher(algorithm: str, size: int) -> "hashlib._Hash":
    """A hash object that has seen what comes before the first byte of the file."""
    if algorithm == "git":
        return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    if algorithm == "md5":
        return hashlib.md5(usedforsecurity=False)
    return hashlib.sha256()


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a model or data set."""

    path: str
    """Relative to the target folder, with `/`. The core refuses paths that lead out of it."""
    size: int
    """The core takes no more bytes than this."""
    digest: Digest | None = None
    etag: str = ""
    """Changes when the content changes. Without it and without a digest, an interrupted file starts again at byte 0."""
    pattern_name: str = ""
    """What patterns are compared with, if not the path."""

    @property
    def identity(self) -> str:
        """What tells this content from another content at the same path; empty if unknown."""
        return str(self.digest) if self.digest else self.etag


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """What is asked of a provider."""

    kind: Kind
    address: str
    """The whole storage URI."""
    target: Path
    variables: Mapping[str, str]
    """Those that the provider declares and that are set. Empty counts as unset."""
    connections: int
    """So many files are read at the same time, at most."""
    warn: Callable[[str], None]
    """Writes a line to the log, without secrets."""


class Provider(Protocol):
    """Reads models and data sets of one scheme. The core makes one for each run.

    Patterns, names, free space, tries, resuming, hashes and the marker are the core's. Errors are InitializeError; the
    constructor checks the address and sends nothing.
    """

    variables: ClassVar[Sequence[str]]
    """Environment variables that the provider reads."""
    secrets: ClassVar[Sequence[str]]
    """Those of them whose values must never be shown."""
    source: str
    """The address without secrets. Two runs with the same source mean the same model or data set."""
    allow: Sequence[str]
    """Patterns of files that come where ALLOW_PATTERNS is not set. Empty means all files."""

    def __init__(self, request: ProviderRequest) -> None: ...

    async def resolve(self) -> str:
        """The exact revision, such as a commit. Empty: the source has none, and only its files tell what changed."""
        ...

    async def files(self, revision: str) -> Sequence[RemoteFile]:
        """All files of the revision."""
        ...

    def read(self, file: RemoteFile, revision: str, offset: int) -> AsyncGenerator[bytes, None]:
        """The bytes of a file from an offset on, in pieces. Ends early or raises if the connection breaks."""
        ...

    async def close(self) -> None:
        """Release connections. Called once, also after errors."""
        ...


ProviderClass: TypeAlias = Callable[[ProviderRequest], Provider]
METHODS = ("resolve", "files", "read", "close")


def missing_parts(provider: Any) -> list[str]:
    """What a class lacks of the contract."""
    lacking = [name for name in METHODS if not callable(getattr(provider, name, None))]
    return lacking + [
        name for name in ("variables", "secrets") if not isinstance(getattr(provider, name, None), Sequence)
    ]
