# SPDX-License-Identifier: Apache-2.0
"""The operator of docs/runtime/production.md as a user runs it outside a cluster."""

import asyncio
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from trainwright.api.kubernetes.admissionregistration.v1 import MutatingWebhookConfiguration
from trainwright.api.kubernetes.coordination.v1 import Lease
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.kubernetes.events.v1 import Event
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.errors import Forbidden
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.waiting import contains, equals, eventually

OPERATOR = Path(__file__).parents[3] / "docs" / "runtime" / "production_operator.py"


def answers(url: str) -> bytes:
    """The body of an answer with success, empty otherwise."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            body: bytes = answer.read()
            return body
    except (urllib.error.URLError, ConnectionError):
        return b""


@pytest.mark.parametrize("admission", [True, False])
async def test_operator(control_plane: ControlPlane, client: Client, namespace: str, admission: bool) -> None:
    hook, probe, metrics = free_port(), free_port(), free_port()
    environment = {
        "KUBECONFIG": str(control_plane.kubeconfig),
        "WEBHOOK_URL": f"https://127.0.0.1:{hook}" if admission else "",
        "WEBHOOK_ADDRESS": f"127.0.0.1:{hook}",
        "PROBE_ADDRESS": f"127.0.0.1:{probe}",
        "METRICS_ADDRESS": f"127.0.0.1:{metrics}",
    }
    name = f"greeter-{namespace}"
    command = ["env", *(f"{key}={value}" for key, value in environment.items()), sys.executable, str(OPERATOR)]

    def ready() -> bool:
        return bool(answers(f"http://127.0.0.1:{probe}/readyz"))

    await asyncio.to_thread(control_plane.launch, name, command, ready=ready)
    try:
        meta = {"name": "world", "namespace": namespace, "labels": {"greeting": "yes"}}
        wanted = {"metadata": meta, "data": {"name": "100%s"}}

        async def greeting() -> object:
            return (await client.create(wanted, kind=ConfigMap.RESOURCE, dry_run=True))["data"].get("greeting")

        async def refusal() -> str:
            try:
                wrong = {"metadata": meta, "data": {"name": "", "greeting": ""}}
                await client.create(wrong, kind=ConfigMap.RESOURCE, dry_run=True)
            except Forbidden as error:
                return error.message
            return ""

        if admission:
            # API servers learn of each configuration a moment after it was written.
            await eventually(greeting, equals("Hello"))
            await eventually(refusal, contains("[data.greeting: must not be empty, data.name: must not be empty]"))
        made = await client.create(wanted, kind=ConfigMap.RESOURCE)
        assert made["data"].get("greeting") == ("Hello" if admission else None)

        async def notes() -> list[str]:
            return [e.note or "" for e in (await client.list(Event, namespace)).items]

        assert await eventually(notes) == ["Hello, 100%s!" if admission else "None, 100%s!"]
        scraped = answers(f"http://127.0.0.1:{metrics}/metrics")
        assert b'leader_election_master_status{name="greeter"} 1.0' in scraped
        assert b'event_recorder_writes_total{verb="create"}' in scraped
        assert (b"controller_runtime_webhook_requests_total" in scraped) == admission
    finally:
        await asyncio.to_thread(control_plane.stop_program, name)
    lease = await client.get(Lease, "greeter", "default")
    assert lease.spec is not None
    assert lease.spec.holder_identity == "", "released at the end"
    left = [c.name for c in (await client.list(MutatingWebhookConfiguration)).items]
    assert "greeter" not in left
    await eventually(lambda: not answers(f"http://127.0.0.1:{probe}/healthz"), what="the process has ended")
