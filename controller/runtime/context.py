# SPDX-License-Identifier: Apache-2.0
"""Who is working: the reconcile that the running code belongs to.

A context variable, set by the worker before it calls the reconciler, so that it is inherited by whatever the reconciler
starts. Logging adds it to each record; the cache asks it which controller a write came from.
"""

import logging
from contextvars import ContextVar
from dataclasses import dataclass

from trainwright.controller.runtime.objects import Key


@dataclass(frozen=True, slots=True)
class Reconcile:
    """One call of a reconciler."""

    controller: str
    key: Key
    id: str
    """Fresh for each call; in every log line of the call."""
    reasons: tuple[str, ...] = ()
    """Why the key was queued, oldest first, without repetition."""
    priority: int = 0
    attempt: int = 0
    """Failures in a row before this call."""


current: ContextVar[Reconcile | None] = ContextVar("reconcile", default=None)


def writer() -> str:
    """The controller whose code is running, empty outside of one."""
    reconcile = current.get()
    return reconcile.controller if reconcile else ""


class ContextFilter(logging.Filter):
    """Adds controller, namespace, name, reconcile_id and reasons to each log record (K-42, K-43)."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Fill in the fields; never drops a record."""
        reconcile = current.get()
        record.controller = reconcile.controller if reconcile else ""
        record.namespace = reconcile.key.namespace if reconcile else ""
        record.object_name = reconcile.key.name if reconcile else ""
        record.reconcile_id = reconcile.id if reconcile else ""
        record.reasons = ",".join(reconcile.reasons) if reconcile else ""
        return True
