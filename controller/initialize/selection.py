# SPDX-License-Identifier: Apache-2.0
"""What a run asks for: its settings, which files of a source come, and whether their names are safe to write."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from trainwright.controller.initialize.contract import InitializeError, Kind, RemoteFile

OWN = ".trainwright"
"""Our folder in the target; no source may write into it."""
WEIGHTS = ("*.safetensors", "*.gguf")
PICKLES = ("*.bin", "*.pt", "*.pth", "*.h5", "*.msgpack", "*.ckpt")
_DRIVE = re.compile(r"[A-Za-z]:")
_NAME_BYTES = 255


def select(files: Iterable[RemoteFile], allow: Sequence[str], ignore: Sequence[str]) -> list[RemoteFile]:
    """The files that match a pattern of `allow` (empty: all) and none of `ignore`."""
    return [
        file
        for file in files
        if (not allow or matches(file.pattern_name or file.path, allow))
        and not matches(file.pattern_name or file.path, ignore)
    ]


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern fits. `*` crosses `/`, and `sub/` means all below, as for huggingface_hub."""
    return any(fnmatchcase(name, f"{pattern}*" if pattern.endswith("/") else pattern) for pattern in patterns)


def check_names(files: Sequence[RemoteFile]) -> None:
    """Refuse names that lead out of the target or that meet on some file system. Raises InitializeError."""
    known: dict[str, tuple[str, bool]] = {}
    for file in files:
        if reason := bad_name(file.path):
            raise InitializeError("BadName", f"the source has a file {file.path!r}, whose name is refused: {reason}")
        parts = file.path.split("/")
        for end in range(1, len(parts) + 1):
            here = ("/".join(parts[:end]), end == len(parts))
            before = known.setdefault(_folded(here[0]), here)
            # A folder may come again, under the same spelling; a file may not.
            if before != here or (here[1] and before is not here):
                raise InitializeError(
                    "BadName", f"the source has {before[0]!r} and {file.path!r}, which cannot be beside each other"
                )


def bad_name(path: str) -> str:  # noqa: PLR0911 - one for each reason
    """Why a relative path is refused; empty if it is not."""
    if not path or path.startswith("/"):
        return "it is not relative"
    if "\\" in path:
        return "it has a backslash"
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in path):
        return "it has a control character"
    if _DRIVE.match(path):
        return "it begins with a drive"
    for part in path.split("/"):
        if part in ("", ".", ".."):
            return f"it has the part {part!r}"
        try:
            if len(part.encode()) > _NAME_BYTES:
                return f"a part has more than {_NAME_BYTES} bytes"
        except UnicodeEncodeError:
            return "it is not Unicode"
    if _folded(path.partition("/")[0]) == OWN:
        return f"{OWN} is the folder of the initializer"
    return ""


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def advice_on_weights(chosen: Sequence[RemoteFile], offered: Sequence[RemoteFile]) -> str:
    """What to tell the user of a model that comes without weights; empty if there is nothing to tell."""
    if any(matches(file.path, WEIGHTS) for file in chosen):
        return ""
    others = sorted({f"*.{file.path.rpartition('.')[2]}" for file in offered if matches(file.path, PICKLES)})
    if not others:
        return "no file with weights comes: the source has none that is known as such"
    return (
        f"no file with weights comes; the source has {', '.join(others)}: name them in ALLOW_PATTERNS if you trust them"
    )


CONNECTIONS = "TRAINWRIGHT_CONNECTIONS"
SPACE_CHECK = "TRAINWRIGHT_SPACE_CHECK"
VERIFY = "TRAINWRIGHT_VERIFY"
DEFAULT_CONNECTIONS = 8
MOST_CONNECTIONS = 64
TARGETS: Mapping[Kind, str] = {"dataset": "/workspace/dataset", "model": "/workspace/model"}


@dataclass(frozen=True, slots=True)
class Settings:
    """One run, before its provider is known."""

    kind: Kind
    address: str
    target: Path
    allow: tuple[str, ...]
    ignore: tuple[str, ...]
    connections: int
    checks_space: bool
    verifies: bool
    """Whether files that look untouched are hashed too, before a folder counts as complete."""

    @property
    def scheme(self) -> str:
        """The scheme of the address, in lower case."""
        return self.address.partition("://")[0].lower()


def settings_of(
    kind: Kind, variables: Mapping[str, str], *, address: str | None = None, target: str | None = None
) -> Settings:
    """Read the variables; options that are given win. Raises InitializeError."""
    given = (address if address is not None else variables.get("STORAGE_URI", "")).strip()
    if not given:
        raise InitializeError("WrongAddress", f"STORAGE_URI is empty: set spec.initializer.{kind}.storageUri")
    if not given.partition("://")[1] or not given.partition("://")[0]:
        raise InitializeError("WrongAddress", f"{given} is not an address: write scheme://, such as hf://owner/name")
    folder = target or variables.get("OUTPUT_PATH") or TARGETS[kind]
    return Settings(
        kind=kind,
        address=given,
        target=Path(folder),
        allow=patterns_in(variables.get("ALLOW_PATTERNS", "")),
        ignore=patterns_in(variables.get("IGNORE_PATTERNS", "")),
        connections=_connections(variables.get(CONNECTIONS, "")),
        checks_space=_is_on(variables, SPACE_CHECK, unset="on"),
        verifies=_is_on(variables, VERIFY, unset="off"),
    )


def patterns_in(text: str) -> tuple[str, ...]:
    """The patterns of a comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _connections(text: str) -> int:
    if not text.strip():
        return DEFAULT_CONNECTIONS
    if not text.strip().isdecimal() or not 1 <= int(text) <= MOST_CONNECTIONS:
        raise InitializeError("WrongSetting", f"{CONNECTIONS} must be from 1 to {MOST_CONNECTIONS}, not {text}")
    return int(text)


def _is_on(variables: Mapping[str, str], name: str, *, unset: str) -> bool:
    text = variables.get(name, "")
    word = text.strip().lower() or unset
    if word not in ("on", "off"):
        raise InitializeError("WrongSetting", f"{name} must be on or off, not {text}")
    return word == "on"
