# SPDX-License-Identifier: Apache-2.0
"""PodSecurity: pods are held to the level that labels of their namespace name, `baseline` or `restricted`.

A pod that violates the level `enforce` is refused. One that violates `warn` is admitted with a warning, and so is an
object with a template of pods. `audit` shows in the log of requests. A version other than `latest` is shown and means
the latest all the same: the checks are those of Kubernetes 1.36. Fields of Windows are not checked.

Sources: https://kubernetes.io/docs/concepts/security/pod-security-standards/ and, for the order of the checks and their
texts, k8s.io/pod-security-admission 0.36.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trainwright.api.objects import Document, dig, labels_of, name_of, spec_of
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.request import AdmissionRequest
from trainwright.controller.local.apiserver.request.info import RequestInfo
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore
from trainwright.controller.local.types.errors import DocumentError, invalid

_PREFIX = "pod-security.kubernetes.io/"
_LEVELS = ("privileged", "baseline", "restricted")
_MODES = ("enforce", "audit", "warn")
_VERSION = re.compile(r"latest|v1\.(0|[1-9][0-9]*)")
_TEMPLATES = {
    ("", "podtemplates"): "template",
    ("", "replicationcontrollers"): "spec.template",
    ("apps", "replicasets"): "spec.template",
    ("apps", "deployments"): "spec.template",
    ("apps", "statefulsets"): "spec.template",
    ("apps", "daemonsets"): "spec.template",
    ("batch", "jobs"): "spec.template",
    ("batch", "cronjobs"): "spec.jobTemplate.spec.template",
}
"""Kinds with a template of pods, and where it is."""
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


class Violation(NamedTuple):
    """What one check says of a pod."""

    reason: str
    detail: str


Check = Callable[[Document], Violation | None]


class LevelVersion(NamedTuple):
    """A level of the standards, as one mode of a namespace names it."""

    level: str = "privileged"
    version: str = "latest"

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"


Policy = Mapping[str, LevelVersion]
"""The level of each mode."""


def policy_of(labels: Mapping[str, str]) -> tuple[Policy, list[DocumentError]]:
    """The policy of a namespace, and what is wrong with its labels."""
    policy: dict[str, LevelVersion] = {}
    wrong: list[DocumentError] = []
    for mode in _MODES:
        level, version = labels.get(_PREFIX + mode, "privileged"), labels.get(f"{_PREFIX}{mode}-version", "latest")
        if level not in _LEVELS:
            wrong.append(_wrong(mode, level, f"must be one of {', '.join(_LEVELS)}"))
            level = "restricted" if mode == "enforce" else "privileged"
        if not _VERSION.fullmatch(version):
            wrong.append(_wrong(f"{mode}-version", version, 'must be "latest" or "v1.x"'))
            version = "latest"
        policy[mode] = LevelVersion(level, version)
    if _PREFIX + "warn" not in labels and labels.get(_PREFIX + "enforce") in _LEVELS:
        # Whoever enforces is warned about templates, too.
        version = policy["warn" if f"{_PREFIX}warn-version" in labels else "enforce"].version
        if policy["enforce"].level != "privileged":
            policy["warn"] = LevelVersion(policy["enforce"].level, version)
    return policy, wrong


def _wrong(mode: str, value: str, why: str) -> DocumentError:
    return invalid(f"metadata.labels[{_PREFIX}{mode}]", value, why)


class PodSecurity:
    """Holds pods to the levels of their namespaces; `validate` is a plugin of the admission chain.

    Args:
        store: of namespaces and pods.
    """

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
        elif (template := dig(new, _TEMPLATES.get(kind, "-"))) is not None:
            self._tell(call, template, self._policy(call.namespace))

    def _policy(self, namespace: str) -> Policy:
        stored = self._store.get("namespaces", ObjectName("", namespace))
        return policy_of(labels_of(stored.document()) if stored is not None else {})[0]

    def _check_pod(self, call: RequestInfo, pod: Document) -> None:
        policy = self._policy(call.namespace)
        call.request.audit[_PREFIX + "enforce-policy"] = str(policy["enforce"])
        found = violations(pod, policy["enforce"].level)
        self._tell(call, pod, policy if not found else {"audit": policy["audit"]})
        if found:
            name = name_of(pod) or (pod.get("metadata") or {}).get("generateName") or "Unknown"
            why = f'violates PodSecurity "{policy["enforce"]}": {_details(found)}'
            raise errors.forbidden("", "pods", name, why)

    def _tell(self, call: RequestInfo, pod: Document, policy: Policy) -> None:
        for mode in ("audit", "warn"):
            if mode in policy and (found := violations(pod, policy[mode].level)):
                text = f'would violate PodSecurity "{policy[mode]}": {_details(found)}'
                if mode == "warn":
                    call.warn(text)
                else:
                    call.request.audit[_PREFIX + "audit-violations"] = text

    def _check_namespace(self, call: RequestInfo, new: Document, old: Document | None) -> None:
        policy, wrong = policy_of(labels_of(new))
        before, wrong_before = policy_of(labels_of(old or {}))
        if wrong and (old is None or wrong != wrong_before):
            raise errors.invalid("", "Namespace", name_of(new), wrong)
        enforced, was = policy["enforce"], before["enforce"]
        stricter = _LEVELS.index(enforced.level) > _LEVELS.index(was.level) or enforced.version != was.version
        if old is not None and enforced.level != "privileged" and stricter:
            for text in self._warnings_about_pods(name_of(new), enforced):
                call.warn(text)

    def _warnings_about_pods(self, namespace: str, enforced: LevelVersion) -> Iterator[str]:
        """Which pods that run already could not be created any more."""
        names: dict[str, list[str]] = {}
        for stored in self._store.collection("pods").listed(namespace):
            pod = stored.document()
            if found := violations(pod, enforced.level):
                names.setdefault(", ".join(one.reason for one in found), []).append(name_of(pod))
        if names:
            yield f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{enforced}"'
        texts = []
        for reasons, pods in names.items():
            others = len(pods) - 1
            more = f" (and {others} other pod{'' if others == 1 else 's'})" if others else ""
            texts.append(f"{min(pods)}{more}: {reasons}")
        yield from sorted(texts)


def _images(pod: Document) -> list[tuple[str, Any]]:
    """What of a pod can change and counts: an image."""
    return [(one["name"], one.get("image")) for one in _containers(pod)]


def _details(found: Iterable[Violation]) -> str:
    return ", ".join(f"{one.reason} ({one.detail})" for one in found)


# ---------------------------------------------------------------------- the checks


def violations(pod: Document, level: str) -> list[Violation]:
    """What of a pod, or of a template of pods, violates a level."""
    checks = {"privileged": (), "baseline": _BASELINE, "restricted": _RESTRICTED}[level]
    return [found for check in checks if (found := check(pod)) is not None]


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


def _never(
    reason: str, field: str, is_wrong: Callable[[Any], bool], text: str
) -> Callable[[Document], Violation | None]:
    """A check that nobody sets a field to what is not allowed."""

    def check(pod: Document) -> Violation | None:
        who, values = _sets(pod, field, is_wrong)
        return Violation(reason, f"{who} must not set {text}{values if text.endswith(' ') else ''}") if who else None

    return check


def _unset(pod: Document, field: str) -> list[str]:
    """The containers for which neither they nor the pod set a field."""
    if _setting(spec_of(pod), field) is not None:
        return []
    return [one["name"] for one in _containers(pod) if _setting(one, field) is None]


def _using(pod: Document, values_of: Callable[[Document], set[str]]) -> tuple[list[str], list[str]]:
    """The containers with values, and all values."""
    found = {one["name"]: values_of(one) for one in _containers(pod)}
    return [name for name, values in found.items() if values], sorted(set[str]().union(*found.values()))


def _added(pod: Document, allowed: Iterable[str]) -> str:
    who, values = _using(pod, lambda one: set[str](_setting(one, "capabilities.add") or ()) - set(allowed))
    if not who:
        return ""
    return f"{_several('container', who)} must not include {_quoted(values)} in securityContext.capabilities.add"


def _capabilities(pod: Document) -> Violation | None:
    detail = _added(pod, _CAPABILITIES)
    return Violation("non-default capabilities", detail) if detail else None


def _host_namespaces(pod: Document) -> Violation | None:
    set_here = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec_of(pod).get(field)]
    return Violation("host namespaces", ", ".join(set_here)) if set_here else None


def _host_paths(pod: Document) -> Violation | None:
    names = [one["name"] for one in spec_of(pod).get("volumes") or () if one.get("hostPath") is not None]
    return Violation("hostPath volumes", _several("volume", names)) if names else None


def _host_ports(pod: Document) -> Violation | None:
    def taken(container: Document) -> set[str]:
        return {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}

    return _uses(pod, "hostPort", taken, ", ".join)


def _probe_hosts(pod: Document) -> Violation | None:
    paths = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop")
    wanted = [f"{path}.{how}.host" for path in paths for how in ("httpGet", "tcpSocket")]

    def named(container: Document) -> set[str]:
        return {str(dig(container, path)) for path in wanted if dig(container, path)}

    return _uses(pod, "probe or lifecycle host", named, _quoted)


def _uses(
    pod: Document, what: str, values_of: Callable[[Document], set[str]], shown: Callable[[list[str]], str]
) -> Violation | None:
    who, values = _using(pod, values_of)
    if not who:
        return None
    verb, noun = "uses" if len(who) == 1 else "use", what if len(values) == 1 else f"{what}s"
    return Violation(what, f"{_several('container', who)} {verb} {noun} {shown(values)}")


def _selinux(pod: Document) -> Violation | None:
    def is_wrong(options: Document) -> bool:
        return bool((options.get("type") or "") not in _SELINUX_TYPES or options.get("user") or options.get("role"))

    who, _ = _sets(pod, "seLinuxOptions", is_wrong)
    if not who:
        return None
    chosen = [one for one in (_setting(part, "seLinuxOptions") for part in (spec_of(pod), *_containers(pod))) if one]
    types = sorted({one.get("type") or "" for one in chosen} - set(_SELINUX_TYPES))
    said = [_several("type", types)] if types else []
    said += [f"{field} may not be set" for field in ("user", "role") if any(one.get(field) for one in chosen)]
    return Violation("seLinuxOptions", f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(said)}")


def _sysctls(pod: Document) -> Violation | None:
    names = [one["name"] for one in _setting(spec_of(pod), "sysctls") or () if one["name"] not in _SYSCTLS]
    return Violation("forbidden sysctls", ", ".join(names)) if names else None


def _escalation(pod: Document) -> Violation | None:
    field = "allowPrivilegeEscalation"
    who = [one["name"] for one in _containers(pod) if _setting(one, field) is not False]
    detail = f"{_several('container', who)} must set securityContext.{field}=false"
    return Violation(f"{field} != false", detail) if who else None


def _dropped_capabilities(pod: Document) -> Violation | None:
    who = [one["name"] for one in _containers(pod) if "ALL" not in (_setting(one, "capabilities.drop") or ())]
    said = [f'{_several("container", who)} must set securityContext.capabilities.drop=["ALL"]'] if who else []
    said += [added] if (added := _added(pod, ("NET_BIND_SERVICE",))) else []
    return Violation("unrestricted capabilities", "; ".join(said)) if said else None


def _volume_types(pod: Document) -> Violation | None:
    found = {
        one["name"]: next((kind for kind in one if kind != "name"), "unknown")
        for one in spec_of(pod).get("volumes") or ()
        if _VOLUMES.isdisjoint(one)
    }
    if not found:
        return None
    verb, types = "uses" if len(found) == 1 else "use", sorted(set(found.values()))
    detail = f"{_several('volume', list(found))} {verb} {_several('restricted volume type', types)}"
    return Violation("restricted volume types", detail)


def _non_root(pod: Document) -> Violation | None:
    reason, field = "runAsNonRoot != true", "securityContext.runAsNonRoot"
    if wrong := _never(reason, "runAsNonRoot", lambda value: not value, f"{field}=false")(pod):
        return wrong
    who = _unset(pod, "runAsNonRoot")
    return Violation(reason, f"pod or {_several('container', who)} must set {field}=true") if who else None


def _seccomp(pod: Document) -> Violation | None:
    if wrong := _SECCOMP(pod):
        return wrong
    who = _unset(pod, "seccompProfile.type")
    detail = f"pod or {_several('container', who)} must set securityContext.seccompProfile.type to "
    return Violation("seccompProfile", f'{detail}"RuntimeDefault" or "Localhost"') if who else None


def _with_host_users(check: Check) -> Check:
    """A check that a user namespace of the pod's own makes needless."""
    return lambda pod: None if spec_of(pod).get("hostUsers") is False else check(pod)


def _is_no_profile(value: Any) -> bool:
    return value not in _PROFILES


_SECCOMP = _never("seccompProfile", "seccompProfile.type", _is_no_profile, "securityContext.seccompProfile.type to ")
_PROC_MOUNT = _never("procMount", "procMount", lambda value: value != "Default", "securityContext.procMount to ")
_ALWAYS = {
    "appArmorProfile": _never(
        "forbidden AppArmor profile", "appArmorProfile.type", _is_no_profile, "AppArmor profile type to "
    ),
    "hostNamespaces": _host_namespaces,
    "hostPorts": _host_ports,
    "hostProbesAndHostLifecycle": _probe_hosts,
    "privileged": _never("privileged", "privileged", bool, "securityContext.privileged=true"),
    "seLinuxOptions": _selinux,
    "sysctls": _sysctls,
}
_ONLY_BASELINE = {
    "capabilities_baseline": _capabilities,
    "hostPathVolumes": _host_paths,
    "procMount": _with_host_users(_PROC_MOUNT),
    "seccompProfile_baseline": _SECCOMP,
}
_BASELINE = tuple(check for _, check in sorted({**_ALWAYS, **_ONLY_BASELINE}.items()))
"""In the order of their names, so that texts are those of Kubernetes."""
_RESTRICTED = (
    *_ALWAYS.values(),
    _escalation,
    _dropped_capabilities,
    _PROC_MOUNT,
    _volume_types,
    _with_host_users(_non_root),
    _with_host_users(_never("runAsUser=0", "runAsUser", lambda value: value == 0, "runAsUser=0")),
    _seccomp,
)
