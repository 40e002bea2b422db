# SPDX-License-Identifier: Apache-2.0
"""Mode B: what a pod's document says about names and paths, said for a process of this machine.

In the values of variables, in command and arguments, names of the job's pods become 127.0.0.1, and mount paths become
the folders of the volumes. The object is never changed. Names and paths that a program puts together itself are missed;
mode A has no such limit.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

LOCALHOST = "127.0.0.1"


@dataclass(slots=True)
class Rewriter:
    """Replaces names and paths, and remembers what it replaced, so that it can be logged once."""

    names: re.Pattern[str] | None
    """Finds the names of pods; None: none are replaced."""
    folders: Mapping[str, str]
    """Folder on this machine by mount path."""
    replaced: dict[str, str] = field(default_factory=dict)
    """What was replaced so far, by its original."""
    _paths: re.Pattern[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        mounted = sorted((_normal(path) for path in self.folders), key=len, reverse=True)
        self.folders = {_normal(path): folder for path, folder in self.folders.items()}
        if mounted := [path for path in mounted if path != "/"]:
            # A path begins where no longer path or word goes on before it (`s3://bucket/data` holds no `/data`), and
            # ends at a slash or where no name goes on.
            start = r"(?:(?<=file://)|(?<![\w./~@+-]))"
            self._paths = re.compile(rf"{start}(?:{'|'.join(map(re.escape, mounted))})(?=/|[^\w.-]|\.?$|\.\s)")

    def text(self, value: str) -> str:
        """One value with everything replaced."""
        if self._paths is not None:
            value = self._paths.sub(self._folder, value)
        if self.names is not None:
            value = self.names.sub(self._address, value)
        return value

    def texts(self, values: Iterable[str]) -> list[str]:
        """All values, in order."""
        return [self.text(value) for value in values]

    def variables(self, values: Mapping[str, str]) -> dict[str, str]:
        """All variables; the names stay."""
        return {name: self.text(value) for name, value in values.items()}

    def path(self, path: str) -> str | None:
        """The folder of a path that is mounted or lies in a mount; None: it lies in none."""
        path = _normal(path)
        for mounted in sorted(self.folders, key=len, reverse=True):
            if path == mounted or path.startswith(mounted.rstrip("/") + "/"):
                return self.folders[mounted] + path[len(mounted.rstrip("/")) :]
        return None

    def _folder(self, match: re.Match[str]) -> str:
        return self._note(match[0], self.folders[match[0]])

    def _address(self, match: re.Match[str]) -> str:
        return self._note(match[0], LOCALHOST)

    def _note(self, old: str, new: str) -> str:
        self.replaced.setdefault(old, new)
        return new


def _normal(path: str) -> str:
    return "/" + "/".join(part for part in path.split("/") if part not in {"", "."})
