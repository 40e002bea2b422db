# SPDX-License-Identifier: Apache-2.0
"""Finds the job that a user means: by its name, as `latest`, or by the script that its name was made from."""

from collections.abc import Sequence

from trainwright.api.objects import Document, name_of
from trainwright.controller.cli.local.managing import LocalJobs, RefusedError

LATEST = "latest"


async def meant(jobs: LocalJobs, given: str, *, only: bool = False) -> str:
    """The name of the job that is meant; what was given if there is none. Raises RefusedError.

    Args:
        jobs: of the namespace.
        given: a name, `latest`, or the name of a script, which means its last job.
        only: several jobs of a script are refused: the command changes what it is given.
    """
    listed = await jobs.all()
    if any(name_of(job) == given for job in listed):
        return given
    found = newest_first(listed if given == LATEST else [job for job in listed if _is_of(job, given)])
    if only and given != LATEST and len(found) > 1:
        raise RefusedError(f"{given} may be any of {', '.join(map(name_of, found))}: name one, or the last as {LATEST}")
    return name_of(found[0]) if found else given


def newest_first(jobs: Sequence[Document]) -> list[Document]:
    """Jobs by the time at which they were created, which has whole seconds; then by their last change."""
    return sorted(jobs, key=lambda job: (job["metadata"]["creationTimestamp"], _version(job)), reverse=True)


def _is_of(job: Document, script: str) -> bool:
    return bool(job["metadata"].get("generateName") == f"{script}-")


def _version(job: Document) -> int:
    text = str(job["metadata"].get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0
