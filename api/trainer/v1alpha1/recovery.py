# SPDX-License-Identifier: Apache-2.0
"""What the annotations of a TrainJob and of its runtime say about its recovery from failures.

An annotation of the TrainJob takes precedence over that of the runtime, and that over the Configuration. A value that
cannot be used counts as not set.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from trainwright.api.config.v1alpha1 import Recovery
from trainwright.api.trainer.v1alpha1 import progress
from trainwright.api.trainer.v1alpha1.constants import (
    ANNOTATION_CHECKPOINTS,
    ANNOTATION_EXIT_CODES,
    ANNOTATION_RECOVERY,
    ANNOTATION_RETRIES,
    RECOVERY_GANG,
    RECOVERY_NONE,
)
from trainwright.api.trainer.v1alpha1.progress import Problem, Readers, one_of, read_by

MOST_RETRIES = 100
CANNOT_RUN = (126, 127)
"""Exit codes of shells for a program that they cannot run. A retry does not change that."""
_NO_PARENT = r"(?!.*(?:^|/)[.][.](?:/|$))"
_CLAIM = re.compile(r"pvc://([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)((?:/(?![.][.](?:/|$))[^/\s]+)*/?)")
_PATH = re.compile(rf"{_NO_PARENT}/[^\x00-\x1f]*")
_ADDRESS = re.compile(r"(?!pvc:)[a-z][a-z0-9+.-]*://[^\s]+")
_DIGITS = 9
_FREE, _FINAL = "free", "final"
"""An exit code that charges no retry, and one that ends the job at once."""


@dataclass(frozen=True)
class Allowed:
    """What an administrator sets in the section `recovery` of the Configuration."""

    default_retries: int = 3
    """For jobs that do not say."""
    max_retries: int = MOST_RETRIES
    """That a job may ask for."""
    retries_memory: int = 1
    retries_infrastructure: int = 50
    retries_hang: int = 2
    avoid_nodes: bool = False

    @classmethod
    def of(cls, section: Recovery) -> "Allowed":
        """By the section, with the defaults of its schema for what it leaves out."""
        return cls(**{name: value for name, value in msgspec.structs.asdict(section).items() if value is not None})


@dataclass(frozen=True)
class Declaration:
    """How a job recovers."""

    mode: str = RECOVERY_NONE
    retries: int = Allowed.default_retries
    no_retry: tuple[int, ...] = ()
    """Exit codes, ascending."""
    free: tuple[int, ...] = ()
    """Exit codes, ascending."""
    memory: int = Allowed.retries_memory
    infrastructure: int = Allowed.retries_infrastructure
    hang: int = Allowed.retries_hang
    checkpoints: str = ""
    """Where checkpoints are kept; empty: the job says nothing of it."""
    restarts_stalled: bool = False
    """Whether ranks that stand still are restarted, not only shown."""
    avoids_nodes: bool = False
    """Whether the next attempt avoids a node that fails again and again."""
    is_trial: bool = False
    """Whether the job is a trial of a search, whose user runs no job of its own."""

    @property
    def is_gang(self) -> bool:
        """Whether all ranks restart together."""
        return self.mode == RECOVERY_GANG


def declared(
    job: Mapping[str, str], runtime: Mapping[str, str], allowed: Allowed
) -> tuple[Declaration, tuple[Problem, ...]]:
    """The declaration in the annotations of a TrainJob and of its runtime, and every value that cannot be used."""
    fields, problems = read_by(_READERS, job, runtime)
    asked = fields.get("retries", 0)
    if asked > allowed.max_retries:
        of_job = ANNOTATION_RETRIES in job
        text = f"must be at most {allowed.max_retries}, by the administrator's Configuration"
        problems.append(Problem(ANNOTATION_RETRIES, (job if of_job else runtime)[ANNOTATION_RETRIES], text, of_job))
        del fields["retries"]
    codes: Mapping[int, str] = fields.pop("codes", {})
    retries = fields.get("retries")
    # A job that names its retries has so many, whatever the cause.
    budgets: dict[str, Any] = {
        "retries": allowed.default_retries,
        "memory": allowed.retries_memory if retries is None else retries,
        "infrastructure": max(allowed.retries_infrastructure, retries or 0),
        "hang": allowed.retries_hang if retries is None else retries,
    }
    found = Declaration(
        **budgets | fields,
        no_retry=tuple(code for code, meaning in codes.items() if meaning == _FINAL),
        free=tuple(code for code, meaning in codes.items() if meaning == _FREE),
        restarts_stalled=progress.declared(job, runtime)[0].stall_after is not None,
        avoids_nodes=allowed.avoid_nodes,
    )
    return found, tuple(problems)


def named(annotations: Mapping[str, str]) -> list[str]:
    """The annotations about recovery that are set."""
    return [name for name in _READERS if name in annotations]


def late_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterable[str]:
    """Warnings about annotations that have changed after the creation of the job."""
    for name in _READERS:
        if old.get(name) != new.get(name):
            yield (
                f"the change of annotation {name} has no effect on this TrainJob: the rules of its JobSet are fixed "
                "once it exists; delete the TrainJob and create it again"
            )


def _place(text: str) -> str:
    if _CLAIM.fullmatch(text) or _ADDRESS.fullmatch(text) or _PATH.fullmatch(text):
        return text
    raise ValueError("must be pvc://CLAIM/PATH, an absolute path or an address")


def claim_of(place: str) -> tuple[str, str] | None:
    """The claim and the folder in it that a place of checkpoints names; None for a path or an address."""
    found = _CLAIM.fullmatch(place)
    return (found[1], (found[2] or "").strip("/")) if found is not None else None


def _retries(text: str) -> int:
    number = int(text) if _is_number(text) else -1
    if not 0 <= number <= MOST_RETRIES:
        raise ValueError(f"must be a whole number from 0 to {MOST_RETRIES}")
    return number


def _codes(text: str) -> dict[int, str]:
    """What each code means, in the order of the codes."""
    found: dict[int, str] = {}
    for part in text.split(","):
        number, _, meaning = (one.strip() for one in part.partition("="))
        code = int(number) if _is_number(number) else -1
        if code == 0:
            raise ValueError("0 is success; must be numbers from 1 to 255")
        if code not in range(1, 256) or meaning not in (_FREE, _FINAL):
            raise ValueError(f"must be codes from 1 to 255 with {_FREE} or {_FINAL}, such as 75={_FREE},3={_FINAL}")
        if code in found:
            raise ValueError(f"{code} is named twice")
        if code in CANNOT_RUN and meaning == _FREE:
            raise ValueError(f"{code} is the exit code of a program that cannot run, which always ends the job")
        found[code] = meaning
    return dict(sorted(found.items()))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


_READERS: Readers = {
    ANNOTATION_RECOVERY: ("mode", one_of(RECOVERY_NONE, RECOVERY_GANG)),
    ANNOTATION_RETRIES: ("retries", _retries),
    ANNOTATION_EXIT_CODES: ("codes", _codes),
    ANNOTATION_CHECKPOINTS: ("checkpoints", _place),
}
