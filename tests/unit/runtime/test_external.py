# SPDX-License-Identifier: Apache-2.0
"""Credentials of a plugin, and requests that do not wait for them to the end."""

import asyncio
import threading
import time

import pytest

from trainwright.controller.runtime.client.config import ExternalCredentials
from trainwright.controller.runtime.client.credentials import Credential
from trainwright.controller.runtime.client.external import ExternalAuthorization


async def test_a_request_that_gave_up_leaves_its_question_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once could use up one another's refresh token."""
    source = ExternalCredentials(kubeconfig=("x",), context="c", folder="/", plugin={})
    authorization = ExternalAuthorization(source)
    begun, go_on = threading.Event(), threading.Event()
    asked: list[int] = []

    def ask() -> tuple[Credential, float]:
        asked.append(1)
        begun.set()
        go_on.wait()
        return Credential("Bearer x"), time.time() + 60

    monkeypatch.setattr(authorization, "_ask", ask)
    for _ in range(3):
        impatient = asyncio.ensure_future(authorization.credential())
        await asyncio.to_thread(begun.wait)
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.gather(impatient, return_exceptions=True)
    last = asyncio.ensure_future(authorization.credential())
    await asyncio.sleep(0)
    go_on.set()
    assert (await last).header == "Bearer x"
    assert len(asked) == 1
    refused = await authorization.credential()
    assert len(asked) == 1
    await authorization.renew(refused)
    assert len(asked) == 2
