# SPDX-License-Identifier: Apache-2.0
"""Why jobs have failed, for lists: the sentence of `trainwright explain` from the record of failures.

The condition `Failed` has JobSet's general sentence alone. The record is read by name, once for each job that failed.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta

from trainwright.api.conditions import find_true
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.messages import plain, shortened
from trainwright.api.objects import Document, dig, uid_of, wire
from trainwright.api.times import Now, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import CONDITION_COMPLETE, CONDITION_FAILED
from trainwright.controller.runtime import Client, Forbidden, KubernetesError, NotFound
from trainwright.controller.trainer.failures.record import entries_of, name_of_record
from trainwright.controller.trainer.job.status import entered, state_of
from trainwright.plugins.contract import JobState

AT_ONCE = 4
_SAID = 160
"""Characters of the first line."""
_IN_WORDS = {"OOMKilled": "out of memory"}
LATE = timedelta(minutes=1)
"""A record that is not there so long after the end will not come."""
MOST = 200
"""Jobs whose records are read for one list; the others have the sentence of their condition."""


class Ended:
    """The sentences that are known, by uid of the job."""

    def __init__(self, client: Client, *, now: Now = wall_clock) -> None:
        self._client, self._now = client, now
        self._told: dict[str, str] = {}
        self._attempts: dict[str, int] = {}
        self._briefs: dict[str, tuple[str, ...]] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        self._is_forbidden = False

    def sentence(self, job: TrainJob) -> str:
        """Why the job failed; empty if that is not known, or it has not failed."""
        return self._told.get(uid_of(job), "") if _has_failed(job) else ""

    def brief(self, job: TrainJob) -> tuple[str, ...]:
        """The same in two lines; empty if that is not known."""
        return self._briefs.get(uid_of(job), ())

    def attempts(self, job: TrainJob) -> int | None:
        """How many attempts a job made that failed; None: that is not known, or it has not failed."""
        return self._attempts.get(uid_of(job)) if _has_failed(job) else None

    def is_unread(self, job: TrainJob) -> bool:
        return not self._is_forbidden and _has_failed(job) and uid_of(job) not in self._told

    def forget(self, uid: str) -> None:
        self._told.pop(uid, None)
        self._attempts.pop(uid, None)
        self._briefs.pop(uid, None)

    async def read(self, jobs: Iterable[TrainJob]) -> None:
        """Read the records of the latest jobs among these that failed. What cannot be read is asked for again."""
        unread = filter(self.is_unread, jobs)
        latest = sorted(unread, key=lambda job: job.metadata_or_empty.creation_timestamp or "", reverse=True)
        await asyncio.gather(*map(self._read, latest[:MOST]))

    async def _read(self, job: TrainJob) -> None:
        async with self._places:
            if not self.is_unread(job):
                return
            try:
                record: Document = await self._client.get(ConfigMap.RESOURCE, name_of_record(job.name), job.namespace)
            except NotFound:
                ended = entered(job, JobState.FAILED)
                if ended is None or self._now() - ended > LATE:
                    self._told[uid_of(job)] = ""
            except Forbidden:
                self._is_forbidden = True
            except KubernetesError:
                pass  # a list is shown without it
            else:
                from trainwright.controller.trainer.why.job.jobset import attempts_in  # noqa: PLC0415 - as below

                self._told[uid_of(job)] = sentence = sentence_of(job, record, self._now)
                if sentence:  # else it is not the record of this job
                    self._briefs[uid_of(job)] = brief_of(record.get("data"))
                    self._attempts[uid_of(job)] = attempts_in(record.get("data"), end_of(wire(job)) or {})


def sentence_of(job: TrainJob, record: Document, now: Now = wall_clock) -> str:
    """What `trainwright explain` says of a job that failed and of which nothing but the record is left."""
    # Imported here: a list without a failed job needs none of it.
    from trainwright.controller.trainer.why import GivenObjects, explain  # noqa: PLC0415

    document = {"apiVersion": TrainJob.RESOURCE.api_version, "kind": TrainJob.RESOURCE.kind, **wire(job)}
    kind = {"apiVersion": ConfigMap.RESOURCE.api_version, "kind": ConfigMap.RESOURCE.kind}
    picture = GivenObjects((document, {**record, **kind})).picture(document, now())
    if not picture.is_controller_of(record) or not entries_of(record.get("data")):
        return ""
    return explain(picture).cause.message


def brief_of(data: Mapping[str, str] | None) -> tuple[str, ...]:
    """The failure of the last attempt of a record: what the program said last, mostly an exception; then who ended how.

    In the words of who trains: no names of pods or of other objects.
    """
    entries = entries_of(data)
    if not entries:
        return ()
    attempt, last = list(entries.items())[-1]
    ended = how_ended(last.exit_code, last.reason)
    told = last.said or last.message or _IN_WORDS.get(last.reason, "")
    parts = (
        last.where if last.replicated_job else "",
        ended if told else "",
        f"attempt {attempt + 1}" if attempt else "",
    )
    said = shortened(" ".join(plain(told or ended or "the training failed").split()), _SAID)
    return said, ", ".join(filter(None, parts))


def how_ended(exit_code: int | None, reason: str) -> str:
    """Such as `exit code 137 (OOMKilled)`."""
    code = f"exit code {exit_code}" if exit_code is not None else ""
    told = reason if reason != "Error" else ""
    return f"{code} ({told})" if code and told else code or told


def end_of(job: Document) -> Document | None:
    """The condition that the job has ended with; None: it has not."""
    conditions = dig(job, "status.conditions")
    return find_true(conditions, CONDITION_COMPLETE) or find_true(conditions, CONDITION_FAILED)


def _has_failed(job: TrainJob) -> bool:
    return state_of(job).state is JobState.FAILED
