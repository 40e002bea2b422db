# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions themselves: their defaults, their errors at a create and an update, names and conditions.

The server holds what all versions have alike in one place, and its messages say so: `spec.validation` is the schema of
each version. Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation`. Costs of rules are not estimated.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from trainwright.api import names
from trainwright.controller.local.apiserver.schema.metadata import validate_metadata, validate_metadata_update
from trainwright.controller.local.apiserver.schema.rules import FieldPathError, resolve
from trainwright.controller.local.apiserver.schema.structural import SchemaReview
from trainwright.controller.local.types.errors import (
    DocumentError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from trainwright.controller.local.types.model import custom_part
from trainwright.controller.local.values import quoted

Document = dict[str, Any]
Schema = Mapping[str, Any]
Errors = Iterator[DocumentError]

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MOST_SELECTABLE = 8
_SHARED = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


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
        stored = [version["name"] for version in spec.get("versions", ()) if version.get("storage")]
        status["storedVersions"] = stored[:1]


def unrecognized_formats(schema: Schema) -> list[str]:
    """The formats of a schema that are not checked; each gives a warning `unrecognized format "…"`."""
    return [form for _, form in SchemaReview(schema, "").formats]


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
    if old is not None:
        found += _immutable(spec, old)
    found += _name_errors(new.get("status", {}).get("acceptedNames", {}), "status.acceptedNames")
    found += _stored_versions(new)
    if spec.get("preserveUnknownFields") and not (old or {}).get("spec", {}).get("preserveUnknownFields"):
        wrong = "cannot be true; set x-kubernetes-preserve-unknown-fields in spec.versions[*].schema instead"
        found.append(invalid("spec.preserveUnknownFields", True, wrong))
    return found


@lru_cache(maxsize=32)
def _errors_of_spec(spec: bytes) -> tuple[DocumentError, ...]:
    """Remembered, because the same definitions are installed in each server of a process."""
    return tuple(_spec_errors(msgspec.json.decode(spec)))


def _spec_errors(spec: Document) -> Errors:
    group, scope = spec.get("group", ""), spec.get("scope", "")
    versions: list[Document] = spec.get("versions") or []
    yield from _texts("spec.group", [group], names.dns_subdomain, needed=True)
    if group and "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    yield from _choice("spec.scope", scope, ("Cluster", "Namespaced"))
    alike = {word for word in _SHARED if versions and all(one.get(word) == versions[0].get(word) for one in versions)}
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield required(f"{path}.schema.openAPIV3Schema")
        yield from _texts(f"{path}.name", [version.get("name", "")], names.dns_label_1035)
        yield from _deprecation(version, path)
        parts = {word: version.get(word) for word in _SHARED if word not in alike}
        yield from _version_parts(parts, path, schema_name="schema")
    yield from _version_names(versions)
    for name in ("plural", "singular", "kind", "listKind"):
        if not spec.get("names", {}).get(name):
            yield required(f"spec.names.{name}")
    yield from _name_errors(spec.get("names", {}), "spec.names")
    if versions:
        parts = {word: versions[0].get(word) for word in alike}
        yield from _version_parts(parts, "spec", schema_name="validation")
    yield from _conversion(spec.get("conversion"))


def _texts(path: str, given: Iterable[str], rule: names.NameRule, *, needed: bool = False) -> Errors:
    """Each of the texts keeps a rule."""
    for text in given:
        if needed and not text:
            yield required(path)
        elif wrong := rule(text):
            yield invalid(path, text, ",".join(wrong))


def _choice(path: str, value: str, known: tuple[str, ...]) -> Errors:
    if not value:
        yield required(path, f"must be one of {', '.join(known)}")
    elif value not in known:
        yield not_supported(path, value, known)


def _name_errors(given: Document, path: str) -> Errors:
    for name in ("plural", "singular"):
        yield from _texts(f"{path}.{name}", filter(None, [given.get(name)]), names.dns_label_1035)
    for name in ("kind", "listKind"):
        yield from _texts(f"{path}.{name}", filter(None, [given.get(name)]), _mixed_case)
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        yield invalid(f"{path}.listKind", given["listKind"], "kind and listKind may not be the same")
    for name in ("shortNames", "categories"):
        for index, text in enumerate(given.get(name, ())):
            yield from _texts(f"{path}.{name}[{index}]", [text], names.dns_label_1035)


def _mixed_case(text: str) -> list[str]:
    wrong = names.dns_label_1035(text.lower())
    return [f"may have mixed case, but should otherwise match: {','.join(wrong)}"] if wrong else []


def _version_names(versions: list[Document]) -> Errors:
    found = [version.get("name", "") for version in versions]
    if len(set(found)) != len(found):
        yield invalid("spec.versions", found, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", found, "must have exactly one version marked as storage version")
    # The first version is in a field of its own inside the server.
    yield from _texts("spec.version", found[:1], names.dns_label_1035)


def _deprecation(version: Document, path: str) -> Errors:
    text = version.get("deprecationWarning")
    if text is None:
        return
    wrong = ""
    if not version.get("deprecated"):
        wrong = "can only be set for deprecated versions"
    elif not text or len(text.encode()) > 256:
        wrong = "must be 1 to 256 bytes long"
    elif not text.isprintable():
        wrong = "must only contain printable characters"
    if wrong:
        yield invalid(f"{path}.deprecationWarning", text, wrong)


def _conversion(conversion: Document | None) -> Errors:
    if conversion is None:
        return
    strategy, webhook = conversion.get("strategy", ""), conversion.get("webhook")
    field = "spec.conversion.webhook"
    yield from _choice("spec.conversion.strategy", strategy, ("None", "Webhook"))
    if strategy == "None" and webhook is not None:
        yield forbidden(field, "should not be set when strategy is not set to Webhook")
    elif strategy == "Webhook":
        client = (webhook or {}).get("clientConfig") or {}
        if (client.get("url") is None) == (client.get("service") is None):
            yield required(f"{field}.clientConfig", "exactly one of url or service is required")
        if not (webhook or {}).get("conversionReviewVersions"):
            yield required(f"{field}.conversionReviewVersions", "must specify one of v1, v1beta1")


def _version_parts(parts: Document, path: str, *, schema_name: str) -> Errors:
    schema = (parts.get("schema") or {}).get("openAPIV3Schema")
    if schema is not None:
        yield from SchemaReview(schema, f"{path}.{schema_name}.openAPIV3Schema").errors
    yield from _scale((parts.get("subresources") or {}).get("scale"), f"{path}.subresources.scale")
    for index, column in enumerate(parts.get("additionalPrinterColumns") or ()):
        yield from _column(column, f"{path}.additionalPrinterColumns[{index}]")
    yield from _selectable(parts.get("selectableFields") or (), schema or {}, f"{path}.selectableFields")


def _column(column: Document, path: str) -> Errors:
    kind, form, way = column.get("type", ""), column.get("format", ""), column.get("jsonPath", "")
    if not column.get("name"):
        yield required(f"{path}.name")
    if not kind:
        yield required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
    elif kind not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", kind, f"must be one of {','.join(_COLUMN_TYPES)}")
    if form and form not in _COLUMN_FORMATS:
        yield invalid(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
    yield from _path(f"{path}.JSONPath", way, (".",))


def _path(path: str, way: str, begins: tuple[str, ...]) -> Errors:
    if not way:
        yield required(path)
    elif not way.startswith(begins):
        yield invalid(path, way, f"must be a simple JSON path that begins with {' or '.join(begins)}")


def _scale(scale: Document | None, path: str) -> Errors:
    if scale is None:
        return
    yield from _path(f"{path}.specReplicasPath", scale.get("specReplicasPath", ""), (".spec.",))
    yield from _path(f"{path}.statusReplicasPath", scale.get("statusReplicasPath", ""), (".status.",))
    if way := scale.get("labelSelectorPath"):
        yield from _path(f"{path}.labelSelectorPath", way, (".spec.", ".status."))


def _selectable(fields: Any, schema: Schema, path: str) -> Errors:
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


def _immutable(spec: Document, old: Document) -> Errors:
    before: Document = old["spec"]
    conditions = (old.get("status") or {}).get("conditions") or ()
    fields = [("group",), ("names", "plural")]
    if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
        fields = [("scope",), ("names", "kind"), *fields]
    for steps in fields:
        new_value, old_value = spec, before
        for step in steps:
            new_value, old_value = new_value.get(step, ""), old_value[step]
        if new_value != old_value:
            yield invalid(f"spec.{'.'.join(steps)}", new_value, "field is immutable")


def _stored_versions(definition: Document) -> Errors:
    path = "status.storedVersions"
    stored: list[str] = definition.get("status", {}).get("storedVersions") or []
    versions: list[Document] = definition.get("spec", {}).get("versions") or []
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    for version in versions:
        if version.get("storage") and version["name"] not in stored:
            yield invalid(path, stored, f"must have the storage version {version['name']}")
    for index, name in enumerate(stored):
        if name not in {version.get("name") for version in versions}:
            wrong = f"missing from spec.versions; objects may still be stored in {name}, so spec.versions must keep it"
            yield invalid(f"{path}[{index}]", name, wrong)
