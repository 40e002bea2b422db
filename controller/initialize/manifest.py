# SPDX-License-Identifier: Apache-2.0
"""The marker of a complete folder: what lies in it, and where it came from. It is written last."""

import contextlib
import json
import os
from collections.abc import Iterable, Sequence
from typing import Self

import msgspec

from trainwright.controller.initialize.contract import InitializeError, RemoteFile
from trainwright.controller.initialize.folder import Folder
from trainwright.controller.initialize.selection import OWN, bad_name

MANIFEST = f"{OWN}/manifest.json"
OWNED = f"{OWN}/owned.json"
"""Files that earlier runs have fetched and that may lie in the target while it is not complete."""
FINISHED = f"{OWN}/finished.jsonl"
"""The files that are finished while others are not: the source, then a line for each."""
VERSION = 1


class ManifestEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a complete folder."""

    path: str
    size: int
    hash: str
    """Algorithm, colon, hex."""
    mtime: int
    """Nanoseconds."""
    identity: str = ""
    """What the source said about the content: its hash, or an etag."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a complete folder holds."""

    version: int
    source: str
    revision: str
    allow: tuple[str, ...]
    ignore: tuple[str, ...]
    files: tuple[ManifestEntry, ...]
    in_place: bool = False
    """The folder was its own source: no file was fetched, so none is ours to delete."""

    def is_of(self, source: str, allow: Sequence[str], ignore: Sequence[str]) -> bool:
        """Whether it was made for this source with these patterns."""
        return (self.source, self.allow, self.ignore) == (source, tuple(allow), tuple(ignore))

    def is_of_files(self, files: Iterable[RemoteFile]) -> bool:
        """Whether a source without revisions still lists the same. A file without an etag may have changed."""
        mine = {(entry.path, entry.size, entry.identity) for entry in self.files}
        return all(entry.identity for entry in self.files) and mine == {(f.path, f.size, f.identity) for f in files}

    def is_intact(self, folder: Folder) -> bool:
        """Whether all files have the size and the time that they had at the end."""
        return all(is_untouched(folder, entry) for entry in self.files)


def is_untouched(folder: Folder, entry: ManifestEntry) -> bool:
    """Whether a file has the size and the time that it had at the end."""
    try:
        state = folder.state(entry.path)
    except InitializeError:
        return False
    return state is not None and (state.st_size, state.st_mtime_ns) == (entry.size, entry.mtime)


def read_manifest(folder: Folder) -> Manifest | None:
    """The marker; None: there is none that this version understands."""
    data = folder.read(MANIFEST)
    if data is None:
        return None
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if manifest.version != VERSION or any(bad_name(entry.path) for entry in manifest.files):
        return None
    return manifest


def write_manifest(folder: Folder, manifest: Manifest) -> None:
    """Mark the folder as complete."""
    folder.write(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
    folder.remove(OWNED)
    folder.remove(FINISHED)


def begin(folder: Folder, old: Manifest | None, fetched: Iterable[ManifestEntry]) -> dict[str, ManifestEntry]:
    """Unmark the folder, after noting which files earlier runs have fetched. Returns these by path."""
    complete = old.files if old is not None and not old.in_place else ()
    ours = {entry.path: entry for entry in (*owned(folder), *complete, *fetched)}
    folder.write(OWNED, msgspec.json.encode([ours[path] for path in sorted(ours)]))
    folder.remove(MANIFEST)
    return ours


def owned(folder: Folder) -> list[ManifestEntry]:
    """Files that earlier unfinished runs noted."""
    try:
        noted = msgspec.json.decode(folder.read(OWNED) or b"[]", type=list[ManifestEntry])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    return [entry for entry in noted if not bad_name(entry.path)]


class Finished:
    """Files that are finished before all are. A later run keeps them, also those without a hash, and hashes none again.

    Use it as a context manager, and call `begin` before `add`.
    """

    def __init__(self, folder: Folder, source: str) -> None:
        self._folder = folder
        self._head = json.dumps(source).encode()
        first, *lines = (folder.read(FINISHED) or b"").split(b"\n")
        self._goes_on = first == self._head
        self.fetched: dict[str, ManifestEntry] = {}
        """Of the last run that did not end, whatever its source was."""
        for line in lines:
            # A kill may have cut the last one.
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                entry = msgspec.json.decode(line, type=ManifestEntry)
                if not bad_name(entry.path):
                    self.fetched[entry.path] = entry
        self.entries = self.fetched if self._goes_on else {}
        """Of this source."""
        self._descriptor = -1

    def begin(self) -> None:
        """Open the file for `add`. What another source left in it is dropped: `OWNED` has it by now."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (0 if self._goes_on else os.O_TRUNC)
        self._descriptor = self._folder.open(FINISHED, flags, create=True)
        # A line feed first: what is cut stays a line of its own.
        os.write(self._descriptor, b"\n" if self._goes_on else self._head + b"\n")

    def add(self, entry: ManifestEntry) -> None:
        """Note a file."""
        os.write(self._descriptor, msgspec.json.encode(entry) + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
