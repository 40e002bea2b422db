# SPDX-License-Identifier: Apache-2.0
"""How the dashboard stands with the API server, in words: with times of the test, and no server."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from trainwright.controller.dashboard import contract
from trainwright.controller.dashboard.connection import PATIENCE_SECONDS, ServerLink, state_of_error
from trainwright.controller.dashboard.watched import ShownJobs
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.errors import (
    ConfigurationError,
    Forbidden,
    KubernetesError,
    NotFound,
    Unauthorized,
    Unreachable,
)

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


@dataclass
class Informer:
    synced: bool = False
    last_error: KubernetesError | None = None


class World:
    """What the link looks at, and what it says."""

    def __init__(self, namespace: str = "team-a", context: str = "here") -> None:
        self.cluster = contract.Cluster(context=context, server="https://api:6443", namespace=namespace)
        self.informer = Informer()
        self.time = NOW
        self.connection = contract.Connection(state="connecting", message="", since="", last_contact=None)
        self.link = ServerLink(cast("Client", None), cast("ShownJobs", self))

    def now(self) -> datetime:
        return self.time

    def set_connection(self, connection: contract.Connection) -> None:
        self.connection = connection

    def after(self, seconds: float, error: KubernetesError | None = None) -> contract.Connection:
        """So many seconds after the begin."""
        self.time = NOW + timedelta(seconds=seconds)
        self.informer.last_error = error
        self.link.look(1000.0 + seconds)
        return self.connection


LOST = Unreachable("connection refused")


def test_a_break_of_a_moment_is_not_worth_a_word() -> None:
    world = World()
    assert world.after(0).state == "connecting"
    world.informer.synced = True
    assert (world.after(1).state, world.connection.last_contact) == ("live", "2026-11-22T12:00:01Z")
    assert world.after(2, LOST).state == "live"
    assert world.after(2 + PATIENCE_SECONDS / 2).state == "live"
    # Another break begins its own time.
    assert world.after(10, LOST).state == "live"
    assert world.after(10 + PATIENCE_SECONDS, LOST).state == "lost"


def test_a_lost_server_is_said_with_the_time_of_what_is_shown() -> None:
    world = World()
    world.informer.synced = True
    world.after(1)
    world.after(5, LOST)
    lost = world.after(30, LOST)
    assert lost.message == (
        "the API server https://api:6443 does not answer: connection refused; what is shown is as of 12:00:01 UTC"
    )
    assert (lost.since, lost.last_contact) == ("2026-11-22T12:00:30Z", "2026-11-22T12:00:01Z")
    assert world.after(60, LOST).since == "2026-11-22T12:00:30Z"
    found = world.after(90)
    assert (found.state, found.message, found.since) == ("live", "", "2026-11-22T12:01:30Z")


def test_a_server_that_never_answered_is_said_at_once() -> None:
    lost = World().after(0, LOST)
    assert (lost.state, lost.last_contact) == ("lost", None)
    assert lost.message == "the API server https://api:6443 does not answer: connection refused"


@pytest.mark.parametrize(
    ("error", "namespace", "context", "state", "words"),
    [
        (Forbidden("no", code=403), "team-a", "here", "forbidden", "in namespace team-a; ask its administrator for it"),
        (Forbidden("no", code=403), "", "here", "forbidden", "in all namespaces; start the dashboard with --namespace"),
        (Unauthorized("expired", code=401), "", "here", "unauthorized", "of context here are refused: expired; log in"),
        (Unauthorized("expired", code=401), "", "", "unauthorized", "the credentials are refused: expired; log in"),
        (ConfigurationError("no plugin"), "", "here", "unauthorized", "no plugin; log in again"),
        (NotFound("404", code=404), "", "here", "missing", "trainjobs.trainer.kubeflow.org is not installed"),
        (KubernetesError("it hangs"), "", "here", "lost", "does not answer: it hangs"),
    ],
)
def test_each_failure_says_what_to_do(
    error: KubernetesError, namespace: str, context: str, state: str, words: str
) -> None:
    found = World(namespace, context).after(0, error)
    assert (found.state, state_of_error(error)) == (state, state)
    assert words in found.message


def test_a_refusal_is_said_without_patience() -> None:
    world = World()
    world.informer.synced = True
    world.after(1)
    assert world.after(2, Unauthorized("expired", code=401)).state == "unauthorized"
