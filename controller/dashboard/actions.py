# SPDX-License-Identifier: Apache-2.0
"""What a page may change: stop, resume, delete a job, and run its spec again as a new job.

Off unless whoever started the dashboard said otherwise; on a local cluster it is on. What the user may do is asked of
the API server (SelfSubjectAccessReview), which checks it again when it is done.
"""

import asyncio

from trainwright.api.base import Resource
from trainwright.api.objects import Document, Key, dig
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.dashboard import contract
from trainwright.controller.runtime import Client, Conflict, Forbidden, KubernetesError, NotFound
from trainwright.controller.views.ended import end_of

OPTION = "--allow-changes"
VERBS: dict[str, str] = {"stop": "patch", "resume": "patch", "delete": "delete", "again": "create"}
"""Actions, and the verb on TrainJobs that each needs."""
ASKED_SECONDS = 60.0
"""Rights that were asked so short a time ago are not asked again."""
_REVIEW = Resource(
    group="authorization.k8s.io",
    version="v1",
    kind="SelfSubjectAccessReview",
    plural="selfsubjectaccessreviews",
    namespaced=False,
)
_JOB = TrainJob.RESOURCE
_NOT_COPIED = ("kubectl.kubernetes.io/", "trainwright.dev/git-")
"""Begins of annotations that say how the first job was made."""
_LONGEST = 40
"""A name that is generated is not longer than that, or than the one that it is made of: pods have longer ones."""
_SUFFIX = 6


class Actions:
    def __init__(self, client: Client, *, is_on: bool) -> None:
        self._client, self._is_on = client, is_on
        self._allowed: dict[str, tuple[float, list[str]]] = {}
        """By namespace: when it was asked, and the verbs."""

    async def actions(self, key: Key) -> contract.Actions:
        """What the user may do with a job and others of its namespace."""
        if not self._is_on:
            why = f"this dashboard only shows; start it with {OPTION} to stop, resume, delete and repeat jobs"
            return contract.Actions(allowed=[], why=why)
        try:
            verbs = await self._verbs(key.namespace)
        except KubernetesError as error:
            return contract.Actions(allowed=[], why=f"your rights cannot be asked for: {error.message}")
        allowed = [action for action, verb in VERBS.items() if verb in verbs]
        missing = sorted({verb for verb in VERBS.values() if verb not in verbs})
        why = f"no right to {' and '.join(missing)} TrainJobs in namespace {key.namespace}" if missing else ""
        return contract.Actions(allowed=allowed, why=why)

    async def change(self, key: Key, action: str, uid: str) -> contract.ActionDone:
        """Do it. `uid`: of the job that the user sees. Raises KubernetesError whose text is for the user."""
        if not self._is_on:
            raise Forbidden(f"this dashboard only shows; start it with {OPTION}")
        try:
            job = await self._client.get(_JOB, key.name, key.namespace)
        except NotFound as error:
            raise NotFound(f"TrainJob {key.name} was deleted") from error
        if job["metadata"]["uid"] != uid:
            raise Conflict(f"TrainJob {key.name} was deleted and created again meanwhile; look at it again")
        if action == "delete":
            await self._client.delete(_JOB, key.name, key.namespace, uid=uid, propagation="Foreground")
            return contract.ActionDone(message=f"{key.name} is being deleted", namespace=key.namespace, name="")
        if action == "again":
            made = await self._client.create(again(job), kind=_JOB)
            name = str(made["metadata"]["name"])
            return contract.ActionDone(
                message=f"{name} runs the spec of {key.name}", namespace=key.namespace, name=name
            )
        return await self._suspend(key, job, suspend=action == "stop")

    async def _suspend(self, key: Key, job: Document, *, suspend: bool) -> contract.ActionDone:
        if (ended := end_of(job)) is not None:
            advice = "" if suspend else "; run it again instead"
            raise Conflict(f"TrainJob {key.name} has ended: it is {ended['type']}{advice}")
        if bool(job["spec"].get("suspend")) is suspend:
            said = "is stopped already" if suspend else "is not stopped"
        else:
            patch = {"metadata": {"uid": job["metadata"]["uid"]}, "spec": {"suspend": suspend}}
            await self._client.patch(_JOB, key.name, key.namespace, patch)
            said = "is being stopped" if suspend else "goes on"
        return contract.ActionDone(message=f"{key.name} {said}", namespace=key.namespace, name="")

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
        review = {"apiVersion": _REVIEW.api_version, "kind": _REVIEW.kind, "spec": {"resourceAttributes": attributes}}
        answer = await self._client.create(review, kind=_REVIEW)
        return bool(dig(answer, "status.allowed"))


def again(job: Document) -> Document:
    """A new job of the same spec, with a name that the API server makes."""
    metadata = job["metadata"]
    name = str(metadata["name"])
    base = str(metadata.get("generateName") or f"{name}-")
    longest = max(_LONGEST, len(name)) - _SUFFIX + 1
    if len(base) > longest:
        base = base[:longest].rstrip("-.") + "-"
    annotations = {
        one: value for one, value in (metadata.get("annotations") or {}).items() if not one.startswith(_NOT_COPIED)
    }
    spec = {field: value for field, value in job["spec"].items() if field != "suspend"}
    made: Document = {
        "apiVersion": _JOB.api_version,
        "kind": _JOB.kind,
        "metadata": {"generateName": base, "namespace": metadata["namespace"]},
        "spec": spec,
    }
    if metadata.get("labels"):
        made["metadata"]["labels"] = dict(metadata["labels"])
    if annotations:
        made["metadata"]["annotations"] = annotations
    return made
