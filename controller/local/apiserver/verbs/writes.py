# SPDX-License-Identifier: Apache-2.0
"""Creations, updates and patches: from a decoded body to a stored object.

The order is the real server's: managed fields, mutating admission, the kind's own preparation, validation, validating
admission, the write. A write that meets another one in between begins again with what is there now.
"""

from collections.abc import Callable

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.conversion import Conversions
from trainwright.controller.local.apiserver.admission.request import AdmissionRequest, Chain
from trainwright.controller.local.apiserver.kinds import metadata
from trainwright.controller.local.apiserver.kinds.validation import validate_metadata, validate_metadata_update
from trainwright.controller.local.apiserver.merge.fieldmanager import check_entries, without_managed_fields
from trainwright.controller.local.apiserver.merge.fieldset import EntryError, UnfitObjectError
from trainwright.controller.local.apiserver.merge.managedfields import without_new_times
from trainwright.controller.local.apiserver.request.info import RequestInfo, WriteQuery, go_integer
from trainwright.controller.local.apiserver.store import Changed, ObjectName, ObjectStore, StoredObject
from trainwright.controller.local.apiserver.verbs.scale import at_endpoint, is_scale, scaled
from trainwright.controller.local.types.errors import DocumentError, invalid
from trainwright.controller.local.values import copied

NAME_TRIES = 8
"""How many names are generated where the first ones are taken."""
_NO_NAME = ", the server was not able to generate a unique name for the object"
_OWNERS_TWICE = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)
_ENTRIES_BROKEN = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating "
    "admission controller; please fix your requests: {}"
)

Transform = Callable[[Document | None], Document]
"""Makes the new object from the live one, which is None where there is none; it may share branches with it.

It is called again where the object changed meanwhile, so its results share nothing with each other."""


class ResourceWrites:
    def __init__(self, store: ObjectStore, admission: Chain, conversions: Conversions) -> None:
        self._store = store
        self._admission = admission
        self._conversions = conversions
        self.committed = store.committed

    async def create(self, call: RequestInfo, document: Document, options: WriteQuery) -> Document:
        """Create an object from a body with defaults. Returns it as stored. Raises StatusError."""
        meta = metadata.metadata_of(document)
        metadata.wipe(meta)
        metadata.set_namespace(meta, call.namespace)
        call.name = call.name or meta.get("name") or ""
        _drop_double_owners(call, meta)
        document = track(call, None, document, options)
        document = await self._mutated(call, document, None, options)
        generated = bool(document["metadata"].get("generateName")) and not document["metadata"].get("name")
        for _ in range(NAME_TRIES if generated else 1):
            attempt = copied(document) if generated else document
            try:
                return await self._create(call, attempt, options, create_only=True)
            except Changed:
                call.name = attempt["metadata"]["name"]
        if generated:
            raise errors.already_exists(call.group, call.plural, call.name, _NO_NAME, retryAfterSeconds=1)
        error = errors.already_exists(call.group, call.plural, call.name)
        existing = self._store.get(call.resource.stored_in, call.key)
        if existing is not None and existing.document()["metadata"].get("deletionTimestamp"):
            error.message = f"object is being deleted: {error.message}"
        raise error

    async def _create(
        self, call: RequestInfo, document: Document, options: WriteQuery, *, create_only: bool = False
    ) -> Document:
        """Raises Changed where the name is taken."""
        served, strategy, meta = call.resource, call.resource.strategy, document["metadata"]
        if served.ending:
            why = "create not allowed while custom resource definition is terminating"
            raise errors.forbidden(call.group, call.plural, str(meta.get("name") or ""), why)
        metadata.begin(meta, call.now)
        strategy.prepare_for_create(document)
        known = validate_metadata(meta, namespaced=served.namespaced, name_rule=strategy.name_rule)
        _check(call, document, None, known)
        if create_only and str(meta.get("resourceVersion") or "").strip("0").isdigit():
            # Only the store gives versions. A PUT that creates may say one.
            raise errors.plain_internal("resourceVersion should not be set on objects to be created")
        call.name = str(meta.get("name") or "")
        await self._admission.validate(AdmissionRequest(call, "CREATE", document, None, options))
        key = ObjectName(call.namespace if served.namespaced else "", call.name)
        stored = await self._conversions.stored(served, document)
        if options.dry_run:
            if self._store.get(served.stored_in, key) is not None:
                raise Changed
            return await self._conversions.served(served, stored)
        one = self._store.write(served.stored_in, key, stored, None)
        await self._store.committed()
        return await self._conversions.served(served, one.document())

    async def update(
        self, call: RequestInfo, transform: Transform, options: WriteQuery, *, create: bool
    ) -> tuple[Document, bool]:
        """Make a new object of the live one and store it. Returns it, and whether it was created. Raises StatusError.

        The transform makes the new object with defaults and managed fields; at `scale`, its Scale.
        """
        served = call.resource
        while True:
            existing = self._store.get(served.stored_in, call.key)
            if existing is None and not create:
                raise call.not_found()
            try:
                if existing is None:
                    new = await self._mutated(call, transform(None), None, options)
                    return await self._create(call, new, options), True
                live, own = [await self._conversions.served(served, existing.document()) for _ in range(2)]
                new = await self._mutated(call, transform(own), at_endpoint(call, live), options)
                if is_scale(call):
                    new = scaled(call, live, new, call.manager(options))
                return await self._replace(call, new, live, existing, options), False
            except Changed:
                continue

    def begin_change(self, call: RequestInfo, transform: Callable[[Document], Document], options: WriteQuery) -> None:
        """Change a stored object past the rules of its kind, for endpoints that have their own. Raises StatusError.

        Whoever calls it waits for the commit, perhaps with another change that belongs to it.
        """
        existing = self._store.get(call.resource.stored_in, call.key)
        if existing is None:
            raise call.not_found()
        live = call.resource.named(existing.document())
        new = transform(live)
        if not options.dry_run and new != call.resource.named(existing.document()):
            self._store.write(call.resource.stored_in, call.key, call.resource.stored(new), existing)

    async def _replace(
        self, call: RequestInfo, new: Document, live: Document, existing: StoredObject, options: WriteQuery
    ) -> Document:
        served, strategy, old = call.resource, call.resource.strategy, live["metadata"]
        endpoint = "" if is_scale(call) else call.subresource
        self._check_version(call, new["metadata"], old)
        metadata.set_namespace(new["metadata"], call.namespace)
        if "generation" in old:
            new["metadata"]["generation"] = old["generation"]
        else:
            new["metadata"].pop("generation", None)
        strategy.prepare_for_update(new, live, endpoint)
        meta = new["metadata"]  # custom resources take all of it from the stored object where the status is written
        metadata.keep_system_fields(meta, old)
        known = validate_metadata(meta, namespaced=served.namespaced) + validate_metadata_update(meta, old)
        _check(call, new, live, known, endpoint)
        new = without_new_times(live, new)
        both = at_endpoint(call, new), at_endpoint(call, live)
        await self._admission.validate(AdmissionRequest(call, "UPDATE", *both, options))
        if _goes_now(new["metadata"], old) and not strategy.is_held(new):
            if not options.dry_run:
                self._store.delete(served.stored_in, existing)
                await self._store.committed()
            return new
        stored = await self._conversions.stored(served, new)
        if new == live and (not served.custom or stored == existing.document()):
            # What is stored of a custom resource may still have the form of an older schema.
            await self._store.committed()
            return live
        if options.dry_run:
            return await self._conversions.served(served, stored)
        one = self._store.write(served.stored_in, call.key, stored, existing)
        await self._store.committed()
        return await self._conversions.served(served, one.document())

    def _check_version(self, call: RequestInfo, meta: Document, old: Document) -> None:
        try:
            version = version_of(meta)
        except ValueError as error:
            raise errors.plain_internal(str(error)) from error
        if not version:
            if not call.resource.strategy.unconditional_update:
                missing = invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise errors.invalid(call.group, call.plural, call.name, [missing])
            meta["resourceVersion"] = old["resourceVersion"]
        elif version != int(old["resourceVersion"]):
            raise call.conflict()

    async def _mutated(self, call: RequestInfo, new: Document, live: Document | None, options: WriteQuery) -> Document:
        before = new["metadata"].get("managedFields")
        request = AdmissionRequest(call, "CREATE" if live is None else "UPDATE", new, live, options)
        await self._admission.mutate(request)
        made = request.new
        assert made is not None
        meta = metadata.metadata_of(made)
        if made is not new:
            try:
                check_entries(made)
            except EntryError as error:
                call.warn(_ENTRIES_BROKEN.format(error))
                meta["managedFields"] = before
        _drop_double_owners(call, meta, " after mutating admission happens")
        return made


def _drop_double_owners(call: RequestInfo, meta: Document, when: str = "") -> None:
    doubled = metadata.without_duplicate_owners(meta)
    if doubled:
        call.warn(_OWNERS_TWICE.format(when, ", ".join(doubled)))


def _check(
    call: RequestInfo, new: Document, old: Document | None, known: list[DocumentError], endpoint: str = ""
) -> None:
    """Raises StatusError for an object with errors, which names the kind that it says it is of; else warns."""
    strategy = call.resource.strategy
    if found := _type_errors(call, new, known) or strategy.errors(known, new, old, endpoint):
        group = strategy.error_group
        if group is None:
            group = str(new["apiVersion"]).rpartition("/")[0]
        raise errors.invalid(group, str(new["kind"]), str(new["metadata"].get("name") or ""), found)
    undone = [] if old is None else strategy.undone(old)
    for text in (*(one for one in strategy.undone(new) if one not in undone), *strategy.warnings(new, old)):
        call.warn(text)


def version_of(meta: Document) -> int:
    """The version that an object says; 0 for none. Raises ValueError if it is no number."""
    return go_integer(str(meta.get("resourceVersion") or "0"), signed=False)


def _type_errors(call: RequestInfo, document: Document, known: list[DocumentError]) -> list[DocumentError]:
    """Errors of a custom resource that says another kind or version: then its schema is not looked at."""
    given = (document["kind"], document["apiVersion"])
    wanted = (call.resource.kind, call.resource.api_version)
    if not call.resource.custom or given == wanted:
        return []
    names = zip(("kind", "apiVersion"), given, wanted, strict=True)
    return [*known, *(invalid(name, said, f"must be {right}") for name, said, right in names if said != right)]


def _goes_now(meta: Document, old: Document) -> bool:
    """Whether an update takes away the last thing that a deletion waited for."""
    return (
        not meta.get("finalizers") and bool(old.get("deletionTimestamp")) and not old.get("deletionGracePeriodSeconds")
    )


def track(call: RequestInfo, live: Document | None, new: Document, options: WriteQuery) -> Document:
    """The new object with managed fields for an update by the one who asks."""
    manager = call.resource.managers.get(call.subresource)
    if manager is None:
        if not new["metadata"].get("managedFields"):
            new["metadata"].pop("managedFields", None)
        return new
    try:
        made = manager.update(live, new, call.manager(options), now=call.now)
    except UnfitObjectError:
        # As the real server: the write goes on, and what is owned is not known any more.
        made = without_managed_fields(new)
    if made is not new and made.get("metadata") is new.get("metadata"):
        made = {**made, "metadata": dict(made["metadata"])}
    return made
