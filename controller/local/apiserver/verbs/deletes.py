# SPDX-License-Identifier: Apache-2.0
"""Deletions: at once, after a grace period, or once finalizers are gone.

https://kubernetes.io/docs/concepts/architecture/garbage-collection/ has the policies; dependents are the garbage
collector's, which finds the finalizers that are set here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.conversion import Conversions
from trainwright.controller.local.apiserver.admission.request import AdmissionRequest, Chain
from trainwright.controller.local.apiserver.kinds.metadata import FOREGROUND, ORPHAN, set_or_drop
from trainwright.controller.local.apiserver.request import bodies
from trainwright.controller.local.apiserver.request.info import (
    RequestInfo,
    WriteQuery,
    dry_run_errors,
    whole_number,
)
from trainwright.controller.local.apiserver.store import Changed, ObjectStore, StoredObject
from trainwright.controller.local.types.errors import invalid, not_supported
from trainwright.controller.local.types.go_json import DocumentDecodeError, decode
from trainwright.controller.local.types.model import builtin, models_by_kind

_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    grace: int | None = None
    """Seconds."""
    uid: str | None = None
    version: str | None = None
    orphans: bool | None = None
    policy: str = ""
    dry_run: bool = False

    @property
    def as_write(self) -> WriteQuery:
        return WriteQuery(manager="", dry_run=self.dry_run, validation="")


class Deletes:
    def __init__(self, store: ObjectStore, admission: Chain, conversions: Conversions) -> None:
        self._store = store
        self._admission = admission
        self._conversions = conversions

    async def delete(self, call: RequestInfo, options: DeleteOptions) -> tuple[Document, bool]:
        """Delete one object. Returns its last state and whether it is gone. Raises StatusError."""
        collection = call.resource.stored_in
        while True:
            existing = self._store.get(collection, call.key)
            if existing is None:
                raise call.not_found()
            try:
                return await self._delete(call, options, existing)
            except Changed:
                continue

    async def _delete(self, call: RequestInfo, options: DeleteOptions, existing: StoredObject) -> tuple[Document, bool]:
        strategy, served = call.resource.strategy, call.resource
        document = await self._conversions.served(served, existing.document())
        meta = document["metadata"]
        check_preconditions(call, options, meta)
        strategy.before_delete(document)
        seconds = _begin_grace(call, options, document)
        if seconds is not None and seconds < 0:
            await self._store.committed()
            return document, False
        before = await self._conversions.served(served, existing.document())
        request = AdmissionRequest(call, "DELETE", None, before, options.as_write)
        await self._admission.mutate(request)
        await self._admission.validate(request)
        _set_policy(call, options, meta)
        waits = bool(meta.get("finalizers")) or strategy.is_held(document)
        if seconds is None and waits:
            _mark(call, document)
        stays = waits or bool(seconds)
        if options.dry_run:
            await self._store.committed()
            return document, not stays
        marked = await self._conversions.stored(served, document)
        if (seconds is not None or waits) and document != before:
            existing = self._store.write(served.stored_in, call.key, marked, existing)
        if not stays:
            # Nothing is awaited between the mark, which watchers see first, and the removal: the client may go at any
            # moment, and nothing else would remove what is only marked.
            existing = self._store.delete(served.stored_in, existing)
        await self._store.committed()
        return await self._conversions.served(served, existing.document()), not stays


def _begin_grace(call: RequestInfo, options: DeleteOptions, document: Document) -> int | None:
    """Mark a graceful deletion in the metadata. Returns its seconds.

    None for another deletion, -1 for an object that is being deleted and that this request does not change.
    """
    strategy, meta = call.resource.strategy, document["metadata"]
    asked = 1 if options.grace is not None and options.grace < 0 else options.grace
    if not strategy.graceful:
        return None
    period: int | None = meta.get("deletionGracePeriodSeconds")
    if meta.get("deletionTimestamp"):
        if not period:
            return None
        if asked is None or asked >= period:
            return -1
        moment = times.parse(meta["deletionTimestamp"]) - timedelta(seconds=period) + timedelta(seconds=asked)
        if moment < call.now:
            moment, asked = call.now, min(asked, 1)
        meta["deletionTimestamp"] = times.format_time(moment)
        meta["deletionGracePeriodSeconds"] = asked
        return asked
    seconds = strategy.grace_of(document, asked)
    if seconds is None:
        return None
    meta["deletionTimestamp"] = times.format_time(call.now + timedelta(seconds=seconds))
    meta["deletionGracePeriodSeconds"] = seconds
    if meta.get("generation"):
        meta["generation"] += 1
    strategy.begin_deletion(document)
    return seconds


def _set_policy(call: RequestInfo, options: DeleteOptions, meta: Document) -> None:
    """Set or remove the finalizers that tell the garbage collector what to do with dependents."""
    strategy, old = call.resource.strategy, meta.get("finalizers") or []
    policy = _policy(options, old, by_default=strategy.orphans_by_default)
    new = [*(name for name in old if name not in (ORPHAN, FOREGROUND)), *([policy] if policy else [])]
    if strategy.collects_garbage and set(new) != set(old):
        set_or_drop(meta, "finalizers", new or None)


def _mark(call: RequestInfo, document: Document) -> None:
    meta = document["metadata"]
    plain = call.resource.strategy.marks_time_only
    begins = not meta.get("deletionTimestamp")
    if begins or times.parse(meta["deletionTimestamp"]) > call.now:
        meta["deletionTimestamp"] = times.format_time(call.now)
    if begins:
        if meta.get("generation") and not plain:
            meta["generation"] += 1
        call.resource.strategy.begin_deletion(document)
    if not plain:
        meta["deletionGracePeriodSeconds"] = 0


def _policy(options: DeleteOptions, finalizers: list[str], *, by_default: bool) -> str:
    """The finalizer that leaves dependents or deletes them first; empty where they go later."""
    if options.orphans is not None:
        return ORPHAN if options.orphans else ""
    if options.policy:
        return {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(options.policy, "")
    known = (name for name in finalizers if name in (ORPHAN, FOREGROUND))
    return next(known, ORPHAN if by_default else "")


def check_preconditions(call: RequestInfo, options: DeleteOptions, meta: Document) -> None:
    """Refuse to delete an object that is not the one that is meant. Raises StatusError."""
    for what, wanted, found, might in (
        ("UID", options.uid, meta["uid"], "deleted and then recreated"),
        ("ResourceVersion", options.version, meta["resourceVersion"], "modified"),
    ):
        if wanted is not None and wanted != found:
            why = f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found})"
            text = f"{why}. The object might have been {might}"
            raise errors.conflict(call.group, call.kind, str(meta["name"]), text)


def read_options(call: RequestInfo) -> DeleteOptions:
    """The options of a deletion, from the body or else from the query. Raises StatusError."""
    if not call.request.body:
        return checked_options(_from_query(call))
    kind = "DeleteOptions"
    document = bodies.decoded(call, protobuf_as=("v1", kind))
    given: Document = {} if document is None else document
    problem = bodies.wrong_type_meta(given)
    if problem is None and (given.get("kind") or kind) != kind:
        problem = f"{given['kind']} is not DeleteOptions"
    if problem is not None:
        raise errors.bad_request(problem)
    try:
        decode(builtin(models_by_kind()["v1", kind]), given)
    except DocumentDecodeError as error:
        raise errors.bad_request(str(error)) from error
    return checked_options(given)


def _from_query(call: RequestInfo) -> Mapping[str, Any]:
    request = call.request
    preconditions = {name: request.param(name) or None for name in ("uid", "resourceVersion")}
    given: dict[str, Any] = {"dryRun": request.all("dryRun"), "preconditions": preconditions}
    if request.has_param("gracePeriodSeconds"):
        given["gracePeriodSeconds"] = whole_number(request.param("gracePeriodSeconds"))
    if request.has_param("orphanDependents"):
        given["orphanDependents"] = request.flag("orphanDependents")
    return {**given, "propagationPolicy": request.param("propagationPolicy") or None}


def checked_options(given: Mapping[str, Any]) -> DeleteOptions:
    """DeleteOptions in wire form, checked. Raises StatusError."""
    policy, orphans = given.get("propagationPolicy"), given.get("orphanDependents")
    dry_run = given.get("dryRun") or []
    found = []
    if policy is not None and orphans is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        found.append(invalid("propagationPolicy", policy, text))
    if policy is not None and policy not in _POLICIES:
        found.append(not_supported("propagationPolicy", policy, (*_POLICIES, "nil")))
    found += dry_run_errors(dry_run)
    if found:
        raise errors.invalid("meta.k8s.io", "DeleteOptions", "", found)
    preconditions = given.get("preconditions") or {}
    return DeleteOptions(
        grace=given.get("gracePeriodSeconds"),
        uid=preconditions.get("uid"),
        version=preconditions.get("resourceVersion"),
        orphans=orphans,
        policy=policy or "",
        dry_run=bool(dry_run),
    )
