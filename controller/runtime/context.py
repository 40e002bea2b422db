# SPDX-License-Identifier: Apache-2.0
"""The reconcile that the running code belongs to.

A context variable that the worker sets before it calls the reconciler, so tasks that the reconciler starts inherit it.
Logging adds it to each record; the cache reads from it which controller made a write.
"""

import logging
from contextvars import ContextVar
from typing import NamedTuple

from trainwright.api.objects import Key


class Reconcile(NamedTuple):
    """One call of a reconciler."""

    controller: str
    key: Key
    id: str
    """Unique for each call; part of every log line of the call."""
    reasons: tuple[str, ...] = ()
    """Why the key was queued, oldest first, each reason once."""
    priority: int = 0
    attempt: int = 0
    """Failures in a row before this call."""


current_reconcile: ContextVar[Reconcile | None] = ContextVar("reconcile", default=None)


def writer() -> str:
    """The controller whose code is running; empty outside a reconcile."""
    reconcile = current_reconcile.get()
    return reconcile.controller if reconcile else ""


class ContextFilter(logging.Filter):
    """Adds controller, namespace, object_name, reconcile_id and reasons to each log record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Set the fields. Keeps every record."""
        reconcile = current_reconcile.get()
        record.controller = reconcile.controller if reconcile else ""
        record.namespace = reconcile.key.namespace if reconcile else ""
        record.object_name = reconcile.key.name if reconcile else ""
        record.reconcile_id = reconcile.id if reconcile else ""
        record.reasons = ",".join(reconcile.reasons) if reconcile else ""
        return True
