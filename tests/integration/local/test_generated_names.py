# SPDX-License-Identifier: Apache-2.0
"""Scenario 6: names for `generateName` that are taken. No real server can be made to draw the same names again."""

import json

import pytest

from tests.scenarios.sides import local_side
from trainwright.api import objects
from trainwright.controller.runtime.client.transport import Request

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def creation(metadata: dict[str, str]) -> Request:
    headers = {"Content-Type": "application/json"}
    return Request("POST", CONFIG_MAPS, headers=headers, body=json.dumps({"metadata": metadata}).encode())


@pytest.mark.parametrize(("taken", "status"), [(7, 201), (8, 409)])
async def test_eight_names_are_tried(monkeypatch: pytest.MonkeyPatch, taken: int, status: int) -> None:
    drawn = 0

    def letters(_: str, count: int) -> str:
        nonlocal drawn
        drawn += 1
        return ("b" if drawn <= taken else "c") * count

    monkeypatch.setattr(objects, "letters", letters)
    async with local_side() as side:
        transport = side.transport()
        assert (await transport.send(creation({"name": "job-bbbbb"}))).status == 201
        answer = await transport.send(creation({"generateName": "job-"}))
    said = json.loads(answer.body)
    assert answer.status == status
    assert drawn == 8
    if status == 409:
        # The text of k8s.io/apimachinery, NewGenerateNameConflict.
        unable = "the server was not able to generate a unique name for the object"
        assert said["message"] == f'configmaps "job-bbbbb" already exists, {unable}'
        assert (said["reason"], answer.headers["retry-after"]) == ("AlreadyExists", "1")
