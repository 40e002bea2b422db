# SPDX-License-Identifier: Apache-2.0
"""Errors of environment variables, and of references to fields that volumes share with them."""

from collections.abc import Iterable

from trainwright.api.objects import Document
from trainwright.api.quantity import Quantity
from trainwright.api.validation import names
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    backstep_errors,
    config_key,
    name_errors,
    qualified_errors,
    variable_name,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries
from trainwright.controller.local.apiserver.kinds.builtin.pods.defaults import CONTAINER_FIELDS
from trainwright.controller.local.apiserver.schema.errors import invalid, not_found, not_supported, required

_FIELD_PATHS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_POD_FIELDS = (
    *_FIELD_PATHS,
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
)
"""What can be named at all."""
_SUBSCRIPTED = ("metadata.annotations", "metadata.labels")
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES = ("requests.hugepages-", "limits.hugepages-")
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def variable_errors(variables: list[Document], field: str) -> Errors:
    """Errors of `env`."""
    found: Errors = []
    for index, variable in enumerate(variables):
        where, name = f"{field}[{index}]", variable.get("name") or ""
        found += [invalid(f"{where}.name", name, text) for text in variable_name(name)]
        if not name:
            found.append(required(f"{where}.name"))
        if variable.get("valueFrom") is not None:
            found += _value_errors(variable, f"{where}.valueFrom")
    return found


def _value_errors(variable: Document, field: str) -> Errors:
    source = variable["valueFrom"]
    given = [name for name in _SOURCES if source.get(name) is not None]
    found: Errors = []
    for name in given:
        reference, where = source[name], f"{field}.{name}"
        if name == "fieldRef":
            found += field_reference_errors(reference, _FIELD_PATHS, where)
        elif name == "resourceFieldRef":
            found += resource_reference_errors(reference, where)
        elif name == "fileKeyRef":
            found += _file_reference_errors(reference, where)
        else:
            found += name_errors(reference.get("name") or "", f"{where}.name", names.dns_subdomain)
            key = reference.get("key") or ""
            found += (
                [invalid(f"{where}.key", key, text) for text in config_key(key)] if key else [required(f"{where}.key")]
            )
    if not given:
        listed = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        found.append(invalid(field, "", f"must specify one of: {listed}"))
    elif variable.get("value"):
        found.append(invalid(field, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        found.append(invalid(field, "", "may not have more than one field specified at a time"))
    return found


def field_reference_errors(reference: Document, supported: Iterable[str], field: str) -> Errors:
    """Errors of a reference to a field of the pod."""
    version, path = reference.get("apiVersion") or "", reference.get("fieldPath") or ""
    if not version:
        return [required(f"{field}.apiVersion")]
    if not path:
        return [required(f"{field}.fieldPath")]
    base, subscript = _subscripted(path)
    problem = ""
    if version != "v1":
        problem = f"unsupported pod version: {version}"
    elif subscript is not None and base not in _SUBSCRIPTED:
        problem = f"field label does not support subscript: {path}"
    elif subscript is None and path not in _POD_FIELDS and path != "spec.host":
        problem = f"field label not supported: {path}"
    if problem:
        return [invalid(f"{field}.fieldPath", path, f"error converting fieldPath: {problem}")]
    if subscript is not None:
        return qualified_errors(subscript.lower() if base == "metadata.annotations" else subscript, field)
    path = "spec.nodeName" if path == "spec.host" else path
    return [] if path in supported else [not_supported(f"{field}.fieldPath", path, supported)]


def _subscripted(path: str) -> tuple[str, str | None]:
    base, bracket, rest = path.partition("['")
    return (base, rest[:-2]) if base and bracket and path.endswith("']") else (path, None)


def resource_reference_errors(reference: Document, field: str, *, in_volume: bool = False) -> Errors:
    """Errors of a reference to a resource of a container. In a volume it must name the container."""
    found: Errors = []
    resource = reference.get("resource") or ""
    if in_volume and not reference.get("containerName"):
        found.append(required(f"{field}.containerName"))
    elif not resource:
        found.append(required(f"{field}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        found.append(not_supported(f"{field}.resource", resource, _RESOURCES))
    return found + _divisor_errors(reference, resource, field)


def _divisor_errors(reference: Document, resource: str, field: str) -> Errors:
    divisor = Quantity.parse(reference.get("divisor") or 0)
    kind = resource.partition(".")[2]
    if not divisor or not kind:
        return []
    if kind == "cpu":
        possible: tuple[str, ...] = ("1m", "1")
        text = "only divisor's values 1m and 1 are supported with the cpu resource"
    else:
        named = {"ephemeral-storage": "local ephemeral storage", "memory": "memory"}.get(kind)
        if named is None and kind.startswith("hugepages-"):
            named = "hugepages"
        possible = _BYTE_DIVISORS
        text = f"only divisor's values {', '.join(possible)} are supported with the {named} resource"
        if named is None:
            return []
    return [] if divisor.canonical() in possible else [invalid(f"{field}.divisor", resource, text)]


def _file_reference_errors(reference: Document, field: str) -> Errors:
    found: Errors = []
    key, volume, path = (reference.get(name) or "" for name in ("key", "volumeName", "path"))
    found += [invalid(f"{field}.key", key, text) for text in variable_name(key)] if key else [required(f"{field}.key")]
    where = f"{field}.volumeName"
    found += name_errors(volume, where, names.dns_label) if volume else [required(where)]
    return found + (backstep_errors(path, f"{field}.path") if path else [required(f"{field}.path")])


def source_errors(sources: list[Document], field: str) -> Errors:
    """Errors of `envFrom`."""
    found: Errors = []
    for index, source in enumerate(sources):
        where = f"{field}[{index}]"
        prefix = source.get("prefix") or ""
        found += [invalid(f"{where}.prefix", prefix, text) for text in variable_name(prefix)]
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for kind in given:
            name = source[kind].get("name") or ""
            named = f"{where}.{kind}.name"
            # The real server takes the name for a prefix, so it may end with a dash.
            found += (
                [invalid(named, name, text) for text in names.as_prefix(names.dns_subdomain)(name)]
                if name
                else [required(named)]
            )
        if not given:
            found.append(invalid(field, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            found.append(invalid(field, "", "may not have more than one field specified at a time"))
    return found


def file_volume_errors(spec: Document, field: str) -> Errors:
    """Variables from files need an emptyDir volume."""
    volumes = {volume.get("name"): volume for volume in entries(spec, "volumes")}
    found: Errors = []
    for kind in CONTAINER_FIELDS:
        for index, container in enumerate(entries(spec, kind)):
            for position, variable in enumerate(entries(container, "env")):
                reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
                if reference is None:
                    continue
                where = f"{field}.{kind}[{index}].env[{position}].valueFrom.fileKeyRef.volumeName"
                name = reference.get("volumeName") or ""
                if name not in volumes:
                    found.append(not_found(where, name))
                elif volumes[name].get("emptyDir") is None:
                    found.append(invalid(where, name, "referenced volume must be of type emptyDir"))
    return found
