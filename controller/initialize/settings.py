# SPDX-License-Identifier: Apache-2.0
"""What one run of an initializer is told by its variables and options."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainwright.controller.initialize.contract import InitializeError, Kind

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
    """Whether this container has no network."""

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
