# SPDX-License-Identifier: Apache-2.0
"""Writes the progress of a TrainJob into its status.

By server-side apply, as the field manager of Kubeflow Trainer's status server, so that a value of it is taken over. The
document holds the whole progress and nothing else: what a report leaves out is removed, and conditions and counters
stay. It names the uid, so that a TrainJob that was recreated under the same name is a conflict.
"""

from typing import Any

import msgspec

from trainwright.api.objects import Key
from trainwright.api.rights import Rule
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.controller.runtime import Client

FIELD_MANAGER = "trainer-status"
RULES = (Rule.on(TrainJob.RESOURCE, "get"), Rule.on(TrainJob.RESOURCE, "patch", subresource="status"))
"""To find a TrainJob that the cache does not hold yet, and to write."""


class StatusWriter:
    """Stores values. A caller paces the writes and repeats them; nothing is retried here."""

    def __init__(self, client: Client) -> None:
        """`client`: of the manager, whose cache shows the writes at once."""
        self._client = client.with_defaults(retries=0)

    async def __call__(self, key: Key, uid: str, status: TrainerStatus) -> None:
        """Store one value. Raises NotFound, Conflict (another uid), Invalid, other errors of the client."""
        document: dict[str, Any] = {
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid},
            "status": {"trainerStatus": msgspec.to_builtins(status)},
        }
        await self._client.apply(document, kind=TrainJob, field_manager=FIELD_MANAGER, force=True, subresource="status")
