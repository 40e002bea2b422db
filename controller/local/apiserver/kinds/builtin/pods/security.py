# SPDX-License-Identifier: Apache-2.0
"""Errors of security contexts. Options for Windows are not checked: no such node is here."""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    MAX_INT32,
    Errors,
    between,
    descending_path_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import part, texts
from trainwright.controller.local.apiserver.schema.errors import forbidden, invalid, not_supported, required
from trainwright.controller.local.apiserver.schema.published import enum_of

_PROFILES = enum_of("core.v1.SeccompProfile", "type")


def _id_errors(value: int | None, field: str) -> Errors:
    if value is None or 0 <= value <= MAX_INT32:
        return []
    return [invalid(field, value, between(0, MAX_INT32))]


def pod_security_errors(spec: Document, field: str) -> Errors:
    """Errors of a pod's security context."""
    context = part(spec, "securityContext")
    found: Errors = []
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        found += _id_errors(context.get(name), f"{field}.{name}")
    for index, group in enumerate(context.get("supplementalGroups") or []):
        found += _id_errors(group, f"{field}.supplementalGroups[{index}]")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        found.append(invalid(f"{field}.shareProcessNamespace", True, text))
    policy = context.get("fsGroupChangePolicy")
    if policy is not None and policy not in ("Always", "OnRootMismatch"):
        found.append(not_supported(f"{field}.fsGroupChangePolicy", policy, ("Always", "OnRootMismatch")))
    found += _profile_errors(context.get("seccompProfile"), f"{field}.seccompProfile", "seccomp", "seccompProfile")
    found += _profile_errors(context.get("appArmorProfile"), f"{field}.appArmorProfile", "AppArmor", "appArmorProfile")
    policy = context.get("supplementalGroupsPolicy")
    if policy is not None and policy not in ("Merge", "Strict"):
        found.append(not_supported(f"{field}.supplementalGroupsPolicy", policy, ("Merge", "Strict")))
    return found


def container_security_errors(context: Document | None, field: str) -> Errors:
    """Errors of a container's security context."""
    if context is None:
        return []
    found: Errors = []
    for name in ("runAsUser", "runAsGroup"):
        found += _id_errors(context.get(name), f"{field}.{name}")
    mount = context.get("procMount")
    if mount is not None and mount not in ("Default", "Unmasked"):
        found.append(not_supported(f"{field}.procMount", mount, ("Default", "Unmasked")))
    found += _profile_errors(context.get("seccompProfile"), f"{field}.seccompProfile", "seccomp", "seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            found.append(invalid(field, context, text))
        if "CAP_SYS_ADMIN" in texts(part(context, "capabilities"), "add"):
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            found.append(invalid(field, context, text))
    return found + _profile_errors(
        context.get("appArmorProfile"), f"{field}.appArmorProfile", "AppArmor", "appArmorProfile"
    )


def _profile_errors(profile: Document | None, field: str, kind: str, name: str) -> Errors:
    if profile is None:
        return []
    found: Errors = []
    chosen, local = profile.get("type") or "", profile.get("localhostProfile")
    if not chosen:
        found.append(required(f"{field}.type", f"type is required when {name} is set"))
    elif chosen not in _PROFILES:
        found.append(not_supported(f"{field}.type", chosen, _PROFILES))
    where = f"{field}.localhostProfile"
    if chosen != "Localhost":
        if local is not None and (kind == "seccomp" or chosen in _PROFILES):
            shown = profile if kind == "seccomp" else local
            found.append(invalid(where, shown, f"can only be set when {kind} type is Localhost"))
    elif local is None or (kind == "AppArmor" and not local):
        found.append(required(where, f"must be set when {kind} type is Localhost"))
    elif kind == "seccomp":
        found += descending_path_errors(local, where)
    elif local != local.strip():
        found.append(invalid(where, local, "must not be padded with whitespace"))
    return found


def user_namespace_errors(spec: Document, field: str) -> Errors:
    """A pod with a user namespace of its own may not use other namespaces of the host."""
    if spec.get("hostUsers") is not False:
        return []
    text = "when `hostUsers` is false"
    found = [forbidden(f"{field}.hostNetwork", text)] if spec.get("hostNetwork") else []
    # The real server writes these two with a capital.
    for name, spelled in (("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(name):
            found.append(forbidden(f"{field}.{spelled}", text))
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind) or []):
            if container.get("volumeDevices"):
                found.append(forbidden(f"{field}.{kind}[{index}].volumeDevices", text))
    return found
