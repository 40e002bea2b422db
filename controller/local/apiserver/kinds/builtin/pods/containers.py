# SPDX-License-Identifier: Apache-2.0
"""Errors of containers."""

from dataclasses import dataclass

from trainwright.api.objects import Document
from trainwright.api.validation import names
from trainwright.controller.local.apiserver.kinds.builtin.amounts import restarts_always
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    backstep_errors,
    choice_errors,
    descending_path_errors,
    name_errors,
    port_name,
    port_number,
    repeated,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part
from trainwright.controller.local.apiserver.kinds.builtin.pods.environment import source_errors, variable_errors
from trainwright.controller.local.apiserver.kinds.builtin.pods.probes import PROBES, lifecycle_errors, probe_errors
from trainwright.controller.local.apiserver.kinds.builtin.pods.requirements import requirement_errors
from trainwright.controller.local.apiserver.kinds.builtin.pods.security import container_security_errors
from trainwright.controller.local.apiserver.kinds.builtin.pods.volumes import Sources
from trainwright.controller.local.apiserver.schema.errors import (
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_many,
)
from trainwright.controller.local.apiserver.schema.published import enum_of

_PROTOCOLS = enum_of("core.v1.ContainerPort", "protocol")
_PROPAGATIONS = enum_of("core.v1.VolumeMount", "mountPropagation")
_RECURSIONS = ("Disabled", "Enabled", "IfPossible")
_PULL_POLICIES = enum_of("core.v1.Container", "imagePullPolicy")
_RESTARTS = ("Always", "Never", "OnFailure")
_MOST_RULES = 20
_MOST_EXIT_CODES = 255


@dataclass(frozen=True)
class ContainerContext:
    """What the rules of a container need to know of its pod."""

    volumes: Sources
    claims: set[str]
    """Names of `spec.resourceClaims`."""
    grace: int | None
    """Seconds from the pod's `terminationGracePeriodSeconds`."""
    restart_policy: str


def container_errors(containers: list[Document], pod: ContainerContext, field: str) -> Errors:
    """Errors of `spec.containers`."""
    if not containers:
        return [required(field)]
    found: Errors = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        where = f"{field}[{index}]"
        found += _common_errors(container, pod, where)
        found += repeated(seen, container.get("name") or "", f"{where}.name")
        found += lifecycle_errors(container.get("lifecycle"), pod.grace, f"{where}.lifecycle")
        found += probe_errors(container, where)
        found += _restart_errors(container, where)
    return found + _host_port_errors(dict(enumerate(containers)), field)


def init_container_errors(
    containers: list[Document], regular: list[Document], pod: ContainerContext, field: str
) -> Errors:
    """Errors of `spec.initContainers`."""
    found: Errors = []
    seen = {container.get("name") or "" for container in regular}
    for index, container in enumerate(containers):
        where, name = f"{field}[{index}]", container.get("name") or ""
        found += _common_errors(container, pod, where)
        found += _restart_errors(container, where, initial=True)
        if name in seen:
            found.append(duplicate(f"{where}.name", name))
        elif name:
            seen.add(name)
        # Init containers run one by one, so ports are compared within each; the real server's index is always 0.
        found += _host_port_errors({0: container}, field)
        if restarts_always(container):
            found += lifecycle_errors(container.get("lifecycle"), pod.grace, f"{where}.lifecycle")
            found += probe_errors(container, where)
            continue
        text = "may not be set for init containers without restartPolicy=Always"
        found += [
            forbidden(f"{where}.{name}", text) for name in ("lifecycle", *PROBES) if container.get(name) is not None
        ]
        for position, policy in enumerate(entries(container, "resizePolicy")):
            if policy.get("restartPolicy") == "RestartContainer":
                text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                found.append(invalid(f"{where}.resizePolicy[{position}].restartPolicy", "RestartContainer", text))
    return found


def padded_image_errors(containers: list[Document], field: str) -> Errors:
    """Images with spaces around them; pods refuse what templates always took."""
    return [
        invalid(f"{field}[{index}].image", image, "must not have leading or trailing whitespace")
        for index, container in enumerate(containers)
        if (image := container.get("image") or "") != image.strip()
    ]


def _common_errors(container: Document, pod: ContainerContext, field: str) -> Errors:
    name = container.get("name") or ""
    found = name_errors(name, f"{field}.name", names.dns_label) if name else [required(f"{field}.name")]
    if not container.get("image"):
        found.append(required(f"{field}.image"))
    policies = ("File", "FallbackToLogsOnError")
    where = f"{field}.terminationMessagePolicy"
    found += choice_errors(container.get("terminationMessagePolicy"), where, policies, sort=False)
    found += _port_errors(entries(container, "ports"), f"{field}.ports")
    found += variable_errors(entries(container, "env"), f"{field}.env")
    found += source_errors(entries(container, "envFrom"), f"{field}.envFrom")
    found += _mount_errors(container, pod.volumes, f"{field}.volumeMounts")
    found += _device_errors(container, pod.volumes, f"{field}.volumeDevices")
    found += choice_errors(container.get("imagePullPolicy"), f"{field}.imagePullPolicy", _PULL_POLICIES)
    found += requirement_errors(part(container, "resources"), f"{field}.resources", pod.claims)
    found += _resize_errors(container, pod.restart_policy, f"{field}.resizePolicy")
    return found + container_security_errors(container.get("securityContext"), f"{field}.securityContext")


def _port_errors(ports: list[Document], field: str) -> Errors:
    found: Errors = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"{field}[{index}]", port.get("name") or ""
        if name:
            problems = [invalid(f"{where}.name", name, text) for text in port_name(name)]
            found += problems or repeated(seen, name, f"{where}.name")
        number = port.get("containerPort") or 0
        if number:
            found += [invalid(f"{where}.containerPort", number, text) for text in port_number(number)]
        else:
            found.append(required(f"{where}.containerPort"))
        host = port.get("hostPort") or 0
        if host:
            found += [invalid(f"{where}.hostPort", host, text) for text in port_number(host)]
        found += choice_errors(port.get("protocol"), f"{where}.protocol", _PROTOCOLS)
    return found


def _host_port_errors(containers: dict[int, Document], field: str) -> Errors:
    found: Errors = []
    seen: set[str] = set()
    for index, container in containers.items():
        for position, port in enumerate(entries(container, "ports")):
            if port.get("hostPort"):
                taken = f"{port.get('protocol')}/{port.get('hostIP') or ''}/{port['hostPort']}"
                found += repeated(seen, taken, f"{field}[{index}].ports[{position}].hostPort")
    return found


def _mount_errors(container: Document, volumes: Sources, field: str) -> Errors:
    devices = {
        device.get("name") or "": device.get("devicePath") or "" for device in entries(container, "volumeDevices")
    }
    found: Errors = []
    paths: set[str] = set()
    for index, mount in enumerate(entries(container, "volumeMounts")):
        where, name, path = f"{field}[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            found.append(required(f"{where}.name"))
        if name not in volumes:
            found.append(not_found(f"{where}.name", name))
        if not path:
            found.append(required(f"{where}.mountPath"))
        if path in paths:
            found.append(invalid(f"{where}.mountPath", path, "must be unique"))
        paths.add(path)
        if name in devices:
            found.append(invalid(f"{where}.name", name, "must not already exist in volumeDevices"))
        if path in devices.values():
            found.append(invalid(f"{where}.mountPath", path, "must not already exist as a path in volumeDevices"))
        found += _subpath_errors(mount, field, where) + _mount_mode_errors(mount, container, field)
    return found


def _subpath_errors(mount: Document, field: str, where: str) -> Errors:
    path, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    # The real server leaves out the index.
    found = descending_path_errors(path, f"{field}.subPath") if path else []
    if expression:
        if path:
            text = "subPathExpr and subPath are mutually exclusive"
            found.append(invalid(f"{where}.subPathExpr", expression, text))
        found += descending_path_errors(expression, f"{field}.subPathExpr")
    return found


def _mount_mode_errors(mount: Document, container: Document, field: str) -> Errors:
    found: Errors = []
    propagation, recursion = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    if propagation is not None:
        where = f"{field}.mountPropagation"
        if propagation not in _PROPAGATIONS:
            found.append(not_supported(where, propagation, _PROPAGATIONS))
        if propagation == "Bidirectional" and not part(container, "securityContext").get("privileged"):
            found.append(forbidden(where, "Bidirectional mount propagation is available only to privileged containers"))
    where = f"{field}.recursiveReadOnly"
    if recursion in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            found.append(forbidden(where, "may only be specified when readOnly is true"))
        if propagation not in (None, "None"):
            text = "may only be specified when mountPropagation is None or not specified"
            found.append(forbidden(where, text))
    elif recursion not in (None, "Disabled"):
        found.append(not_supported(where, recursion, _RECURSIONS))
    return found


def _device_errors(container: Document, volumes: Sources, field: str) -> Errors:
    mounts = {mount.get("name") or "": mount.get("mountPath") or "" for mount in entries(container, "volumeMounts")}
    found: Errors = []
    seen: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(entries(container, "volumeDevices")):
        where, name, path = f"{field}[{index}]", device.get("name") or "", device.get("devicePath") or ""
        if not name:
            found.append(required(f"{where}.name"))
        if name in seen:
            found.append(invalid(f"{where}.name", name, "must be unique"))
        volume = volumes.get(name)
        if volume is None:
            found.append(not_found(f"{where}.name", name))
        elif volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            found.append(invalid(f"{where}.name", name, text))
        if not path:
            found.append(required(f"{where}.devicePath"))
        if path in paths:
            found.append(invalid(f"{where}.devicePath", path, "must be unique"))
        if path and backstep_errors(path, where):
            found.append(invalid(f"{where}.devicePath", path, "can not contain backsteps ('..')"))
        else:
            paths.add(path)
        if name in mounts:
            found.append(invalid(f"{where}.name", name, "must not already exist in volumeMounts"))
        if path in mounts.values():
            found.append(invalid(f"{where}.devicePath", path, "must not already exist as a path in volumeMounts"))
        if name:
            seen.add(name)
    return found


def _resize_errors(container: Document, restart_policy: str, field: str) -> Errors:
    found: Errors = []
    seen: set[str] = set()
    for index, policy in enumerate(entries(container, "resizePolicy")):
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        found += repeated(seen, name, f"{field}[{index}]")
        found += choice_errors(name, field, ("cpu", "memory"))
        found += choice_errors(restart, field, ("NotRequired", "RestartContainer"))
        if restart_policy == "Never" and restart != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            found.append(invalid(field, restart, text))
    return found


def _restart_errors(container: Document, field: str, *, initial: bool = False) -> Errors:
    """A container may restart by rules of its own (KEP-5307)."""
    policy, rules = container.get("restartPolicy"), entries(container, "restartPolicyRules")
    found: Errors = []
    if policy is None:
        if not rules:
            return []
        text = "must specify restartPolicy when restart rules are used"
        found.append(required(f"{field}.restartPolicy", text))
        if initial:
            return found
    elif policy not in _RESTARTS:
        found.append(not_supported(f"{field}.restartPolicy", policy, _RESTARTS))
    if len(rules) > _MOST_RULES:
        found.append(too_many(f"{field}.restartPolicyRules", len(rules), _MOST_RULES))
    for index, rule in enumerate(rules):
        where = f"{field}.restartPolicyRules[{index}]"
        actions = ("Restart", "RestartAllContainers")
        if rule.get("action") not in actions:
            found.append(not_supported(f"{where}.action", rule.get("action") or "", actions))
        codes = rule.get("exitCodes")
        if codes is None:
            found.append(required(f"{where}.exitCodes", "must be specified"))
            continue
        if codes.get("operator") not in ("In", "NotIn"):
            found.append(not_supported(f"{where}.exitCodes.operator", codes.get("operator") or "", ("In", "NotIn")))
        if len(entries(codes, "values")) > _MOST_EXIT_CODES:
            found.append(too_many(f"{where}.exitCodes.values", len(codes["values"]), _MOST_EXIT_CODES))
    return found
