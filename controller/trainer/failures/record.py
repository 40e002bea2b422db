# SPDX-License-Identifier: Apache-2.0
"""The ConfigMap `<job>-failures`: for each attempt, which pod failed first, and the last lines of its log.

It holds five attempts, the first and the latest four, and two kibibytes of log for each, so it stays below 16 KiB. It
belongs to the TrainJob and goes with it. The first attempt is 1 there, as wherever people read of it; JobSet's label,
and so everything here, counts from 0.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.manifest import ManifestError, dump, load
from trainwright.api.messages import plain, shortened
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.failures.first import FailedRun
from trainwright.controller.trainer.failures.last_words import (
    is_consequence,
    is_launched,
    is_victim,
    program_ended,
    telling_line,
    without_answers,
)

SUFFIX = "-failures"
LOG_BYTES = 2048
ATTEMPTS = 5
HEADS = 50
"""Attempts that the record of a job that recovers holds; logs are kept of `ATTEMPTS` of them."""
_KEY = "attempt-"
_LOG = ".log"
HANG_KEY = ".hang"
"""Ends the key with the last lines of ranks that stood still."""


class Entry(FailedRun, frozen=True, kw_only=True):
    """One attempt in the ConfigMap."""

    last_line: str = ""
    """The line of the log that says most; it may stand before the lines that are kept."""
    cause: str = ""
    """Of jobs that recover, as all that follows: why the attempt ended."""
    charged: str = ""
    """The budget that pays for it; empty: none."""
    provisional: bool = False
    """Whether later evidence may still correct the cause."""
    started: str = ""
    """When its first pod started, by the clock of its node; empty: not seen."""
    ended: str = ""
    nodes: tuple[str, ...] = ()
    """Where its pods ran; of more than eight, the last one is a number."""
    node: str = ""
    """The node that may be the reason; empty: none."""
    hardware: bool = False
    """Whether the log tells that hardware of that node is broken."""
    step: float | None = None
    percent: int | None = None
    checkpoint: float | None = None
    """The step of the last one that the attempt noted."""
    held_seconds: int = 0
    """How long the next attempt was held back."""
    log: str = ""
    """The last lines; kept under a key of its own, so that people can read it."""

    @classmethod
    def of(cls, failure: FailedRun, log: str) -> "Entry":
        """The entry of a failure; `log` is the end of its log, of which the last lines are kept."""
        told = {name: getattr(failure, name) for name in FailedRun.__struct_fields__}
        told["message"] = shortened(failure.message)
        return cls(**told).with_log(log)

    def with_log(self, log: str) -> "Entry":
        lines = log.split("\n")
        kept, line = last_lines(log.encode()), telling_line(lines, self.exit_code)
        ended = program_ended(lines, self.finished_at)
        # A reader finds it in the lines that are kept, unless a launcher has written much after it.
        told = shortened(line) if line != telling_line(kept.split("\n"), self.exit_code) else ""
        own = ended if ended != self.finished_at else ""
        stopped = self.stopped and is_victim(lines, self.exit_code, stopped=True)
        return msgspec.structs.replace(self, program_finished_at=own, last_line=told, log=kept, stopped=stopped)

    def in_place_of(self, held: "Entry") -> "Entry":
        """The entry of another failure of the same attempt, with what is known of the attempt."""
        return msgspec.structs.replace(self, **{name: getattr(held, name) for name in _OF_ATTEMPT})

    @property
    def ended_at(self) -> str:
        return self.program_finished_at or self.finished_at

    @property
    def said(self) -> str:
        """The line of the log that says most; empty without a log."""
        return plain(self.last_line) or _telling_line(self.log, self.exit_code)

    @property
    def is_victim(self) -> bool:
        """Whether it failed since another pod did, or since it was stopped."""
        return self.stopped or is_consequence(self.said)

    @property
    def is_node(self) -> bool:
        return self.several or is_launched(self.said)


_OF_ATTEMPT = (
    "cause",
    "charged",
    "provisional",
    "started",
    "ended",
    "nodes",
    "step",
    "percent",
    "checkpoint",
    "held_seconds",
)
"""Fields of an entry that are not of the failure."""


@lru_cache(maxsize=16)
def _telling_line(log: str, exit_code: int | None) -> str:
    """Of a log that a verdict looks at again and again."""
    return telling_line(log.split("\n"), exit_code)


def name_of_record(job: str) -> str:
    return job + SUFFIX


def entries_of(data: Mapping[str, str] | None) -> dict[int, Entry]:
    """The attempts that a ConfigMap holds. What cannot be read, because somebody edited it, is left out."""
    found = {}
    # Earlier releases counted from 0, and the first attempt is always kept.
    first = 0 if f"{_KEY}0" in (data or {}) else 1
    for key, text in (data or {}).items():
        if not key.startswith(_KEY) or key.endswith((_LOG, HANG_KEY)):
            continue
        try:
            entry = msgspec.convert(load(text), Entry)
        except (ManifestError, msgspec.ValidationError):
            continue
        if entry.attempt >= first:
            log = (data or {}).get(key + _LOG, "")
            found[entry.attempt - first] = msgspec.structs.replace(entry, attempt=entry.attempt - first, log=log)
    return dict(sorted(found.items()))


def entries_of_jobset(entries: Mapping[int, Entry], uid: str) -> dict[int, Entry]:
    """The attempts that are those of this JobSet: all or none, since a record is that of one JobSet.

    A JobSet that is made anew for the same TrainJob counts its attempts from 0 again. Old records name no JobSet. The
    attempts of a job that recovers, which have a cause, count on over its JobSets.
    """
    if any(entry.cause for entry in entries.values()):
        return dict(entries)
    return dict(entries) if all(entry.jobset_uid in ("", uid) for entry in entries.values()) else {}


def document_of(job: TrainJob, entries: Mapping[int, Entry], more: Mapping[str, str] | None = None) -> Document:
    """The ConfigMap with the entries that are kept; `more`: of a job that recovers, other keys.

    Such a job has many attempts. It keeps the heads of the first and the latest ones, and fewer logs.
    """
    data: dict[str, str] = dict(more or {})
    logged = set(_kept(entries, ATTEMPTS))
    for attempt in _kept(entries, ATTEMPTS if more is None else HEADS):
        entry = entries[attempt]
        told = msgspec.to_builtins(msgspec.structs.replace(entry, attempt=attempt + 1, log=""))
        data[f"{_KEY}{attempt + 1}"] = dump(told, sort_keys=False)
        if entry.log and attempt in logged:
            data[f"{_KEY}{attempt + 1}{_LOG}"] = entry.log
    return {
        "apiVersion": ConfigMap.RESOURCE.api_version,
        "kind": ConfigMap.RESOURCE.kind,
        "metadata": {"name": name_of_record(job.name), "namespace": job.namespace},
        "data": data,
    }


def last_lines(log: bytes, most: int = LOG_BYTES) -> str:
    """The end of a log: whole lines, at most so many bytes; a longer last line is cut at its start.

    What would act on a terminal is left out, and what a kubelet answers where it has no log.
    """
    text = plain(log.decode(errors="replace").replace("\x00", "\N{REPLACEMENT CHARACTER}")).rstrip("\n")
    text = "\n".join(without_answers(text.split("\n")))
    if len(text.encode()) <= most:
        return text
    cut = text.encode()[-most:].decode(errors="ignore")
    _, newline, rest = cut.partition("\n")
    return rest if newline and rest else cut


def _kept(attempts: Iterable[int], most: int) -> list[int]:
    known = sorted(attempts)
    return known if len(known) <= most else [known[0], *known[-(most - 1) :]]
