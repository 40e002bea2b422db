# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions themselves: their defaults, names and errors. `rules/definitions.json` has most of these.

The server holds what all versions have alike in one place, and its messages say so: `spec.validation` is the schema of
each version. Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation`. Costs of rules are not estimated.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from trainwright.api import names
from trainwright.api.conditions import is_true, set_condition
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.formats import Errors
from trainwright.controller.local.apiserver.kinds.metadata import set_or_drop
from trainwright.controller.local.apiserver.kinds.rules import check, check_change, register
from trainwright.controller.local.apiserver.kinds.strategy import ResetFields, Strategy
from trainwright.controller.local.apiserver.kinds.structural import SchemaReview
from trainwright.controller.local.apiserver.kinds.validation import validate_metadata, validate_metadata_update
from trainwright.controller.local.apiserver.schema.rules import FieldPathError, resolve
from trainwright.controller.local.types.errors import DocumentError, duplicate, invalid, required, too_many
from trainwright.controller.local.types.model import custom_part
from trainwright.controller.local.values import quoted

_RULES = "apiextensions.k8s.io/v1 CustomResourceDefinition"
_MOST_SELECTABLE = 8
_SHARED = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer under which the objects of a definition are deleted before it."""
PENDING = "InstanceDeletionPending"
"""The reason of the condition Terminating until the objects of a definition are being deleted."""


def set_terminating(document: Document, reason: str, message: str, moment: str) -> None:
    """Say in the condition Terminating how far the deletion is."""
    state = document.get("status") or {}
    condition = {"type": "Terminating", "status": "True", "reason": reason, "message": message}
    document["status"] = {**state, "conditions": set_condition(state.get("conditions"), condition, at=moment)}


class DefinitionStrategy(Strategy):
    """The strategy of CustomResourceDefinitions."""

    unconditional_update = False
    marks_time_only = True
    reset_fields: ResetFields = {"": (("status",),), "status": (("spec",),)}  # noqa: RUF012 - never changed

    def default(self, document: Document) -> None:
        set_defaults(document)

    def prepare_for_create(self, document: Document) -> None:
        document["metadata"]["generation"] = 1
        names = {"plural": "", "kind": ""}
        document["status"] = {"conditions": None, "acceptedNames": names, "storedVersions": _storage(document)}

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        if subresource == "status":
            set_or_drop(new, "spec", old.get("spec"))
            return
        set_or_drop(new, "status", old.get("status"))
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
        stored = (new.get("status") or {}).get("storedVersions") or []
        if missing := [name for name in _storage(new) if name not in stored]:
            new["status"] = {**(new.get("status") or {}), "storedVersions": [*stored, *missing]}

    def begin_deletion(self, document: Document) -> None:
        finalizers = document["metadata"].get("finalizers") or []
        if CLEANUP not in finalizers:
            document["metadata"]["finalizers"] = [*finalizers, CLEANUP]
        text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        set_terminating(document, PENDING, text, document["metadata"]["deletionTimestamp"])

    def is_held(self, document: Document) -> bool:
        # Until the first deletion, which adds the finalizer.
        return not document["metadata"].get("deletionTimestamp")

    def errors(
        self, known: list[DocumentError], new: Document, old: Document | None, subresource: str
    ) -> list[DocumentError]:
        if subresource == "status":
            return known
        found = validate_definition(new, old)
        return found if old is None else [*known, *found]

    def warnings(self, new: Document, old: Document | None) -> list[str]:  # noqa: ARG002
        return list(_format_warnings(msgspec.json.encode(new["spec"].get("versions") or ())))


def _storage(definition: Document) -> list[str]:
    """The version in which objects are stored, if there is one."""
    versions = definition["spec"].get("versions") or ()
    return [version.get("name", "") for version in versions if version.get("storage")][:1]


@lru_cache(maxsize=32)
def _format_warnings(versions: bytes) -> tuple[str, ...]:
    """Remembered, because the same definitions are installed in each server of a process."""
    found: dict[str, None] = {}
    for version in msgspec.json.decode(versions):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        for _, name in SchemaReview(schema, "").formats if schema else ():
            found[f'unrecognized format "{name}"'] = None
    return tuple(found)


# -------------------------------------------------------------- names and defaults


def accepted_names(definition: Document, others: Iterable[Document]) -> tuple[Document, list[Document]]:
    """`acceptedNames` of a definition beside all others, and the conditions NamesAccepted and Established.

    One that is established stays so, also when it asks for new names that are taken.
    """
    wanted: Document = definition["spec"]["names"]
    status: Document = definition.get("status", {})
    had: Document = status.get("acceptedNames") or {}
    made, used = dict(had), _used_names(definition, others)
    conflict: tuple[str, str] | None = None  # the last one is told
    for name in ("plural", "singular", "shortNames", "kind", "listKind"):
        requested, before = wanted.get(name, ""), had.get(name, "")
        asked = [one for one in requested if one not in before] if name == "shortNames" else [requested]
        taken = [f"{quoted(one)} is already in use" for one in asked if one in used["kind" in name.lower()]]
        if requested != before and taken:
            text = taken[0] if len(taken) == 1 else f"[{', '.join(taken)}]"
            conflict = f"{name[0].upper()}{name[1:]}Conflict", text
        elif name in wanted or name != "shortNames":
            made[name] = requested
        else:
            made.pop(name, None)
    made.pop("categories", None)
    if "categories" in wanted:
        made["categories"] = wanted["categories"]
    accepted = _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
    if conflict is not None:
        accepted = _condition("NamesAccepted", "False", *conflict)
    return made, [accepted, _established(status, conflict is None)]


def _condition(kind: str, status: str, reason: str, message: str) -> Document:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _used_names(definition: Document, others: Iterable[Document]) -> tuple[set[str], set[str]]:
    """Names of resources and names of kinds that others of the group have."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"]["group"] == definition["spec"]["group"]:
            known: Document = other.get("status", {}).get("acceptedNames", {})
            resources |= {known.get("plural", ""), known.get("singular", ""), *known.get("shortNames", ())}
            kinds |= {known.get("kind", ""), known.get("listKind", "")}
    return resources, kinds


def _established(status: Document, accepted: bool) -> Document:
    before = next((one for one in status.get("conditions") or () if one.get("type") == "Established"), None)
    if accepted or (before is not None and before.get("status") == "True"):
        text = "the initial names have been accepted"
        return _condition("Established", "True", "InitialNamesAccepted", text)
    if before is not None:
        return _condition("Established", before["status"], before["reason"], before["message"])
    return _condition("Established", "False", "NotAccepted", "not all names are accepted")


def set_defaults(definition: Document) -> None:
    """Fill in singular, list kind, conversion strategy and stored versions, in place."""
    spec: Document = definition.setdefault("spec", {})
    wanted: Document = spec.setdefault("names", {})
    kind = wanted.get("kind", "")
    if not wanted.get("singular"):
        wanted["singular"] = kind.lower()
    if not wanted.get("listKind") and kind:
        wanted["listKind"] = f"{kind}List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    status: Document = definition.setdefault("status", {})
    if not status.get("storedVersions"):
        status["storedVersions"] = _storage(definition)


# -------------------------------------------------------------- errors


def validate_definition(new: Document, old: Document | None = None) -> list[DocumentError]:
    """The errors of a definition with its defaults, at a creation or, with the stored one, at an update."""
    spec: Document = new.get("spec", {})
    wanted = f"{spec.get('names', {}).get('plural', '')}.{spec.get('group', '')}"

    def rule(name: str) -> list[str]:
        wrong = names.dns_subdomain(name)
        return wrong if name == wanted else [*wrong, 'must be spec.names.plural+"."+spec.group']

    if old is None:
        found = validate_metadata(new.get("metadata", {}), namespaced=False, name_rule=rule)
    else:
        found = validate_metadata_update(new.get("metadata", {}), old.get("metadata", {}))
    found += _errors_of_spec(msgspec.json.encode(spec))
    found += check(_RULES, {"status": new.get("status")})
    if old is not None:
        found += check_change(_RULES, new, old)
        if is_true((old.get("status") or {}).get("conditions"), "Established"):
            found += check_change(f"{_RULES}/established", new, old)
    found += _stored_versions(new)
    if spec.get("preserveUnknownFields") and not (old or {}).get("spec", {}).get("preserveUnknownFields"):
        wrong = "cannot be true; set x-kubernetes-preserve-unknown-fields in spec.versions[*].schema instead"
        found.append(invalid("spec.preserveUnknownFields", True, wrong))
    return found


@lru_cache(maxsize=32)
def _errors_of_spec(encoded: bytes) -> tuple[DocumentError, ...]:
    """Remembered, because the same definitions are installed in each server of a process."""
    spec: Document = msgspec.json.decode(encoded)
    versions: list[Document] = spec.get("versions") or []
    alike = {word for word in _SHARED if versions and all(one.get(word) == versions[0].get(word) for one in versions)}
    found = check(_RULES, {"spec": spec})
    for index, version in enumerate(versions):
        parts = {word: version.get(word) for word in _SHARED if word not in alike}
        found += _version_parts(parts, f"spec.versions[{index}]", schema_name="schema")
    if versions:
        found += _version_parts({word: versions[0].get(word) for word in alike}, "spec", schema_name="validation")
    return tuple(found)


def _version_parts(parts: Document, path: str, *, schema_name: str) -> Iterator[DocumentError]:
    schema = (parts.get("schema") or {}).get("openAPIV3Schema")
    if schema is not None:
        yield from SchemaReview(schema, f"{path}.{schema_name}.openAPIV3Schema").errors
    yield from check("VersionParts", parts, path)
    yield from _selectable(parts.get("selectableFields") or (), schema or {}, f"{path}.selectableFields")


@register("version of definitions")
def _version_errors(spec: Document, field: str, _: Document) -> Errors:
    versions: list[Document] = spec.get("versions") or []
    found = [version.get("name", "") for version in versions]
    wrong: Errors = []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        wrong.append(invalid(f"{field}.versions", found, text))
    for index, version in enumerate(versions):
        if version.get("name") is None:
            wrong.append(invalid(f"{field}.versions[{index}].name", "", *names.dns_label_1035("")))
    # The first version is in a field of its own inside the server.
    return wrong + [
        invalid(f"{field}.version", name, text) for name in found[:1] if name for text in names.dns_label_1035(name)
    ]


@register("kind and its list")
def _kind_errors(given: Document, field: str, _: Document) -> Errors:
    if not given.get("kind") or given["kind"] != given.get("listKind"):
        return []
    return [invalid(f"{field}.listKind", given["kind"], "kind and listKind may not be the same")]


def _selectable(fields: Any, schema: Mapping[str, Any], path: str) -> Iterator[DocumentError]:
    seen: set[str] = set()
    kind = custom_part(schema)
    for index, field in enumerate(fields):
        at, way = f"{path}[{index}].jsonPath", field.get("jsonPath", "")
        if not way:
            yield required(at)
            continue
        try:
            resolved, found = resolve(way, kind, arrays=False)
        except FieldPathError as error:
            yield invalid(at, way, f"is an invalid path: {error}")
            continue
        if resolved.partition(".")[0] == "metadata":
            yield invalid(at, way, "must not point to fields in metadata")
        if found.kind not in ("string", "boolean", "integer"):
            yield invalid(at, way, "must point to a field of type string, boolean or integer")
        if resolved in seen:
            yield duplicate(at, way)
        seen.add(resolved)
    if len(seen) > _MOST_SELECTABLE:
        yield too_many(path, len(seen), _MOST_SELECTABLE)


def _stored_versions(definition: Document) -> Iterator[DocumentError]:
    path = "status.storedVersions"
    stored: list[str] = definition.get("status", {}).get("storedVersions") or []
    versions: list[Document] = definition.get("spec", {}).get("versions") or []
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    for version in versions:
        name = version.get("name", "")
        if version.get("storage") and name not in stored:
            yield invalid(path, stored, f"must have the storage version {name}")
    for index, name in enumerate(stored):
        if name not in {version.get("name", "") for version in versions}:
            wrong = f"missing from spec.versions; objects may still be stored in {name}, so spec.versions must keep it"
            yield invalid(f"{path}[{index}]", name, wrong)
