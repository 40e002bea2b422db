# SPDX-License-Identifier: Apache-2.0
"""The verbs of the Kubernetes API.

Each verb is one request (a list: one per page). The answer is decoded into the model of the kind. Reads always ask the
server; `cache` has cached reads. The client never changes an object that it is given; it returns the server's answer.

Guarantees: a write is sent once. Exceptions: the server asks for a retry (429 or 5xx with Retry-After), or answers 401,
which means that it did not process the request. Errors are those of `errors`; messages name the method and the path.

Caveats: after ConnectionLost and RequestTimeout the outcome of a write is unknown. A decoded object may lack fields
that a newer server knows, so never write one back whole: apply or patch the fields that you own.
"""

from copy import copy
from dataclasses import replace
from typing import Literal, Self

from trainwright.controller.runtime.client.exec import Exec
from trainwright.controller.runtime.client.reads import ReadVerbs
from trainwright.controller.runtime.client.writes import WriteVerbs


class Client(ReadVerbs, WriteVerbs, Exec):
    """Talks to one API server through a transport. Copies with other defaults are cheap."""

    def with_defaults(
        self,
        *,
        user_agent: str | None = None,
        field_manager: str | None = None,
        field_validation: Literal["Ignore", "Warn", "Strict"] | None = None,
        dry_run: bool | None = None,
        retries: int | None = None,
    ) -> Self:
        """A client on the same transport with other defaults; None keeps the current one.

        `retries` 0 is for a caller that paces its writes itself: it gets a 429 at once, with its Retry-After.
        """
        defaults = replace(
            self._defaults,
            field_manager=field_manager or self._defaults.field_manager,
            field_validation=field_validation or self._defaults.field_validation,
            dry_run=self._defaults.dry_run if dry_run is None else dry_run,
        )
        other = copy(self)
        vars(other).update(
            _defaults=defaults,
            _agent=self._agent if user_agent is None else user_agent,
            _retries=self._retries if retries is None else retries,
        )
        return other
