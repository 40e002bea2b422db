# SPDX-License-Identifier: Apache-2.0
"""Defaults of a definition, and everything of its spec but the schemas: names, versions, columns, subresources.

Source: `apiextensions-apiserver/pkg/apis/apiextensions/{v1/defaults.go,validation}`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.api.validation import DocumentError, names
from trainwright.api.validation.formats import check_of
from trainwright.controller.local.apiserver.schema.errors import (
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from trainwright.controller.local.apiserver.schema.fieldpaths import FieldPathError, resolve

Document = dict[str, Any]
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
    """The errors of the conversion. Webhooks are valid for the server; this one has none to call."""
    strategy = (conversion or {}).get("strategy", "")
    if conversion is None:
        return
    if not strategy:
        yield required("spec.conversion.strategy")
    elif strategy not in ("None", "Webhook"):
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    elif strategy == "Webhook":
        yield forbidden("spec.conversion.strategy", "conversion webhooks are not supported by this server, use None")


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
