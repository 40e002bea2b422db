# SPDX-License-Identifier: Apache-2.0
"""Deletes the oldest finished pods when there are too many.

Pods of Jobs usually go with their Job. Others would stay for ever.
"""

from collections.abc import Iterable, Sequence

from trainwright.api.objects import Document, Key, deletion_timestamp_of, name_of, namespace_of, uid_of
from trainwright.api.rights import WATCH, Rule
from trainwright.controller.local.workloads.documents import created_of, status_of
from trainwright.controller.local.workloads.kinds import POD
from trainwright.controller.local.workloads.pods import is_terminal
from trainwright.controller.local.workloads.writes import each
from trainwright.controller.runtime import Event, Manager, NotFound, Result

NAME = "finished-pods"
MOST = 500
"""Finished pods that are kept."""
_ALL = Key("", "finished-pods")


def too_many(pods: Iterable[Document], most: int) -> Sequence[Document]:
    """The finished pods to delete: evicted ones first, then the oldest."""
    finished = [pod for pod in pods if is_terminal(pod) and deletion_timestamp_of(pod) is None]
    surplus = len(finished) - most
    return sorted(finished, key=_order)[:surplus] if surplus > 0 else ()


def _order(pod: Document) -> tuple[bool, str, str]:
    return status_of(pod).get("reason") != "Evicted", created_of(pod), name_of(pod)


class FinishedPods:
    """Looks at all pods together, under one key. The constructor declares its watches on the manager."""

    RULES = (Rule.on(POD, *WATCH, "delete"),)

    def __init__(self, manager: Manager, *, most: int = MOST) -> None:
        """Declare everything; `manager.run` starts it. `most`: finished pods that are kept."""
        self._client, self._cache, self._most = manager.client, manager.cache, most
        manager.controller(NAME).watches(POD, lambda _: (_ALL,), predicates=[_ends]).reconcile(
            self.reconcile, workers=1
        )

    async def reconcile(self, key: Key) -> Result:  # noqa: ARG002 - there is only one
        """Delete what is too much."""
        errors = await each(self._delete, too_many(self._cache.list(POD), self._most))
        if errors:
            raise errors[0]
        return None

    async def _delete(self, pod: Document) -> None:
        try:
            await self._client.delete(POD, name_of(pod), namespace_of(pod), uid=uid_of(pod), grace_period=0)
        except NotFound:
            return


def _ends(event: Event[Document]) -> bool:
    """Whether a pod has just ended."""
    return event.new is not None and is_terminal(event.new) and (event.old is None or not is_terminal(event.old))
