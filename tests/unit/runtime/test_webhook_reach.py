# SPDX-License-Identifier: Apache-2.0
"""A proof that fails makes the webhooks not ready. tests/integration has the proof through a real API server."""

import asyncio

from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import ServerError
from trainwright.controller.runtime.testing.clock import jumping
from trainwright.controller.runtime.testing.scripted import ScriptedTransport
from trainwright.controller.runtime.webhook.reach import Proof, Reach


def reach(proof: Proof) -> Reach:
    """Of no webhook, so that nothing but the proof is asked."""
    return Reach(Client(ScriptedTransport()), [], lambda: ("127.0.0.1", 1), proof=proof)


@jumping
async def test_proof_that_never_ends_is_given_up() -> None:
    assert await reach(asyncio.Event().wait).check() == "the API server cannot reach this server: no answer"


@jumping
async def test_proof_is_asked_until_it_succeeds_and_then_no_more() -> None:
    answers: list[Exception | None] = [ServerError("failed calling webhook", code=500), None]

    async def proof() -> None:
        if (error := answers.pop(0)) is not None:
            raise error

    asked = reach(proof)
    assert await asked.check() == "the API server cannot reach this server: failed calling webhook"
    assert await asked.check() is None
    assert await asked.check() is None
    assert not answers
