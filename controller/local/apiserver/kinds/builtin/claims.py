# SPDX-License-Identifier: Apache-2.0
"""Errors of claims for volumes: PersistentVolumeClaims and the templates of ephemeral volumes."""

import copy

from trainwright.api.objects import Document
from trainwright.api.quantity import Quantity
from trainwright.api.validation import names
from trainwright.controller.local.apiserver.kinds.builtin.amounts import read
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    label_errors,
    name_errors,
    qualified_errors,
    same,
    selector_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import part, texts
from trainwright.controller.local.apiserver.kinds.metadata import IMMUTABLE
from trainwright.controller.local.apiserver.schema.errors import forbidden, invalid, not_supported, required

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def access_mode_errors(spec: Document, field: str) -> Errors:
    """Access modes of a claim or a volume: at least one, and a volume for one pod is for nothing else."""
    modes = texts(spec, "accessModes")
    found = [] if modes else [required(field, "at least 1 access mode is required")]
    found += [not_supported(field, mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    if "ReadWriteOncePod" in modes and len(set(modes) & set(ACCESS_MODES)) > 1:
        found.append(forbidden(field, "may not use ReadWriteOncePod with other access modes"))
    return found


def claim_spec_errors(spec: Document, field: str) -> Errors:
    """Errors of `spec`."""
    found = access_mode_errors(spec, f"{field}.accessModes") + selector_errors(
        spec.get("selector"), f"{field}.selector"
    )
    storage = read(part(part(spec, "resources"), "requests")).get("storage")
    where = f"{field}.resources[storage]"
    if storage is None:
        found.append(required(where))
    elif storage.nanos <= 0:
        found.append(invalid(where, storage.canonical(), "must be greater than zero"))
    for name in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(name):
            found += name_errors(spec[name], f"{field}.{name}", names.dns_subdomain)
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        found.append(not_supported(f"{field}.volumeMode", mode, VOLUME_MODES))
    return found + _source_errors(spec, field)


def _source_errors(spec: Document, field: str) -> Errors:
    found: Errors = []
    for name in ("dataSource", "dataSourceRef"):
        source = spec.get(name)
        if source is None:
            continue
        where = f"{field}.{name}"
        found += [required(f"{where}.{key}") for key in ("name", "kind") if not source.get(key)]
        group, kind = source.get("apiGroup") or "", source.get("kind") or ""
        if not group and kind != "PersistentVolumeClaim":
            text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            found.append(invalid(where, kind, text))
    return found


def claim_template_errors(template: Document, field: str) -> Errors:
    """Errors of the template of an ephemeral volume's claim."""
    metadata = part(template, "metadata")
    found: Errors = []
    for key in part(metadata, "annotations"):
        found += qualified_errors(key.lower(), f"{field}.metadata.annotations")
    found += label_errors(metadata.get("labels"), f"{field}.metadata.labels")
    found += [
        forbidden(f"{field}.metadata.{key}", "cannot be set")
        for key, value in metadata.items()
        if value and key not in ("annotations", "labels")
    ]
    return found + claim_spec_errors(part(template, "spec"), f"{field}.spec")


def claim_update_errors(claim: Document, old: Document) -> Errors:
    """Errors of what an update changes: most of `spec` is immutable."""
    found: Errors = []
    spec, before = part(claim, "spec"), part(old, "spec")
    compared, expected = copy.deepcopy(spec), copy.deepcopy(before)
    if not before.get("volumeName"):
        expected["volumeName"] = spec.get("volumeName")
    annotation = part(part(old, "metadata"), "annotations").get(_BETA_CLASS)
    now = part(part(claim, "metadata"), "annotations").get(_BETA_CLASS)
    chosen, chosen_before = spec.get("storageClassName"), before.get("storageClassName")
    if annotation is not None and chosen_before is None and chosen == annotation and now in (None, annotation):
        compared.pop("storageClassName", None)
    else:
        if (annotation or "") != (now or ""):
            found.append(invalid(f"metadata.annotations.{_BETA_CLASS}", now or "", IMMUTABLE))
        if chosen is not None and chosen_before is None and annotation in (None, chosen):
            compared.pop("storageClassName", None)
    size, size_before = (read(part(part(one, "resources"), "requests")).get("storage") for one in (spec, before))
    if part(claim, "status").get("phase") == "Bound":
        requests = part(part(compared, "resources"), "requests")
        if requests:
            requests["storage"] = part(part(before, "resources"), "requests").get("storage")
        compared["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
    if not same(compared, expected):
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        found.append(forbidden("spec", text))
    nothing = Quantity(0)
    if (size or nothing) < (size_before or nothing):
        capacity = read(part(part(old, "status"), "capacity")).get("storage") or nothing
        if (size or nothing) <= capacity:
            found.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    if spec.get("volumeMode") != before.get("volumeMode"):
        found.append(invalid("volumeMode", spec.get("volumeMode"), IMMUTABLE))
    return found
