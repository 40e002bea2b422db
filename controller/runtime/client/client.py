# SPDX-License-Identifier: Apache-2.0
"""The verbs of the Kubernetes API.

Each verb is one request (a list: one per page), decoded straight into the model of the kind that was asked for. Reads
here always go to the server; cached reads are the cache's. The client never changes the object it is given: what the
server answered is the return value.

Guarantees: a write is sent once, except that the server itself asked for a repetition (429 or 5xx with Retry-After),
and except for a 401, which refused it unread (H-8, H-10). Errors are those of `errors`, with the verb and path in the
message.

Caveats: ConnectionLost and RequestTimeout leave the outcome of a write unknown. A decoded object may lack fields that a
newer server knows, so never write one back whole: apply or patch what you own.
"""

from copy import copy
from dataclasses import replace
from typing import Literal, Self

from trainwright.controller.runtime.client.reads import Reads
from trainwright.controller.runtime.client.subresources import Subresources
from trainwright.controller.runtime.client.writes import Writes


class Client(Reads, Writes, Subresources):
    """Talks to one API server through a transport. Cheap to copy with other defaults."""

    def with_defaults(
        self,
        *,
        user_agent: str | None = None,
        field_manager: str | None = None,
        field_validation: Literal["Ignore", "Warn", "Strict"] | None = None,
        dry_run: bool | None = None,
    ) -> Self:
        """A client on the same transport that differs in what is given here."""
        defaults = replace(
            self._defaults,
            field_manager=field_manager or self._defaults.field_manager,
            field_validation=field_validation or self._defaults.field_validation,
            dry_run=self._defaults.dry_run if dry_run is None else dry_run,
        )
        other = copy(self)
        vars(other).update(_defaults=defaults, _agent=self._agent if user_agent is None else user_agent)
        return other
