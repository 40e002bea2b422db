# SPDX-License-Identifier: Apache-2.0
"""The errors of a definition at a create and an update.

The server holds what all versions have alike in one place, and its messages say so: `spec.validation` is the schema of
each version. Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation`.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from trainwright.api.validation import DocumentError, names
from trainwright.controller.local.apiserver.schema.definition.defaults import default_errors
from trainwright.controller.local.apiserver.schema.definition.openapi import openapi_errors
from trainwright.controller.local.apiserver.schema.definition.spec import (
    column_errors,
    conversion_errors,
    deprecation_errors,
    group_errors,
    name_errors,
    selectable_errors,
    subresource_errors,
    version_errors,
)
from trainwright.controller.local.apiserver.schema.definition.structural import structural_errors
from trainwright.controller.local.apiserver.schema.errors import forbidden, invalid, required
from trainwright.controller.local.apiserver.schema.metadata import validate_metadata, validate_metadata_update

Document = dict[str, Any]

_WITH_STATUS = frozenset(
    {
        "description",
        "type",
        "format",
        "title",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "multipleOf",
        "required",
        "items",
        "properties",
        "externalDocs",
        "example",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    }
)
"""What a schema may say at its root if there is an endpoint for the status."""
_ALLOWED = (
    "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern "
    "MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
    "XValidations]"
)
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


def schema_errors(schema: Mapping[str, Any], path: str, *, status: bool) -> list[DocumentError]:
    """The errors of the schema of a version.

    Args:
        schema: `openAPIV3Schema`.
        path: of what it is in.
        status: there is an endpoint for the status.
    """
    at = f"{path}.openAPIV3Schema"
    found: list[DocumentError] = []
    if status:
        found += _root_errors(schema, at)
    if schema.get("nullable"):
        found.append(forbidden(f"{at}.nullable", "nullable cannot be true at the root"))
    # Later steps take for granted what earlier ones have made sure.
    steps: tuple[Callable[[], list[DocumentError]], ...] = (
        lambda: structural_errors(schema, at),
        lambda: default_errors(schema, at),
    )
    good = False
    for step in steps:
        wrong = step()
        found += wrong
        if wrong:
            break
    else:
        good = True
    return found + openapi_errors(schema, at, rules=good)


def _root_errors(schema: Mapping[str, Any], path: str) -> Iterator[DocumentError]:
    if schema.get("type", "object") != "object":
        wrong = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield invalid(f"{path}.type", schema["type"], wrong)
    elif any(value and word not in _WITH_STATUS for word, value in schema.items()):
        wrong = f"only {_ALLOWED} fields are allowed at the root of the schema if the status subresource is enabled"
        yield invalid(path, dict(schema), wrong)


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
