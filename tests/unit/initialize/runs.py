# SPDX-License-Identifier: Apache-2.0
"""Runs of initializers in this process, without waiting."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainwright.controller.initialize.contract import InitializeError, Kind, ProviderRequest
from trainwright.controller.initialize.folder import PARTS
from trainwright.controller.initialize.providers import provider_class
from trainwright.controller.initialize.reports import Progress
from trainwright.controller.initialize.run import Run
from trainwright.controller.initialize.selection import settings_of


@dataclass
class Outcome:
    lines: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    error: InitializeError | None = None
    progress: Progress | None = None

    @property
    def word(self) -> str:
        return self.error.word if self.error else ""

    @property
    def sentence(self) -> str:
        return self.error.sentence if self.error else ""

    def said(self, text: str) -> bool:
        return any(text in line for line in self.lines)


def part_of_the_largest(target: Path) -> Path:
    """What there is of the largest file. Smaller ones may have been on their way, too, when the run ended."""
    return max((target / PARTS).iterdir(), key=lambda part: part.stat().st_size)


async def initialize(
    address: str,
    target: Path,
    kind: Kind = "model",
    variables: Mapping[str, str] | None = None,
    *,
    dry_run: bool = False,
) -> Outcome:
    """One run; pauses between tries are noted, and take no time."""
    outcome = Outcome()
    variables = variables or {}

    async def sleep(seconds: float) -> None:
        outcome.pauses.append(seconds)
        await asyncio.sleep(0)  # another run may be what is waited for

    try:
        settings = settings_of(kind, variables, address=address, target=str(target))
        known = provider_class(settings.scheme)
        request = ProviderRequest(
            kind=kind,
            address=settings.address,
            target=target,
            variables={name: variables[name] for name in known.variables if variables.get(name)},
            connections=settings.connections,
            warn=outcome.lines.append,
        )
        outcome.progress = Progress(kind, outcome.lines.append)
        run = Run(settings, known(request), progress=outcome.progress, log=outcome.lines.append, sleep=sleep)
        await run.initialize(dry_run=dry_run)
    except InitializeError as error:
        outcome.error = error
    return outcome


def tree(target: Path) -> dict[str, bytes]:
    """What users see in a target."""
    return {
        path.relative_to(target).as_posix(): path.read_bytes()
        for path in sorted(target.rglob("*"))
        if path.is_file() and ".trainwright" not in path.parts
    }
