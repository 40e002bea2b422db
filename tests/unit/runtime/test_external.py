# SPDX-License-Identifier: Apache-2.0
"""Credentials of a plugin, and requests that do not wait for them to the end."""

import asyncio
import math
import threading
import time

import pytest

from trainwright.controller.runtime.client import external
from trainwright.controller.runtime.client.config import ExternalCredentials
from trainwright.controller.runtime.client.credentials import Credential
from trainwright.controller.runtime.client.external import ExternalAuthorization
from trainwright.controller.runtime.errors import ConfigurationError


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


def waiting(
    source: ExternalCredentials, monkeypatch: pytest.MonkeyPatch
) -> tuple[ExternalAuthorization, threading.Event]:
    """A plugin that waits for a login."""
    authorization, login = ExternalAuthorization(source), threading.Event()

    def ask() -> tuple[Credential, float]:
        login.wait()
        return Credential("Bearer new"), math.inf

    monkeypatch.setattr(authorization, "_ask", ask)
    return authorization, login


async def test_a_plugin_that_waits_for_a_login_is_named_and_its_late_answer_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = ExternalCredentials(kubeconfig=("x",), context="c", folder="/", plugin={"command": "login-here"})
    authorization, login = waiting(source, monkeypatch)
    monkeypatch.setattr(external, "ASK_SECONDS", 0.05)
    errors = await asyncio.gather(*(authorization.credential() for _ in range(3)), return_exceptions=True)
    for error in errors:
        assert isinstance(error, ConfigurationError)
        assert str(error) == (
            "credentials of context 'c': the plugin login-here has not answered within 0.05 s; if it waits for a login,"
            " log in and try again"
        )
    monkeypatch.setattr(external, "ASK_SECONDS", 30.0)
    login.set()
    assert (await authorization.credential()).header == "Bearer new"


async def test_requests_with_a_credential_go_on_while_another_one_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    source = ExternalCredentials(kubeconfig=("x",), context="c", folder="/", plugin={})
    authorization, login = waiting(source, monkeypatch)
    old = authorization._credential = Credential("Bearer old")
    authorization._good_until = math.inf
    refused = asyncio.ensure_future(authorization.renew(old))
    await asyncio.sleep(0)
    assert await authorization.credential() == old
    login.set()
    assert (await refused) == Credential("Bearer new")


def test_the_end_of_the_loop_does_not_wait_for_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    source = ExternalCredentials(kubeconfig=("x",), context="c", folder="/", plugin={})
    monkeypatch.setattr(external, "ASK_SECONDS", 0.01)
    logins: list[threading.Event] = []

    async def ask() -> None:
        authorization, login = waiting(source, monkeypatch)
        logins.append(login)
        with pytest.raises(ConfigurationError):
            await authorization.credential()

    asyncio.run(ask())  # would not return before the login
    logins[0].set()
