# SPDX-License-Identifier: Apache-2.0
"""Errors of probes and lifecycle hooks."""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    header_name,
    negative_errors,
    port_errors,
    port_number,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, texts
from trainwright.controller.local.apiserver.schema.errors import forbidden, invalid, not_supported, required

_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def probe_errors(container: Document, field: str) -> Errors:
    """Errors of all probes of a container."""
    found: Errors = []
    for name in PROBES:
        probe = container.get(name)
        if probe is None:
            continue
        where = f"{field}.{name}"
        found += _handler_errors(probe, _PROBE_HANDLERS, None, where)
        for number in _NUMBERS:
            found += negative_errors(probe.get(number), f"{where}.{number}")
        grace = probe.get("terminationGracePeriodSeconds")
        if grace is not None and grace <= 0:
            found.append(invalid(f"{where}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
        if name == "readinessProbe":
            if grace is not None:
                text = "must not be set for readinessProbes"
                found.append(invalid(f"{where}.terminationGracePeriodSeconds", grace, text))
        elif probe.get("successThreshold") != 1:
            found.append(invalid(f"{where}.successThreshold", probe.get("successThreshold") or 0, "must be 1"))
    return found


def lifecycle_errors(lifecycle: Document | None, grace: int | None, field: str) -> Errors:
    """Errors of hooks. The grace period is that of the pod."""
    found: Errors = []
    for name in ("postStart", "preStop"):
        if lifecycle is not None and lifecycle.get(name) is not None:
            found += _handler_errors(lifecycle[name], _HOOK_HANDLERS, grace, f"{field}.{name}")
    return found


def _handler_errors(handler: Document, known: tuple[str, ...], grace: int | None, field: str) -> Errors:
    given = [name for name in known if handler.get(name) is not None]
    if not given:
        return [required(field, "must specify a handler type")]
    first, *others = given
    found = _action_errors(first, handler[first], grace, f"{field}.{first}")
    return found + [forbidden(f"{field}.{name}", "may not specify more than 1 handler type") for name in others]


def _action_errors(kind: str, action: Document, grace: int | None, field: str) -> Errors:
    if kind == "exec":
        return [] if texts(action, "command") else [required(f"{field}.command")]
    if kind == "tcpSocket":
        return port_errors(action.get("port"), f"{field}.port")
    if kind == "grpc":
        port = action.get("port") or 0
        return [invalid(f"{field}.port", port, text) for text in port_number(port)]
    if kind == "sleep":
        seconds = action.get("seconds") or 0
        if grace is None or 0 <= seconds <= grace:
            return []
        text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        return [invalid(field, seconds, text)]
    found = port_errors(action.get("port"), f"{field}.port")
    scheme = action.get("scheme") or ""
    if scheme not in ("HTTP", "HTTPS"):
        found.append(not_supported(f"{field}.scheme", scheme, ("HTTP", "HTTPS")))
    for header in entries(action, "httpHeaders"):
        name = header.get("name") or ""
        found += [invalid(f"{field}.httpHeaders", name, text) for text in header_name(name)]
    return found
