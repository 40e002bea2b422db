# SPDX-License-Identifier: Apache-2.0
"""PodSecurity: pods are held to the level that labels of their namespace name, `baseline` or `restricted`.

A pod that violates the level `enforce` is refused. One that violates `warn` is admitted with a warning, and so is an
object with a template of pods. Labels of the mode `audit` are checked and change nothing: there is no audit log. Labels
of versions are ignored: the checks are those of Kubernetes 1.36. Fields of Windows are not checked.

Sources: https://kubernetes.io/docs/concepts/security/pod-security-standards/ and, for the order of the checks and their
texts, k8s.io/pod-security-admission 0.36.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from trainwright.api.objects import Document, dig, labels_of, name_of, spec_of
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.request import AdmissionRequest
from trainwright.controller.local.apiserver.kinds.podspecs import TEMPLATES
from trainwright.controller.local.apiserver.request.info import RequestInfo
from trainwright.controller.local.apiserver.store import ObjectStore
from trainwright.controller.local.types.errors import DocumentError, invalid

_PREFIX = "pod-security.kubernetes.io/"
_LEVELS = ("privileged", "baseline", "restricted")
_MODES = ("enforce", "audit", "warn")
_CAPABILITIES = frozenset(
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID"  # noqa: SIM905
    " SYS_CHROOT".split()
)
_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_SYSCTLS = frozenset(
    "kernel.shm_rmid_forced net.ipv4.ip_local_port_range net.ipv4.ip_unprivileged_port_start net.ipv4.tcp_syncookies"  # noqa: SIM905
    " net.ipv4.ping_group_range net.ipv4.ip_local_reserved_ports net.ipv4.tcp_keepalive_time net.ipv4.tcp_fin_timeout"
    " net.ipv4.tcp_keepalive_intvl net.ipv4.tcp_keepalive_probes net.ipv4.tcp_rmem net.ipv4.tcp_wmem".split()
)
_VOLUMES = frozenset(
    "configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim projected secret".split()  # noqa: SIM905
)
_PROFILES = ("RuntimeDefault", "Localhost")


Check = Callable[[Document], str]
"""What is wrong with a pod; empty where nothing is."""


def policy_of(labels: Mapping[str, str]) -> tuple[dict[str, str], list[DocumentError]]:
    """The level of each mode of a namespace, and what is wrong with its labels."""
    policy: dict[str, str] = {}
    wrong: list[DocumentError] = []
    for mode in _MODES:
        policy[mode] = level = labels.get(_PREFIX + mode, "privileged")
        if level not in _LEVELS:
            wrong.append(invalid(f"metadata.labels[{_PREFIX}{mode}]", level, f"must be one of {', '.join(_LEVELS)}"))
            policy[mode] = "restricted" if mode == "enforce" else "privileged"
    if _PREFIX + "warn" not in labels and labels.get(_PREFIX + "enforce") in _LEVELS:
        # Whoever enforces is warned about templates, too.
        policy["warn"] = policy["enforce"]
    return policy, wrong


class PodSecurity:
    """Holds pods to the levels of their namespaces; `validate` is a plugin of the admission chain."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def validate(self, request: AdmissionRequest) -> None:
        """Raises StatusError for a pod that violates what is enforced, and for wrong labels."""
        call, new, old = request.call, request.new, request.old
        if new is None or request.operation not in ("CREATE", "UPDATE") or call.subresource:
            return
        kind = (call.group, call.plural)
        if kind == ("", "namespaces"):
            self._check_namespace(call, new, old)
        elif kind == ("", "pods"):
            if old is None or _images(new) != _images(old):
                self._check_pod(call, new)
        elif (template := dig(new, TEMPLATES.get(call.kind, "-"))) is not None and not call.resource.custom:
            self._warn(call, template, self._policy(call.namespace)["warn"])

    def _policy(self, namespace: str) -> dict[str, str]:
        return policy_of(labels_of(self._store.document("namespaces", namespace) or {}))[0]

    def _check_pod(self, call: RequestInfo, pod: Document) -> None:
        policy = self._policy(call.namespace)
        if found := violations(pod, policy["enforce"]):
            name = name_of(pod) or (pod.get("metadata") or {}).get("generateName") or "Unknown"
            why = f'violates PodSecurity "{policy["enforce"]}:latest": {_details(found)}'
            raise errors.forbidden("", "pods", name, why)
        self._warn(call, pod, policy["warn"])

    def _warn(self, call: RequestInfo, pod: Document, level: str) -> None:
        if found := violations(pod, level):
            call.warn(f'would violate PodSecurity "{level}:latest": {_details(found)}')

    def _check_namespace(self, call: RequestInfo, new: Document, old: Document | None) -> None:
        policy, wrong = policy_of(labels_of(new))
        before, wrong_before = policy_of(labels_of(old or {}))
        if wrong and (old is None or wrong != wrong_before):
            raise errors.invalid("", "Namespace", name_of(new), wrong)
        enforced, was = policy["enforce"], before["enforce"]
        if old is not None and _LEVELS.index(enforced) > _LEVELS.index(was):
            for text in self._warnings_about_pods(name_of(new), enforced):
                call.warn(text)

    def _warnings_about_pods(self, namespace: str, enforced: str) -> Iterator[str]:
        """Which pods that run already could not be created any more."""
        names: dict[str, list[str]] = {}
        for pod in self._store.documents("pods", namespace):
            if found := violations(pod, enforced):
                names.setdefault(", ".join(found), []).append(name_of(pod))
        if names:
            level = f"{enforced}:latest"
            yield f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{level}"'
        texts = []
        for reasons, pods in names.items():
            others = len(pods) - 1
            more = f" (and {others} other pod{'' if others == 1 else 's'})" if others else ""
            texts.append(f"{min(pods)}{more}: {reasons}")
        yield from sorted(texts)


def _images(pod: Document) -> list[tuple[str, Any]]:
    """What of a pod can change and counts: an image."""
    return [(one["name"], one.get("image")) for one in _containers(pod)]


def _details(found: Mapping[str, str]) -> str:
    return ", ".join(f"{reason} ({detail})" for reason, detail in found.items())


# ---------------------------------------------------------------------- the checks


def violations(pod: Document, level: str) -> dict[str, str]:
    """What of a pod, or of a template of pods, violates a level: by the reason, the details."""
    checks = {"privileged": (), "baseline": _BASELINE, "restricted": _RESTRICTED}[level]
    return {reason: detail for reason, check in checks if (detail := check(pod))}


def _containers(pod: Document) -> Iterator[Document]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec_of(pod).get(field) or ()


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(f'"{text}"' for text in texts)


def _several(word: str, texts: Sequence[str]) -> str:
    """`container "a"`, or `containers "a", "b"`."""
    return f"{word}{'' if len(texts) == 1 else 's'} {_quoted(texts)}"


def _setting(part: Document, field: str) -> Any:
    return dig(part, f"securityContext.{field}")


def _sets(pod: Document, field: str, is_wrong: Callable[[Any], bool]) -> tuple[str, str]:
    """Who of a pod and its containers sets a field of `securityContext` to what is not allowed, and the values."""
    found = [(one["name"], _setting(one, field)) for one in _containers(pod)]
    wrong = [(name, value) for name, value in found if value is not None and is_wrong(value)]
    values = {str(value) for _, value in wrong}
    who = [_several("container", [name for name, _ in wrong])] if wrong else []
    of_pod = _setting(spec_of(pod), field)
    if of_pod is not None and is_wrong(of_pod):
        who.insert(0, "pod")
        values.add(str(of_pod))
    return " and ".join(who), _quoted(sorted(values))


def _never(field: str, is_wrong: Callable[[Any], bool], text: str) -> Check:
    """A check that nobody sets a field to what is not allowed. A text that ends with a blank is followed by it."""

    def check(pod: Document) -> str:
        who, values = _sets(pod, field, is_wrong)
        return f"{who} must not set {text}{values if text.endswith(' ') else ''}" if who else ""

    return check


def _set_by_all(field: str, never: Check, wanted: str) -> Check:
    """A check that nobody sets a field to what is not allowed, and that the pod or each container sets it."""

    def check(pod: Document) -> str:
        is_set = _setting(spec_of(pod), field) is not None
        who = [] if is_set else [one["name"] for one in _containers(pod) if _setting(one, field) is None]
        missing = f"pod or {_several('container', who)} must set securityContext.{field}{wanted}" if who else ""
        return never(pod) or missing

    return check


def _each(is_wrong: Callable[[Document], bool], wanted: str) -> Check:
    """A check of each container."""

    def check(pod: Document) -> str:
        who = [one["name"] for one in _containers(pod) if is_wrong(one)]
        return f"{_several('container', who)} must set securityContext.{wanted}" if who else ""

    return check


def _using(pod: Document, values_of: Callable[[Document], set[str]]) -> tuple[list[str], list[str]]:
    """The containers with values, and all values."""
    found = {one["name"]: values_of(one) for one in _containers(pod)}
    return [name for name, values in found.items() if values], sorted(set[str]().union(*found.values()))


def _uses(what: str, values_of: Callable[[Document], set[str]], shown: Callable[[list[str]], str]) -> Check:
    def check(pod: Document) -> str:
        who, values = _using(pod, values_of)
        verb, noun = "uses" if len(who) == 1 else "use", what if len(values) == 1 else f"{what}s"
        return f"{_several('container', who)} {verb} {noun} {shown(values)}" if who else ""

    return check


def _host_ports(container: Document) -> set[str]:
    return {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}


def _probe_hosts(container: Document) -> set[str]:
    paths = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop")
    hosts = (dig(container, f"{path}.{how}.host") for path in paths for how in ("httpGet", "tcpSocket"))
    return {str(host) for host in hosts if host}


def _adds(allowed: Iterable[str]) -> Check:
    def check(pod: Document) -> str:
        who, values = _using(pod, lambda one: set[str](_setting(one, "capabilities.add") or ()) - set(allowed))
        where = "securityContext.capabilities.add"
        return f"{_several('container', who)} must not include {_quoted(values)} in {where}" if who else ""

    return check


def _host_namespaces(pod: Document) -> str:
    return ", ".join(f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec_of(pod).get(field))


def _host_paths(pod: Document) -> str:
    names = [one["name"] for one in spec_of(pod).get("volumes") or () if one.get("hostPath") is not None]
    return _several("volume", names) if names else ""


def _selinux(pod: Document) -> str:
    def is_wrong(options: Document) -> bool:
        return bool((options.get("type") or "") not in _SELINUX_TYPES or options.get("user") or options.get("role"))

    who, _ = _sets(pod, "seLinuxOptions", is_wrong)
    chosen = [one for one in (_setting(part, "seLinuxOptions") for part in (spec_of(pod), *_containers(pod))) if one]
    types = sorted({one.get("type") or "" for one in chosen} - set(_SELINUX_TYPES))
    said = [_several("type", types)] if types else []
    said += [f"{field} may not be set" for field in ("user", "role") if any(one.get(field) for one in chosen)]
    return f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(said)}" if who else ""


def _sysctls(pod: Document) -> str:
    return ", ".join(one["name"] for one in _setting(spec_of(pod), "sysctls") or () if one["name"] not in _SYSCTLS)


def _drops_all(pod: Document) -> str:
    dropped = _each(lambda one: "ALL" not in (_setting(one, "capabilities.drop") or ()), 'capabilities.drop=["ALL"]')
    return "; ".join(filter(None, (dropped(pod), _adds(("NET_BIND_SERVICE",))(pod))))


def _volume_types(pod: Document) -> str:
    found = {
        one["name"]: next((kind for kind in one if kind != "name"), "unknown")
        for one in spec_of(pod).get("volumes") or ()
        if _VOLUMES.isdisjoint(one)
    }
    verb, types = "uses" if len(found) == 1 else "use", sorted(set(found.values()))
    return f"{_several('volume', list(found))} {verb} {_several('restricted volume type', types)}" if found else ""


def _with_host_users(check: Check) -> Check:
    """A check that a user namespace of the pod's own makes needless."""
    return lambda pod: "" if spec_of(pod).get("hostUsers") is False else check(pod)


def _is_no_profile(value: Any) -> bool:
    return value not in _PROFILES


_NO_ROOT = _never("runAsNonRoot", lambda value: not value, "securityContext.runAsNonRoot=false")
_SECCOMP = _never("seccompProfile.type", _is_no_profile, "securityContext.seccompProfile.type to ")
_PROC_MOUNT = _never("procMount", lambda value: value != "Default", "securityContext.procMount to ")
_ALWAYS = (
    ("forbidden AppArmor profile", _never("appArmorProfile.type", _is_no_profile, "AppArmor profile type to ")),
    ("host namespaces", _host_namespaces),
    ("hostPort", _uses("hostPort", _host_ports, ", ".join)),
    ("probe or lifecycle host", _uses("probe or lifecycle host", _probe_hosts, _quoted)),
    ("privileged", _never("privileged", bool, "securityContext.privileged=true")),
    ("seLinuxOptions", _selinux),
    ("forbidden sysctls", _sysctls),
)
"""Reasons and checks of both levels; as in the next two tuples, in the order in which Kubernetes names them."""
_BASELINE = (
    _ALWAYS[0],
    ("non-default capabilities", _adds(_CAPABILITIES)),
    _ALWAYS[1],
    ("hostPath volumes", _host_paths),
    *_ALWAYS[2:5],
    ("procMount", _with_host_users(_PROC_MOUNT)),
    _ALWAYS[5],
    ("seccompProfile", _SECCOMP),
    _ALWAYS[6],
)
_RESTRICTED = (
    *_ALWAYS,
    (
        "allowPrivilegeEscalation != false",
        _each(lambda one: _setting(one, "allowPrivilegeEscalation") is not False, "allowPrivilegeEscalation=false"),
    ),
    ("unrestricted capabilities", _drops_all),
    ("procMount", _PROC_MOUNT),
    ("restricted volume types", _volume_types),
    ("runAsNonRoot != true", _with_host_users(_set_by_all("runAsNonRoot", _NO_ROOT, "=true"))),
    ("runAsUser=0", _with_host_users(_never("runAsUser", lambda value: value == 0, "runAsUser=0"))),
    ("seccompProfile", _set_by_all("seccompProfile.type", _SECCOMP, ' to "RuntimeDefault" or "Localhost"')),
)
