# SPDX-License-Identifier: Apache-2.0
"""What the annotations of a TrainJob and of its runtime say about its recovery from failures.

An annotation of the TrainJob takes precedence over that of the runtime, and that over the Configuration. A value that
cannot be used counts as not set.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from trainwright.api.trainer.v1alpha1.constants import (
    ANNOTATION_AVOID_NODES,
    ANNOTATION_CHECKPOINTS,
    ANNOTATION_FREE_EXIT_CODES,
    ANNOTATION_NO_RETRY_EXIT_CODES,
    ANNOTATION_ON_STALL,
    ANNOTATION_RECOVERY,
    ANNOTATION_RESUME_FROM,
    ANNOTATION_RETRIES,
    ANNOTATION_RETRIES_HANG,
    ANNOTATION_RETRIES_INFRASTRUCTURE,
    ANNOTATION_RETRIES_MEMORY,
    RECOVERY_GANG,
    RECOVERY_NONE,
)
from trainwright.api.trainer.v1alpha1.progress import Problem, Readers, one_of, read_by

DEFAULT_RETRIES = 3
DEFAULT_RETRIES_MEMORY = 1
DEFAULT_RETRIES_INFRASTRUCTURE = 50
DEFAULT_RETRIES_HANG = 2
MOST_RETRIES = 100
MOST_OF_A_CAUSE = 1000
CANNOT_RUN = (126, 127)
"""Exit codes of shells for a program that they cannot run. A retry does not change that."""
CLAIM_SCHEME = "pvc://"
_NO_PARENT = r"(?!.*(?:^|/)[.][.](?:/|$))"
_CLAIM = re.compile(r"pvc://([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)((?:/(?![.][.](?:/|$))[^/\s]+)*/?)")
_PATH = re.compile(rf"{_NO_PARENT}/[^\x00-\x1f]*")
_ADDRESS = re.compile(r"(?!pvc:)[a-z][a-z0-9+.-]*://[^\s]+")
_CODES = range(1, 256)
_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Retries:
    """What an administrator allows of one budget."""

    default: int
    """For jobs that do not say."""
    most: int
    """That a job may ask for."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What an administrator allows, by field of the declaration."""

    retries: Retries = Retries(DEFAULT_RETRIES, MOST_RETRIES)
    memory: Retries = Retries(DEFAULT_RETRIES_MEMORY, MOST_OF_A_CAUSE)
    infrastructure: Retries = Retries(DEFAULT_RETRIES_INFRASTRUCTURE, MOST_OF_A_CAUSE)
    hang: Retries = Retries(DEFAULT_RETRIES_HANG, MOST_OF_A_CAUSE)

    @classmethod
    def of(cls, settings: Mapping[str, int]) -> "Allowed":
        """By the section `recovery` of the Configuration; what it leaves out is as in the Configuration's schema."""
        plain = {name: getattr(cls(), name) for name in SETTINGS}
        return cls(
            **{
                name: Retries(settings.get(default, plain[name].default), settings.get(most, plain[name].most))
                for name, (default, most) in SETTINGS.items()
            }
        )


SETTINGS: Mapping[str, tuple[str, str]] = {
    "retries": ("defaultRetries", "maxRetries"),
    "memory": ("defaultRetriesMemory", "maxRetriesMemory"),
    "infrastructure": ("defaultRetriesInfrastructure", "maxRetriesInfrastructure"),
    "hang": ("defaultRetriesHang", "maxRetriesHang"),
}
"""The fields of the section `recovery`, by field of the declaration."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """How a job recovers."""

    mode: str = RECOVERY_NONE
    retries: int = DEFAULT_RETRIES
    no_retry: tuple[int, ...] = ()
    """Exit codes, ascending."""
    free: tuple[int, ...] = ()
    """Exit codes, ascending; none of them is in `no_retry`."""
    memory: int = DEFAULT_RETRIES_MEMORY
    infrastructure: int = DEFAULT_RETRIES_INFRASTRUCTURE
    hang: int = DEFAULT_RETRIES_HANG
    checkpoints: str = ""
    """Where checkpoints are kept; empty: the job says nothing of it."""
    resume_from: str = ""
    restarts_stalled: bool = False
    """Whether ranks that stand still are restarted, not only shown."""
    avoids_nodes: bool = False
    """Whether the next attempt avoids a node that fails again and again."""

    @property
    def is_gang(self) -> bool:
        """Whether all ranks restart together."""
        return self.mode == RECOVERY_GANG


def declared(
    job: Mapping[str, str], runtime: Mapping[str, str], allowed: Allowed
) -> tuple[Declaration, tuple[Problem, ...]]:
    """The declaration in the annotations of a TrainJob and of its runtime, and every value that cannot be used."""
    found, problems = read_by(_readers(allowed), job, runtime)
    fields = {**_defaults(allowed, found.get("retries")), **found}
    both = sorted({*fields.get("free", ())} & {*fields.get("no_retry", ())})
    if both:
        unusable = {problem.of_job for problem in problems if problem.annotation == ANNOTATION_FREE_EXIT_CODES}
        of_job = ANNOTATION_FREE_EXIT_CODES in job and True not in unusable
        value = (job if of_job else runtime)[ANNOTATION_FREE_EXIT_CODES]
        name = ANNOTATION_NO_RETRY_EXIT_CODES.rpartition("/")[2]
        problems.append(Problem(ANNOTATION_FREE_EXIT_CODES, value, f"{both[0]} is in {name} too", of_job))
        fields["free"] = tuple(code for code in fields["free"] if code not in both)
    return Declaration(**fields), tuple(problems)


def _defaults(allowed: Allowed, retries: int | None) -> dict[str, int]:
    """The budgets of a job that does not name them. One that names its `retries` has so many, whatever the cause."""
    found = {field: getattr(allowed, field).default for field in SETTINGS}
    if retries is not None:
        wanted = {"memory": retries, "hang": retries, "infrastructure": max(retries, found["infrastructure"])}
        found |= {field: min(number, getattr(allowed, field).most) for field, number in wanted.items()}
    return found


@cache
def _readers(allowed: Allowed) -> Readers:
    """Those of all annotations, with the limits of an administrator. Every reconcile reads them."""
    return {
        annotation: (field, _at_most(getattr(allowed, field).most, read) if field in SETTINGS else read)
        for annotation, (field, read) in _READERS.items()
    }


def _at_most(most: int, read: Callable[[str], int]) -> Callable[[str], int]:
    def read_allowed(text: str) -> int:
        if (number := read(text)) > most:
            raise ValueError(f"must be at most {most}, by the administrator's Configuration")
        return number

    return read_allowed


def named(annotations: Mapping[str, str]) -> list[str]:
    """The annotations about recovery that are set."""
    return [name for name in _READERS if name in annotations]


def late_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterable[str]:
    """Warnings about annotations that have changed after the creation of the job."""
    for name in _COMPILED:
        if old.get(name) != new.get(name):
            yield (
                f"the change of annotation {name} has no effect on this TrainJob: the rules of its JobSet are fixed "
                "once it exists; delete the TrainJob and create it again"
            )


def _place(text: str) -> str:
    if _CLAIM.fullmatch(text) or _ADDRESS.fullmatch(text) or _PATH.fullmatch(text):
        return text
    raise ValueError("must be pvc://CLAIM/PATH, an absolute path or an address")


def _start(text: str) -> str:
    if _PATH.fullmatch(text) or (_ADDRESS.fullmatch(text) and not text.startswith(CLAIM_SCHEME)):
        return text
    raise ValueError("must be an absolute path in the pods, or an address")


def claim_of(place: str) -> tuple[str, str] | None:
    """The claim and the folder in it that a place of checkpoints names; None for a path or an address."""
    found = _CLAIM.fullmatch(place)
    return (found[1], (found[2] or "").strip("/")) if found is not None else None


def _whole(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text) if _is_number(text) else -1
        if not 0 <= number <= most:
            raise ValueError(f"must be a whole number from 0 to {most}")
        return number

    return read


def _codes(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    codes = [int(part) if _is_number(part) else -1 for part in parts]
    if not all(code in _CODES for code in codes):
        zero = "0 is success; " if 0 in codes else ""
        raise ValueError(f"{zero}must be numbers from 1 to 255" + ("" if zero else ", with commas between them"))
    return tuple(sorted(set(codes)))


def _free_codes(text: str) -> tuple[int, ...]:
    codes = _codes(text)
    for code in CANNOT_RUN:
        if code in codes:
            raise ValueError(f"{code} is the exit code of a program that cannot run, which always ends the job")
    return codes


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


_COMPILED = (
    ANNOTATION_RECOVERY,
    ANNOTATION_RETRIES,
    ANNOTATION_NO_RETRY_EXIT_CODES,
    ANNOTATION_FREE_EXIT_CODES,
    ANNOTATION_CHECKPOINTS,
    ANNOTATION_RESUME_FROM,
)
"""Those that become rules of the JobSet; the manager looks at the others whenever an attempt ends."""
_READERS: Readers = {
    ANNOTATION_RECOVERY: ("mode", one_of(RECOVERY_NONE, RECOVERY_GANG)),
    ANNOTATION_RETRIES: ("retries", _whole(MOST_RETRIES)),
    ANNOTATION_NO_RETRY_EXIT_CODES: ("no_retry", _codes),
    ANNOTATION_FREE_EXIT_CODES: ("free", _free_codes),
    ANNOTATION_RETRIES_MEMORY: ("memory", _whole(MOST_OF_A_CAUSE)),
    ANNOTATION_RETRIES_INFRASTRUCTURE: ("infrastructure", _whole(MOST_OF_A_CAUSE)),
    ANNOTATION_RETRIES_HANG: ("hang", _whole(MOST_OF_A_CAUSE)),
    ANNOTATION_ON_STALL: ("restarts_stalled", lambda text: one_of("mark", "restart")(text) == "restart"),
    ANNOTATION_AVOID_NODES: ("avoids_nodes", lambda text: one_of("true", "false")(text) == "true"),
    ANNOTATION_CHECKPOINTS: ("checkpoints", _place),
    ANNOTATION_RESUME_FROM: ("resume_from", _start),
}
