# SPDX-License-Identifier: Apache-2.0
"""Notices that a training ended while nobody looked: its JobSet was deleted by its own time to live.

Without this, a manager that was away for longer than `ttlSecondsAfterFinished` would find a job without a JobSet, make
it again, and so train a second time (https://github.com/kubernetes-sigs/jobset, KEP-407 for the time to live).
"""

from collections.abc import Iterable, Mapping

from trainwright.api.objects import AnyObject
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract import Component, Reference

_TIME_TO_LIVE = "ttlSecondsAfterFinished"


class EndUnknown(Exception):  # noqa: N818 - as the reason of the condition
    """The object that ran the training was deleted after its end, and no process saw how it ended."""

    def __init__(self, message: str, reference: Reference) -> None:
        super().__init__(message)
        self.reference = reference


def had_pods(job: TrainJob) -> bool:
    """Whether the status shows that pods of the job ran."""
    jobs = job.status_or_empty.jobs_status or ()
    return any(one.active or one.ready or one.succeeded or one.failed for one in jobs)


def check_end(
    job: TrainJob,
    components: Iterable[Component],
    telling: Iterable[Reference],
    found: Mapping[Reference, AnyObject | None],
) -> None:
    """Raise EndUnknown if an object that told of the job's end was deleted by its own time to live.

    Call it for the first build of a job in this process only: a process that has seen the object would have seen its
    end, so the object was then deleted by somebody and is made again. `telling` are the objects that the status is read
    from.
    """
    if job.spec_or_empty.suspend or not had_pods(job):
        return
    tells = set(telling)
    for component in components:
        seconds = component.document.get("spec", {}).get(_TIME_TO_LIVE)
        if component.reference in tells and seconds is not None and found.get(component.reference) is None:
            kind, name = component.resource.kind, component.reference.name
            raise EndUnknown(
                f"{kind} {name} deletes itself {seconds} s after its end ({_TIME_TO_LIVE}). It did so while no manager "
                "was running, so whether the training succeeded is not known. To run it again, delete this TrainJob "
                "and create it again",
                component.reference,
            )
