# SPDX-License-Identifier: Apache-2.0
"""How the dashboard stands with the API server, in words for its user.

A watch notices that the server is gone only after minutes if nothing tells it, as when a laptop changes its network.
So while a page is open a small question is asked every few seconds; it also finds credentials that have expired.
"""

import asyncio
import os
import ssl
from datetime import datetime

from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.dashboard import contract
from trainwright.controller.dashboard.watched import ShownJobs
from trainwright.controller.runtime import (
    Client,
    ConfigurationError,
    Forbidden,
    KubernetesError,
    MetadataOnly,
    NotFound,
)
from trainwright.controller.runtime.errors import Unauthorized

LOOK_SECONDS = 0.5
PROBE_SECONDS = 10.0
RETRY_SECONDS = 2.0
"""The same while the server does not answer."""
PROBE_LIMIT_SECONDS = 5.0
"""No answer for so long counts as lost."""
PATIENCE_SECONDS = 2.0
"""A watch that breaks and is there again within this time is not worth a word."""
_NO_JOB = "metadata.name=-"
"""No object has that name, so the answer is small."""
_KIND = MetadataOnly(TrainJob.RESOURCE)


class ServerLink:
    def __init__(self, client: Client, watched: ShownJobs) -> None:
        self._client = client
        self._watched = watched
        self._refused: KubernetesError | None = None
        self._broken_at: float | None = None
        self._probe_at = 0.0
        self._contact: datetime | None = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self.look(loop.time())
            if self._watched.streams and loop.time() >= self._probe_at:
                await self._probe()
                self.look(loop.time())
                is_live = self._watched.connection.state == "live"
                self._probe_at = loop.time() + (PROBE_SECONDS if is_live else RETRY_SECONDS)
            await asyncio.sleep(LOOK_SECONDS)

    def look(self, now: float) -> None:
        """Compare what is known with what was said last. `now`: seconds of the event loop."""
        informer, held = self._watched.informer, self._watched.connection
        error = self._refused or informer.last_error
        if error is None:
            self._broken_at = None
        elif self._broken_at is None:
            self._broken_at = now
        if error is None and (informer.synced or held.state != "connecting"):
            if informer.synced:
                self._contact = self._watched.now()
            self._say("live" if informer.synced else "connecting", "")
        elif error is not None:
            state = state_of_error(error)
            if state != "lost" or held.state != "live" or now - (self._broken_at or now) >= PATIENCE_SECONDS:
                self._say(state, self._words(state, error))

    async def _probe(self) -> None:
        try:
            async with asyncio.timeout(PROBE_LIMIT_SECONDS):
                await self._client.list_page(
                    _KIND, self._watched.cluster.namespace, field_selector=_NO_JOB, limit=1, resource_version="0"
                )
        except TimeoutError:
            self._refused = KubernetesError(f"no answer within {PROBE_LIMIT_SECONDS:.0f} s")
        except KubernetesError as error:
            self._refused = error
        else:
            if self._refused is not None:
                self._watched.watch_again()
            self._refused = None

    def _say(self, state: contract.ConnectionState, message: str) -> None:
        held, contact = self._watched.connection, self._contact
        since = held.since if held.state == state else format_time(self._watched.now())
        self._watched.set_connection(
            contract.Connection(
                state=state,
                message=message,
                since=since,
                last_contact=format_time(contact) if contact is not None else None,
            )
        )

    def _words(self, state: contract.ConnectionState, error: KubernetesError) -> str:
        cluster = self._watched.cluster
        resource = f"{TrainJob.RESOURCE.plural}.{TrainJob.RESOURCE.group}"
        if state == "forbidden":
            # The first list may be a watch, so the right to list alone is not enough.
            if cluster.namespace:
                where = f"namespace {cluster.namespace}"
                return f"no right to list and watch {resource} in {where}; ask its administrator for it"
            return f"no right to list and watch {resource} in all namespaces; start the dashboard with --namespace"
        if state == "unauthorized":
            whose = f" of context {cluster.context}" if cluster.context else ""
            advice = "log in again, and the dashboard goes on by itself"
            return f"the credentials{whose} are refused: {error.message}; {advice}"
        if state == "missing":
            return f"the cluster has no TrainJobs: the CustomResourceDefinition {resource} is not installed"
        seen = f"; what is shown is as of {self._contact:%H:%M:%S} UTC" if self._contact is not None else ""
        return f"the API server {cluster.server} does not answer: {_without_request(error)}{seen}"


def _without_request(error: KubernetesError) -> str:
    """What went wrong, such as `connection refused`: which request it was tells the user nothing."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno and not isinstance(cause, ssl.SSLError):  # it has numbers of its own
        return os.strerror(cause.errno).lower()
    return error.message


def state_of_error(error: KubernetesError) -> contract.ConnectionState:
    if isinstance(error, Forbidden):
        return "forbidden"
    if isinstance(error, (Unauthorized, ConfigurationError)):
        return "unauthorized"
    return "missing" if isinstance(error, NotFound) else "lost"
