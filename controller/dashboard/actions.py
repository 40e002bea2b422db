# SPDX-License-Identifier: Apache-2.0
"""What a page may change: stop, resume, delete a job, and run its spec again as a new job.

Off by default, and on for a local cluster. What the user may do is asked of
the API server (SelfSubjectAccessReview), which checks it again when it is done.
"""

import asyncio
from contextlib import suppress

from trainwright.api.objects import Key, dig
from trainwright.api.rights import SELF_REVIEW
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.dashboard import contract
from trainwright.controller.runtime import Client, Forbidden, KubernetesError
from trainwright.controller.views import actions

OPTION = "--allow-changes"
VERBS: dict[str, str] = {"stop": "patch", "resume": "patch", "delete": "delete", "again": "create"}
"""Actions, and the verb on TrainJobs that each needs."""
ASKED_SECONDS = 60.0
"""Rights that were asked so short a time ago are not asked again."""
_JOB = TrainJob.RESOURCE


class Actions:
    def __init__(self, client: Client, *, is_on: bool) -> None:
        self._client, self._is_on = client, is_on
        self._allowed: dict[str, tuple[float, list[str]]] = {}
        """By namespace: when it was asked, and the verbs."""

    async def actions(self, key: Key) -> contract.Actions:
        """What the user may do with a job and others of its namespace."""
        verbs: list[str] = []
        if self._is_on:
            with suppress(KubernetesError):  # the page has no buttons then
                verbs = await self._verbs(key.namespace)
        return contract.Actions(allowed=[action for action, verb in VERBS.items() if verb in verbs])

    async def change(self, key: Key, action: str, uid: str) -> contract.ActionDone:
        """Do it. `uid`: of the job that the user sees. Raises KubernetesError whose text is for the user."""
        if not self._is_on:
            raise Forbidden(f"this dashboard only shows; start it with {OPTION}")
        job = await actions.job_at(self._client, key, uid)
        if action == "delete":
            await actions.delete(self._client, job)
            said = "is being deleted"
        elif action == "again":
            name = await actions.run_again(self._client, job)
            said = f"TrainJob {name} runs the spec of {key.name}"
            return contract.ActionDone(message=said, namespace=key.namespace, name=name)
        else:
            stops = action == "stop"
            is_new = await actions.suspend(self._client, job, on=stops)
            said = {
                (True, True): "is being stopped",
                (True, False): "is stopped already",
                (False, True): "goes on",
                (False, False): "is not stopped",
            }[stops, is_new]
        return contract.ActionDone(message=f"TrainJob {key.name} {said}", namespace=key.namespace, name="")

    async def _verbs(self, namespace: str) -> list[str]:
        now = asyncio.get_running_loop().time()
        if (known := self._allowed.get(namespace)) is not None and now - known[0] < ASKED_SECONDS:
            return known[1]
        verbs = sorted(set(VERBS.values()))
        answers = await asyncio.gather(*(self._may(namespace, verb) for verb in verbs))
        found = [verb for verb, may in zip(verbs, answers, strict=True) if may]
        self._allowed[namespace] = (now, found)
        return found

    async def _may(self, namespace: str, verb: str) -> bool:
        attributes = {"namespace": namespace, "verb": verb, "group": _JOB.group, "resource": _JOB.plural}
        review = {
            "apiVersion": SELF_REVIEW.api_version,
            "kind": SELF_REVIEW.kind,
            "spec": {"resourceAttributes": attributes},
        }
        answer = await self._client.create(review, kind=SELF_REVIEW)
        return bool(dig(answer, "status.allowed"))
