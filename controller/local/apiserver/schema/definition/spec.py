# SPDX-License-Identifier: Apache-2.0
"""The errors of a definition at a create and an update, its defaults, and its names beside the others of its group.

The server holds what all versions have alike in one place, and its messages say so: `spec.validation` is the schema of
each version. Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from trainwright.api import names
from trainwright.controller.local.apiserver.schema.definition.schemas import schema_errors
from trainwright.controller.local.apiserver.schema.metadata import validate_metadata, validate_metadata_update
from trainwright.controller.local.apiserver.schema.rules import FieldPathError, resolve
from trainwright.controller.local.types.errors import (
    DocumentError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from trainwright.controller.local.types.formats import check_of
from trainwright.controller.local.values import quoted

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DefinitionCondition:
    """A condition of a definition, without its time."""

    type: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the status of a definition is to say."""

    names: Document
    """`acceptedNames`."""
    conditions: tuple[DefinitionCondition, DefinitionCondition]
    """NamesAccepted and Established."""


def accepted_names(definition: Document, others: Iterable[Document]) -> Accepted:
    """The names of a definition.

    A definition that is established stays so, also when it asks for new names that are taken.

    Args:
        definition: with what its status says already.
        others: all other definitions.
    """
    wanted: Document = definition["spec"]["names"]
    status: Document = definition.get("status", {})
    had: Document = status.get("acceptedNames") or {}
    resources, kinds = _taken(definition, others)
    made = dict(had)
    # The last conflict is told.
    conflict: tuple[str, str] | None = None
    for name, reason, used in (("plural", "PluralConflict", resources), ("singular", "SingularConflict", resources)):
        conflict = _take(made, wanted, had, name, used, reason) or conflict
    if wanted.get("shortNames") != had.get("shortNames"):
        short = [name for name in wanted.get("shortNames", ()) if name not in had.get("shortNames", ())]
        taken = [f"{quoted(name)} is already in use" for name in short if name in resources]
        if taken:
            conflict = "ShortNamesConflict", taken[0] if len(taken) == 1 else f"[{', '.join(taken)}]"
        else:
            _set(made, "shortNames", wanted)
    for name, reason, used in (("kind", "KindConflict", kinds), ("listKind", "ListKindConflict", kinds)):
        conflict = _take(made, wanted, had, name, used, reason) or conflict
    _set(made, "categories", wanted)
    return Accepted(made, (_named(conflict), _established(status, conflict is None)))


def _taken(definition: Document, others: Iterable[Document]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"]["group"] != definition["spec"]["group"]:
            continue
        names: Document = other.get("status", {}).get("acceptedNames", {})
        resources |= {names.get("plural", ""), names.get("singular", ""), *names.get("shortNames", ())}
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources, kinds


def _take(
    made: Document, wanted: Document, had: Document, name: str, used: set[str], reason: str
) -> tuple[str, str] | None:
    requested = wanted.get(name, "")
    if requested != had.get(name, "") and requested in used:
        return reason, f"{quoted(requested)} is already in use"
    made[name] = requested
    return None


def _set(made: Document, name: str, wanted: Document) -> None:
    if name in wanted:
        made[name] = wanted[name]
    else:
        made.pop(name, None)


def _named(conflict: tuple[str, str] | None) -> DefinitionCondition:
    if conflict is None:
        return DefinitionCondition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
    return DefinitionCondition("NamesAccepted", "False", *conflict)


def _established(status: Document, accepted: bool) -> DefinitionCondition:
    established = next((one for one in status.get("conditions") or () if one.get("type") == "Established"), None)
    is_established = established is not None and established.get("status") == "True"
    if accepted or is_established:
        return DefinitionCondition(
            "Established", "True", "InitialNamesAccepted", "the initial names have been accepted"
        )
    if established is not None:
        return DefinitionCondition("Established", established["status"], established["reason"], established["message"])
    return DefinitionCondition("Established", "False", "NotAccepted", "not all names are accepted")


Schema = Mapping[str, Any]

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MOST_SELECTABLE = 8


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


def unrecognized_formats(schema: Schema) -> Iterator[str]:
    """The formats of a schema that are not checked; each gives a warning `unrecognized format "…"`."""
    form, kind = schema.get("format"), schema.get("type", "")
    known = {"integer": ("int32", "int64"), "number": ("float", "double")}.get(kind, ())
    if form and not (check_of(form) is not None if kind in ("", "string") else form in known):
        yield form
    inner: list[Any] = [schema.get("items"), schema.get("not"), schema.get("additionalProperties")]
    for word in ("allOf", "anyOf", "oneOf"):
        inner += schema.get(word) or ()
    inner += (schema.get("properties") or {}).values()
    for one in inner:
        if isinstance(one, Mapping):
            yield from unrecognized_formats(one)


def group_errors(spec: Document) -> Iterator[DocumentError]:
    """The errors of group and scope."""
    group, scope = spec.get("group", ""), spec.get("scope", "")
    if not group:
        yield required("spec.group")
    elif wrong := names.dns_subdomain(group):
        yield invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", scope, ("Cluster", "Namespaced"))


def name_errors(given: Document, path: str, *, needed: bool) -> Iterator[DocumentError]:
    """The errors of names; those in a spec are needed, those in a status are not."""
    if needed:
        for name in ("plural", "singular", "kind", "listKind"):
            if not given.get(name):
                yield required(f"{path}.{name}")
    for name in ("plural", "singular"):
        text = given.get(name, "")
        if text and (wrong := names.dns_label_1035(text)):
            yield invalid(f"{path}.{name}", text, ",".join(wrong))
    for name in ("kind", "listKind"):
        text = given.get(name, "")
        if text and (wrong := names.dns_label_1035(text.lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(wrong)
            yield invalid(f"{path}.{name}", text, detail)
    yield from _labels(given.get("shortNames", ()), f"{path}.shortNames")
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        yield invalid(f"{path}.listKind", given["listKind"], "kind and listKind may not be the same")
    yield from _labels(given.get("categories", ()), f"{path}.categories")


def _labels(texts: Any, path: str) -> Iterator[DocumentError]:
    for index, text in enumerate(texts):
        if wrong := names.dns_label_1035(text):
            yield invalid(f"{path}[{index}]", text, ",".join(wrong))


def version_errors(spec: Document) -> Iterator[DocumentError]:
    """The errors of the list of versions as a whole."""
    versions: list[Document] = spec.get("versions", [])
    found = [version.get("name", "") for version in versions]
    if len(set(found)) != len(found):
        yield invalid("spec.versions", found, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", found, "must have exactly one version marked as storage version")
    if found and (wrong := names.dns_label_1035(found[0])):
        # The first version is in a field of its own inside the server.
        yield invalid("spec.version", found[0], ",".join(wrong))


def deprecation_errors(version: Document, path: str) -> Iterator[DocumentError]:
    """The errors of a deprecation warning."""
    text = version.get("deprecationWarning")
    if text is None:
        return
    if not version.get("deprecated"):
        yield invalid(f"{path}.deprecationWarning", text, "can only be set for deprecated versions")
        return
    if len(text.encode()) > 256:
        yield invalid(f"{path}.deprecationWarning", text, "must be <= 256 characters long")
    if not text:
        yield invalid(f"{path}.deprecationWarning", text, "must not be an empty string")
    for index, character in enumerate(text):
        if not character.isprintable():
            what = "must only contain printable UTF-8 characters; non-printable character found at index"
            yield invalid(f"{path}.deprecationWarning", text, f"{what} {index}")
            return


def conversion_errors(conversion: Document | None) -> Iterator[DocumentError]:
    """The errors of the conversion."""
    if conversion is None:
        return
    strategy, webhook = conversion.get("strategy", ""), conversion.get("webhook")
    field = "spec.conversion.webhook"
    if not strategy:
        yield required("spec.conversion.strategy")
    elif strategy not in ("None", "Webhook"):
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    elif strategy == "None" and webhook is not None:
        yield forbidden(field, "should not be set when strategy is not set to Webhook")
    elif strategy == "Webhook":
        client = (webhook or {}).get("clientConfig") or {}
        if not client:
            yield required(f"{field}.clientConfig", "required when strategy is set to Webhook")
        elif (client.get("url") is None) == (client.get("service") is None):
            yield required(f"{field}.clientConfig", "exactly one of url or service is required")
        if not (webhook or {}).get("conversionReviewVersions"):
            yield required(f"{field}.conversionReviewVersions", "must specify one of v1, v1beta1")


def column_errors(columns: Any, path: str) -> Iterator[DocumentError]:
    """The errors of printer columns."""
    for index, column in enumerate(columns):
        at = f"{path}[{index}]"
        kind, form, way = column.get("type", ""), column.get("format", ""), column.get("jsonPath", "")
        if not column.get("name"):
            yield required(f"{at}.name")
        if not kind:
            yield required(f"{at}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
        elif kind not in _COLUMN_TYPES:
            yield invalid(f"{at}.type", kind, f"must be one of {','.join(_COLUMN_TYPES)}")
        if form and form not in _COLUMN_FORMATS:
            yield invalid(f"{at}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
        if not way:
            yield required(f"{at}.JSONPath")
        elif not way.startswith("."):
            yield invalid(f"{at}.JSONPath", way, "must be a simple json path starting with .")


def subresource_errors(subresources: Document | None, path: str) -> Iterator[DocumentError]:
    """The errors of subresources."""
    scale = (subresources or {}).get("scale")
    if scale is None:
        return
    for name, part in (("specReplicasPath", "spec"), ("statusReplicasPath", "status")):
        way, at = scale.get(name, ""), f"{path}.scale.{name}"
        if not way:
            yield required(at)
        elif not way.startswith("."):
            yield invalid(at, way, "must be a simple json path starting with .")
        elif not way.startswith(f".{part}."):
            yield invalid(at, way, f"should be a json path under .{part}")
    way, at = scale.get("labelSelectorPath", ""), f"{path}.scale.labelSelectorPath"
    if way and not way.startswith("."):
        yield invalid(at, way, "must be a simple json path starting with .")
    elif way and not way.startswith((".spec.", ".status.")):
        yield invalid(at, way, "should be a json path under either .spec or .status")


def selectable_errors(fields: Any, schema: Schema, path: str) -> Iterator[DocumentError]:
    """The errors of selectable fields."""
    seen: set[str] = set()
    for index, field in enumerate(fields):
        at, way = f"{path}[{index}].jsonPath", field.get("jsonPath", "")
        if not way:
            yield required(at)
            continue
        try:
            resolved, found = resolve(way, schema, arrays=False)
        except FieldPathError as error:
            yield invalid(at, way, f"is an invalid path: {error}")
            continue
        if resolved.partition(".")[0] == "metadata":
            yield invalid(at, way, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            allowed = "must point to a field of type string, boolean or integer."
            yield invalid(at, way, f"{allowed} Enum string fields and strings with formats are allowed.")
        if resolved in seen:
            yield duplicate(at, way)
        seen.add(resolved)
    if len(seen) > _MOST_SELECTABLE:
        yield too_many(path, len(seen), _MOST_SELECTABLE)


_APPROVAL = "api-approved.kubernetes.io"
_SHARED = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


def validate_definition(new: Document, old: Document | None = None) -> list[DocumentError]:
    """The errors of a definition with its defaults.

    Args:
        new: the definition as it would be stored.
        old: the stored one, at an update.
    """
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
    found += name_errors(new.get("status", {}).get("acceptedNames", {}), "status.acceptedNames", needed=False)
    found += _stored_versions(new)
    found += _approval(new, old)
    if spec.get("preserveUnknownFields") and not (old or {}).get("spec", {}).get("preserveUnknownFields"):
        wrong = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        found.append(invalid("spec.preserveUnknownFields", True, wrong))
    return found


@lru_cache(maxsize=32)
def _errors_of_spec(spec: bytes) -> tuple[DocumentError, ...]:
    """Remembered, because the same definitions are installed in each server of a process."""
    return tuple(_spec_errors(msgspec.json.decode(spec)))


def _spec_errors(spec: Document) -> Iterator[DocumentError]:
    yield from group_errors(spec)
    versions: list[Document] = spec.get("versions") or []
    alike = {word for word in _SHARED if versions and all(one.get(word) == versions[0].get(word) for one in versions)}
    for index, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if wrong := names.dns_label_1035(version.get("name", "")):
            yield invalid(f"{path}.name", version.get("name", ""), ",".join(wrong))
        yield from deprecation_errors(version, path)
        parts = {word: version.get(word) for word in _SHARED if word not in alike}
        yield from _version_parts(parts, path, schema_name="schema", status=_has_status(version))
    yield from version_errors(spec)
    yield from name_errors(spec.get("names", {}), "spec.names", needed=True)
    if versions:
        parts = {word: versions[0].get(word) for word in alike}
        status = any(map(_has_status, versions))
        yield from _version_parts(parts, "spec", schema_name="validation", status=status)
    yield from conversion_errors(spec.get("conversion"))


def _has_status(version: Document) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _version_parts(parts: Document, path: str, *, schema_name: str, status: bool) -> Iterator[DocumentError]:
    schema = (parts.get("schema") or {}).get("openAPIV3Schema")
    if schema is not None:
        yield from schema_errors(schema, f"{path}.{schema_name}", status=status)
    yield from subresource_errors(parts.get("subresources"), f"{path}.subresources")
    yield from column_errors(parts.get("additionalPrinterColumns") or (), f"{path}.additionalPrinterColumns")
    yield from selectable_errors(parts.get("selectableFields") or (), schema or {}, f"{path}.selectableFields")


def _immutable(spec: Document, old: Document) -> Iterator[DocumentError]:
    before: Document = old["spec"]
    conditions = (old.get("status") or {}).get("conditions") or ()
    if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
        if spec.get("scope") != before["scope"]:
            yield invalid("spec.scope", spec.get("scope", ""), "field is immutable")
        if spec["names"].get("kind") != before["names"]["kind"]:
            yield invalid("spec.names.kind", spec["names"].get("kind", ""), "field is immutable")
    if spec.get("group") != before["group"]:
        yield invalid("spec.group", spec.get("group", ""), "field is immutable")
    if spec["names"].get("plural") != before["names"]["plural"]:
        yield invalid("spec.names.plural", spec["names"].get("plural", ""), "field is immutable")


def _stored_versions(definition: Document) -> Iterator[DocumentError]:
    path = "status.storedVersions"
    stored: list[str] = definition.get("status", {}).get("storedVersions") or []
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    versions: list[Document] = definition.get("spec", {}).get("versions") or []
    for version in versions:
        if version.get("storage") and version["name"] not in stored:
            yield invalid(path, stored, f"must have the storage version {version['name']}")
    for index, name in enumerate(stored):
        if name not in {version.get("name") for version in versions}:
            wrong = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            yield invalid(f"{path}[{index}]", name, wrong)


def _approval(new: Document, old: Document | None) -> Iterator[DocumentError]:
    """Groups of Kubernetes itself need a word of approval, unless nothing changes about that."""
    group = f".{new.get('spec', {}).get('group', '')}"
    if not group.endswith((".k8s.io", ".kubernetes.io")):
        return
    given, before = _approved(new), None if old is None else _approved(old)
    if before is not None and bool(before) == bool(given):
        return
    path = f"metadata.annotations[{_APPROVAL}]"
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    needed = f'protected groups must have approval annotation "{_APPROVAL}"'
    if not given:
        yield required(path, f"{needed}, {see}")
    elif not given.startswith("unapproved") and "://" not in given:
        yield invalid(path, given, f'{needed} with either a URL or a reason starting with "unapproved", {see}')


def _approved(definition: Document) -> str:
    annotations: dict[str, str] = definition.get("metadata", {}).get("annotations") or {}
    return annotations.get(_APPROVAL, "")
