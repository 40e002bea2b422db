# SPDX-License-Identifier: Apache-2.0
"""What a user asks for, and when it is over."""

from typing import Any

from tests.integration.local.controllers.conftest import CONTAINER, World, conditions
from trainwright.api.objects import Document, name_of
from trainwright.controller.local.controllers.objects import JOB, JOBSET


def replicated(name: str, replicas: int = 1, pods: int = 1, **fields: Any) -> Document:
    job = {"completions": pods, "parallelism": pods, "backoffLimit": 0, "template": template(), **fields}
    return {"name": name, "replicas": replicas, "template": {"spec": job}}


def template(**fields: Any) -> Document:
    return {
        "metadata": {"labels": {"mine": "yes"}, "annotations": {"note": "kept"}},
        "spec": {"containers": [CONTAINER], "terminationGracePeriodSeconds": 1, **fields},
    }


async def ended(world: World, name: str = "train") -> None:
    await world.until(JOBSET, name, lambda js: {"Completed", "Failed"} & conditions(js).keys())


async def job_ended(world: World, name: str = "job") -> None:
    await world.until(JOB, name, lambda job: {"Complete", "Failed"} & conditions(job).keys())


def of(pods: list[Document], prefix: str) -> list[Document]:
    return [pod for pod in pods if name_of(pod).startswith(prefix)]
