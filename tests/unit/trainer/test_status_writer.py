# SPDX-License-Identifier: Apache-2.0
"""The requests that write progress, and that their repetition is left to the caller."""

import msgspec
import pytest

from trainwright.api.objects import Key
from trainwright.api.trainer.v1alpha1 import TrainerStatus
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.errors import TooManyRequests
from trainwright.controller.runtime.testing.scripted import ScriptedTransport, is_write, status_body
from trainwright.controller.trainer.progress.writes import StatusWriter

KEY = Key("space", "a")
VALUE = TrainerStatus(progress_percentage=0, last_updated_time="2026-05-06T07:08:09Z")


async def test_the_progress_is_applied_with_the_uid_and_nothing_else() -> None:
    transport = ScriptedTransport()
    transport.answer(is_write, {"metadata": {"name": "a", "namespace": "space"}})
    await StatusWriter(Client(transport))(KEY, "uid", VALUE)
    (request,) = transport.requests
    assert request.path.endswith("/namespaces/space/trainjobs/a/status")
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    assert request.query == {"fieldManager": "trainer-status", "force": "true"}
    assert request.body is not None
    assert msgspec.json.decode(request.body) == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "a", "namespace": "space", "uid": "uid"},
        "status": {"trainerStatus": {"progressPercentage": 0, "lastUpdatedTime": "2026-05-06T07:08:09Z"}},
    }


async def test_the_caller_hears_at_once_that_the_api_server_is_overloaded() -> None:
    transport = ScriptedTransport()
    transport.answer(is_write, status_body(429, "TooManyRequests"), status=429, headers={"retry-after": "7"})
    with pytest.raises(TooManyRequests) as refusal:
        await StatusWriter(Client(transport))(KEY, "uid", VALUE)
    assert refusal.value.retry_after == 7
    assert len(transport.requests) == 1
