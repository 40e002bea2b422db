# SPDX-License-Identifier: Apache-2.0
"""The attempts of a job that recovers, by its record: what the next one waits for, what those before have cost."""

from collections.abc import Iterator

from trainwright.api.objects import dig
from trainwright.api.times import moment
from trainwright.controller.trainer.failures.record import name_of_record
from trainwright.controller.trainer.recovery.causes import FailureCause
from trainwright.controller.trainer.recovery.summary import Summary, summary_of
from trainwright.controller.trainer.why.catalogue import cause, here
from trainwright.controller.trainer.why.job.containers import record_data
from trainwright.controller.trainer.why.job.jobset import restarting, running_pods, wanted_now
from trainwright.plugins.contract import Cause, Picture

_RULES = frozenset({"infra", "final"})
"""Names of rules that the plugin Recovery writes into each JobSet of such a job."""


def summary_in(picture: Picture) -> Summary | None:
    """The summary of the job's record; None for a job that does not recover, whose record is not read for it."""
    rules = dig(picture.jobset, "spec.failurePolicy.rules") or ()
    if not any(one.get("name") in _RULES for one in rules):
        return None
    found = summary_of(record_data(picture))
    return found if found is not None and found.judged else None


def between_attempts(picture: Picture) -> Iterator[Cause]:
    """The next attempt is held back, or on its way: by the record, else by the JobSet."""
    found = summary_in(picture)
    if found is None:
        yield from restarting(picture)
        return
    if len(running_pods(picture)) >= wanted_now(picture) > 0:
        return
    about = here(picture, "ConfigMap", name_of_record(picture.name))
    paid = f", {found.paid}" if found.paid else ""
    yield cause("Restarting", f"attempt {found.judged + 1} {_when(picture, found)}{paid}: {found.why}", about=about)


def cost_before(picture: Picture) -> str:
    """How many attempts have ended for which cause, to be put behind the number of the present one."""
    found = summary_in(picture)
    counts = found.counts.causes if found is not None else {}
    told = [f"{counts[one]} {one.value.lower()}" for one in FailureCause if counts.get(one)]
    step = found.counts.step if found is not None else None
    reached = f"; best step so far: {step:g}" if step is not None else ""
    return f"{reached}; before: {', '.join(told)}" if told else ""


def _when(picture: Picture, found: Summary) -> str:
    if found.hang:
        return "begins when all ranks have stopped"
    until = moment(found.hold_until)
    # The moment, not the seconds until then: conditions that say the same are not written again.
    return f"begins at {until:%H:%M:%S} UTC" if until is not None and until > picture.now else "begins"
