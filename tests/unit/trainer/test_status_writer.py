# SPDX-License-Identifier: Apache-2.0
"""The requests that write progress, and that their repetition is left to the caller."""

from typing import Any

import msgspec
import pytest

from trainwright.api.objects import Key
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.controller.runtime import Client, Conflict, KubernetesError, NotFound
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import TooManyRequests
from trainwright.controller.runtime.testing.scripted import ScriptedTransport, is_write, status_body
from trainwright.controller.trainer.progress.writer import StatusWriter, Superseded
from trainwright.plugins.testing import train_job

KEY = Key("space", "a")
VALUE = TrainerStatus(progress_percentage=0, last_updated_time="2026-05-06T07:08:09Z")


KNOWN = train_job(metadata={"name": "a", "namespace": "space", "uid": "uid", "resourceVersion": "7"})


def known(key: Key) -> TrainJob | None:
    """The cache."""
    return KNOWN if key == KEY else None


def unknown(key: Key) -> TrainJob | None:
    """A cache that does not hold the TrainJob."""
    return None


def stored(uid: str, version: str) -> dict[str, Any]:
    """What the API server holds."""
    return {"metadata": {"name": "a", "namespace": "space", "uid": uid, "resourceVersion": version}}


def versions(transport: ScriptedTransport) -> list[str]:
    """The versions that were written."""
    bodies = [msgspec.json.decode(request.body) for request in transport.requests if request.body is not None]
    return [body["metadata"]["resourceVersion"] for body in bodies]


def is_read(request: Request) -> bool:
    return request.method == "GET"


async def test_a_trainjob_that_others_changed_is_written_in_its_new_version() -> None:
    transport = ScriptedTransport()
    transport.answer(is_write, status_body(409, "Conflict"), status=409, times=1)
    transport.answer(is_write, stored("uid", "10"))
    transport.answer(is_read, stored("uid", "9"))
    await StatusWriter(Client(transport), known)(KEY, "uid", VALUE)
    assert versions(transport) == ["7", "9"]


def holding(percentage: int, time: str, version: str) -> dict[str, Any]:
    """What the API server holds with a value of another replica. It cannot be decoded as a TrainJob."""
    value = {"progressPercentage": percentage, "lastUpdatedTime": f"2026-05-06T07:08:{time}Z"}
    return {**stored("uid", version), "spec": "what no model allows", "status": {"trainerStatus": value}}


async def test_a_newer_value_that_another_replica_stored_meanwhile_is_not_written_over() -> None:
    for found in (holding(40, "10", "9"), holding(40, "09", "9")):
        transport = ScriptedTransport()
        transport.answer(is_write, status_body(409, "Conflict"), status=409, times=1)
        transport.answer(is_read, found)
        with pytest.raises(Superseded) as error:
            await StatusWriter(Client(transport), known)(KEY, "uid", VALUE)
        assert error.value.stored.progress_percentage == 40
        assert versions(transport) == ["7"]


async def test_an_older_value_of_another_replica_is_written_over() -> None:
    transport = ScriptedTransport()
    transport.answer(is_write, status_body(409, "Conflict"), status=409, times=1)
    transport.answer(is_write, stored("uid", "10"))
    transport.answer(is_read, holding(40, "08", "9"))
    await StatusWriter(Client(transport), known)(KEY, "uid", VALUE)
    assert versions(transport) == ["7", "9"]


async def test_a_value_that_was_known_before_is_written_over_whatever_its_clock_says() -> None:
    transport = ScriptedTransport()
    transport.answer(is_read, holding(40, "30", "8"), times=1)
    transport.answer(is_write, status_body(409, "Conflict"), status=409, times=1)
    transport.answer(is_read, holding(40, "30", "9"))
    transport.answer(is_write, stored("uid", "10"))
    await StatusWriter(Client(transport), unknown)(KEY, "uid", VALUE)
    assert versions(transport) == ["8", "9"]


async def test_a_namesake_is_never_written() -> None:
    for cache in (known, unknown):
        transport = ScriptedTransport()
        transport.answer(is_write, status_body(409, "Conflict"), status=409)
        transport.answer(is_read, stored("uid-of-the-namesake", "9"))
        with pytest.raises(NotFound):
            await StatusWriter(Client(transport), cache)(KEY, "uid", VALUE)
        assert "9" not in versions(transport)


async def test_a_trainjob_that_never_stands_still_is_left_for_later() -> None:
    transport = ScriptedTransport()
    transport.answer(is_write, status_body(409, "Conflict"), status=409, times=5)
    transport.answer(is_read, stored("uid", "9"), times=5)
    with pytest.raises(KubernetesError, match="changes too often") as error:
        await StatusWriter(Client(transport), known)(KEY, "uid", VALUE)
    assert not isinstance(error.value, Conflict | NotFound)
    assert len(versions(transport)) == 5


async def test_the_progress_is_applied_with_the_version_and_nothing_else() -> None:
    transport = ScriptedTransport()
    transport.answer(is_write, {"metadata": {"name": "a", "namespace": "space"}})
    await StatusWriter(Client(transport), known)(KEY, "uid", VALUE)
    (request,) = transport.requests
    assert request.path.endswith("/namespaces/space/trainjobs/a/status")
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    assert request.query == {"fieldManager": "trainer-status", "force": "true"}
    assert request.body is not None
    assert msgspec.json.decode(request.body) == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "a", "namespace": "space", "resourceVersion": "7"},
        "status": {"trainerStatus": {"progressPercentage": 0, "lastUpdatedTime": "2026-05-06T07:08:09Z"}},
    }


async def test_the_caller_hears_at_once_that_the_api_server_is_overloaded() -> None:
    transport = ScriptedTransport()
    transport.answer(is_write, status_body(429, "TooManyRequests"), status=429, headers={"retry-after": "7"})
    with pytest.raises(TooManyRequests) as refusal:
        await StatusWriter(Client(transport), known)(KEY, "uid", VALUE)
    assert refusal.value.retry_after == 7
    assert len(transport.requests) == 1
