# SPDX-License-Identifier: Apache-2.0
"""Requests whose headers and paths are not UTF-8, over HTTPS: answered as kube-apiserver does, and never a defect."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.unit.local.identity.conftest import Asker
from trainwright.controller.local.cluster import RunningServer, api_server

MAPS, REVIEWS = "/api/v1/namespaces/default/configmaps", "/apis/authentication.k8s.io/v1/selfsubjectreviews"
BROKEN = b"\xff\xfe"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with api_server(tmp_path, memory=True) as running:
        yield running


async def asked(api: RunningServer, method: str, path: str, body: bytes = b"", **headers: bytes) -> tuple[int, Any]:
    """Status and document of a request whose bytes go out as they are; underscores of names are dashes."""
    parts = urlsplit(api.config.server)
    context = ssl.create_default_context(cadata=(api.config.ca_data or b"").decode())
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=context)
    headers = {"Authorization": f"Bearer {api.config.token}".encode(), "Content_Type": b"application/json"} | headers
    lines = [f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n".encode()]
    lines += [name.replace("_", "-").encode() + b": " + value + b"\r\n" for name, value in headers.items()]
    writer.write(b"".join(lines) + b"\r\n" + body)
    head, _, content = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), json.loads(content)


@pytest.mark.parametrize(
    "token", [BROKEN, "\N{LATIN SMALL LETTER E WITH ACUTE}".encode(), b"\xe9.\xe9.\xe9", b"e30.\xff.e30"]
)
async def test_a_token(api: RunningServer, token: bytes) -> None:
    status, answer = await asked(api, "GET", MAPS, Authorization=b"Bearer " + token)
    assert (status, answer["reason"]) == (401, "Unauthorized")


@pytest.mark.parametrize("token", ["\N{LATIN SMALL LETTER E WITH ACUTE}", "\udcff", "\ud800.\ud800.\ud800", "a\0b"])
async def test_a_token_past_the_socket(api: RunningServer, token: str) -> None:
    assert (await Asker(api)("GET", MAPS, token=token))[0] == 401
    assert (await Asker(api).review(token)).get("authenticated") is None


async def test_impersonation(api: RunningServer) -> None:
    status, answer = await asked(
        api, "POST", REVIEWS, b"{}", Impersonate_User=BROKEN, Impersonate_Group=BROKEN, Impersonate_Extra_a=BROKEN
    )
    assert (status, answer["status"]["userInfo"]["username"]) == (201, "\ufffd\ufffd")
    assert answer["status"]["userInfo"]["extra"] == {"a": ["\ufffd\ufffd"]}


@pytest.mark.parametrize("header", ["User_Agent", "Accept", "Accept_Encoding", "Origin", "Cookie", "Warning"])
async def test_other_headers(api: RunningServer, header: str) -> None:
    status, _ = await asked(api, "POST", MAPS, b'{"metadata":{"name":"a"}}', **{header: BROKEN})
    assert status == (406 if header == "Accept" else 201)


@pytest.mark.parametrize("query", ["fieldManager=%ff", "dryRun=%ff", "fieldValidation=%ff"])
async def test_queries_of_writes(api: RunningServer, query: str) -> None:
    status, answer = await asked(api, "POST", f"{MAPS}?{query}", b'{"metadata":{"name":"a"}}')
    assert status in (201, 422), answer


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"{MAPS}/%ff", 404),
        (f"{MAPS}/%ed%a0%80", 404),
        (f"{MAPS}?labelSelector=%ff", 400),
        (f"{MAPS}?fieldSelector=metadata.name%3D%ff", 200),
        (f"{MAPS}?resourceVersion=%ff", 400),
        (f"{MAPS}?continue=%ff", 400),
    ],
)
async def test_paths_and_queries_of_reads(api: RunningServer, path: str, expected: int) -> None:
    status, answer = await asked(api, "GET", path)
    assert status == expected, answer


async def test_a_body_is_read_as_it_is(api: RunningServer) -> None:
    body = b'{"metadata":{"name":"a"}}'
    assert (await asked(api, "POST", MAPS, body, Content_Encoding=b"gzip"))[0] == 201
