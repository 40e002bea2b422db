# SPDX-License-Identifier: Apache-2.0
"""What the document of a pod says, and what follows from it alone: fields, variables, restarts. Nothing is changed."""

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from trainwright.api import times
from trainwright.api.base import Resource
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.kubernetes.core.v1 import ConfigMap, PersistentVolumeClaim, Secret, ServiceAccount
from trainwright.api.objects import (
    Document,
    annotations_of,
    deletion_timestamp_of,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.api.quantity import Quantity
from trainwright.api.times import Now
from trainwright.controller.runtime import Client, KubernetesError, NotFound

# References to variables in values, commands and arguments: `$(NAME)`; `$$` stands for `$`.
# https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace references to known variables. Unknown ones stay as they are."""

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return variables.get(name, match[0])

    return _REFERENCE.sub(replace, text)


# ---------------------------------------------------------------------- pods

GRACE_SECONDS = 30
"""The API server's default of terminationGracePeriodSeconds."""
TERMINAL = frozenset({"Succeeded", "Failed"})
RESTARTS = "local.trainwright.dev/restarts"
"""Annotation of pods: with `none`, the local node starts no container again, whatever the pod says."""


_REFERENCES = frozenset({"configMap", "secret", "configMapRef", "secretRef", "configMapKeyRef", "secretKeyRef"})


class Containers(NamedTuple):
    init: list[Document]
    """All init containers, sidecars among them."""
    main: list[Document]


def phase_of(pod: Document) -> str:
    return str(status_of(pod).get("phase") or "Pending")


def is_finished(pod: Document) -> bool:
    return phase_of(pod) in TERMINAL


def containers_of(pod: Document) -> Containers:
    spec = spec_of(pod)
    return Containers(spec.get("initContainers") or [], spec.get("containers") or [])


def all_containers(pod: Document) -> Iterator[Document]:
    init, main = containers_of(pod)
    yield from init
    yield from main


def is_sidecar(container: Document) -> bool:
    """Whether an init container runs beside the others (`restartPolicy: Always`)."""
    return container.get("restartPolicy") == "Always"


def describe(pod: Document) -> str:
    """A pod in messages, as the kubelet writes it: `name_namespace(uid)`."""
    return f"{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"


def hostname_of(pod: Document) -> str:
    """The host name inside the pod: `spec.hostname`, else the name, at most 63 characters."""
    return str(spec_of(pod).get("hostname") or name_of(pod)[:63].rstrip("-."))


def grace_of(pod: Document) -> float:
    """Seconds between SIGTERM and SIGKILL: of the deletion if there is one, else of the spec."""
    grace = (pod.get("metadata") or {}).get("deletionGracePeriodSeconds")
    if grace is None:
        grace = spec_of(pod).get("terminationGracePeriodSeconds", GRACE_SECONDS)
    return float(grace)


def is_deleted(pod: Document) -> bool:
    return deletion_timestamp_of(pod) is not None


def should_restart(pod: Document, container: Document, code: int) -> bool:
    """Whether a container that ended with this code is started again; its own policy comes before the pod's."""
    if annotations_of(pod).get(RESTARTS) == "none" and not (is_sidecar(container) and is_init(pod, container)):
        return False
    policy = container.get("restartPolicy") or spec_of(pod).get("restartPolicy") or "Always"
    if is_init(pod, container) and not is_sidecar(container):
        # An init container that succeeded is done, whatever the policy says.
        return code != 0 and policy != "Never"
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def is_init(pod: Document, container: Document) -> bool:
    return any(one["name"] == container["name"] for one in containers_of(pod).init)


def references_of(pod: Document) -> frozenset[str]:
    return frozenset(_references(spec_of(pod)))


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for item in part:
            yield from _references(item)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key in _REFERENCES and isinstance(value, dict):
                yield str(value.get("secretName") or value.get("name") or "")
            else:
                yield from _references(value)


# ---------------------------------------------------------------------- fields (the downward API)

HOST_IP = "127.0.0.1"
"""The address of the node and of all its pods."""

_KEYED = re.compile(r"metadata\.(annotations|labels)\['([^']+)'\]")


def field_value(pod: Document, path: str) -> str:
    """The value of a `fieldRef`. Raises ConfigError for a path that Kubernetes does not know."""
    if keyed := _KEYED.fullmatch(path):
        values = annotations_of(pod) if keyed[1] == "annotations" else labels_of(pod)
        return str(values.get(keyed[2], ""))
    spec = spec_of(pod)
    plain = {
        "metadata.name": name_of(pod),
        "metadata.namespace": namespace_of(pod),
        "metadata.uid": uid_of(pod),
        "spec.nodeName": str(spec.get("nodeName") or ""),
        "spec.serviceAccountName": str(spec.get("serviceAccountName") or ""),
        "status.hostIP": HOST_IP,
        "status.hostIPs": HOST_IP,
        "status.podIP": HOST_IP,
        "status.podIPs": HOST_IP,
    }
    if path in plain:
        return plain[path]
    if path in {"metadata.labels", "metadata.annotations"}:
        values = labels_of(pod) if path.endswith("labels") else annotations_of(pod)
        # As Go's %q, which JSON equals for what labels hold.
        return "".join(f"{key}={json.dumps(values[key], ensure_ascii=False)}\n" for key in sorted(values)).rstrip("\n")
    raise ConfigError(f"unsupported fieldPath: {path}")


def resource_value(
    pod: Document, reference: Document, container: Document | None, allocatable: Mapping[str, str]
) -> str:
    """The value of a `resourceFieldRef`, in units of its divisor, rounded up.

    A limit that is not set is what the node has to give (`allocatable`); a request that is not set is 0. Raises
    ConfigError for an unknown container or resource.
    """
    name = reference.get("containerName")
    if name:
        container = next((one for one in all_containers(pod) if one["name"] == name), None)
    if container is None:
        raise ConfigError(f"container {name} not found")
    side, _, resource = str(reference.get("resource", "")).partition(".")
    if side not in {"limits", "requests"} or not resource:
        raise ConfigError(f"unsupported container resource : {reference.get('resource')}")
    amount = ((container.get("resources") or {}).get(side) or {}).get(resource)
    if amount is None:
        amount = allocatable.get(resource, "0") if side == "limits" else "0"
    divisor = Quantity.parse(reference.get("divisor") or "0") or Quantity.parse("1")
    return str(-(-Quantity.parse(amount).nanos // divisor.nanos))


# ---------------------------------------------------------------------- variables
#
# Order and texts are those of the kubelet: `envFrom` first, then `env` in its order; a `value` may refer to what was
# set before it.


class ConfigError(Exception):
    """The container cannot be configured now: CreateContainerConfigError with this message. Try again."""


class CreateError(Exception):
    """The container cannot be created: CreateContainerError with this message."""


class VolumeError(Exception):
    """The volume cannot be set up yet. The message says why."""


class Token(NamedTuple):
    text: str
    renew_after: float
    """Seconds of its life until it should be renewed."""


PERSISTENT_VOLUME = Resource(
    group="", version="v1", kind="PersistentVolume", plural="persistentvolumes", namespaced=False
)
RENEW_PART = 0.8
"""A token is renewed when this part of its life is over."""


class ClusterSources:
    """What pods refer to, and what they belong to.

    Reads through the client, without a cache: a pod may be bound the moment after its ConfigMap was created.

    Failures of the API server are raised as ConfigError or VolumeError: pods wait until it answers.
    """

    def __init__(self, client: Client, *, allocatable: Callable[[], Mapping[str, str]], now: Now) -> None:
        self._client = client
        self._allocatable = allocatable
        self._now = now

    async def config_map(self, namespace: str, name: str) -> Document | None:
        return await self._get(ConfigMap.RESOURCE, namespace, name)

    async def secret(self, namespace: str, name: str) -> Document | None:
        return await self._get(Secret.RESOURCE, namespace, name)

    async def token(self, pod: Document, *, audience: str, seconds: int) -> Token:
        """A token of the pod's service account from the TokenRequest API. Raises VolumeError."""
        account = spec_of(pod).get("serviceAccountName") or "default"
        reference = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}
        body: Document = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [audience] if audience else [],
                "expirationSeconds": seconds,
                "boundObjectRef": reference,
            },
        }
        try:
            answer = await self._client.post_subresource(
                ServiceAccount.RESOURCE, account, namespace_of(pod), "token", body
            )
        except KubernetesError as error:
            raise VolumeError(f"failed to fetch token: {error}") from error
        status = answer["status"]
        life = (times.parse(status["expirationTimestamp"]) - self._now()).total_seconds()
        return Token(status["token"], max(1.0, life * RENEW_PART))

    async def claim_folder(self, namespace: str, claim: str) -> str:
        """The folder of the volume that a claim is bound to. Raises VolumeError."""
        found = await self._get(PersistentVolumeClaim.RESOURCE, namespace, claim)
        if found is None:
            raise VolumeError(f'persistentvolumeclaim "{claim}" not found')
        volume_name = spec_of(found).get("volumeName")
        if not volume_name:
            raise VolumeError(f'persistentvolumeclaim "{claim}" is not bound')
        volume = await self._get(PERSISTENT_VOLUME, "", volume_name)
        if volume is None:
            raise VolumeError(f'persistentvolume "{volume_name}" not found')
        spec = spec_of(volume)
        path = (spec.get("hostPath") or spec.get("local") or {}).get("path")
        if not path:
            raise VolumeError(f'persistentvolume "{volume_name}" is not a folder of this machine')
        return str(path)

    async def job_set(self, pod: Document) -> Document | None:
        name = labels_of(pod).get(LABEL_JOBSET)
        return await self._get(JobSet.RESOURCE, namespace_of(pod), name) if name else None

    def allocatable(self) -> Mapping[str, str]:
        return self._allocatable()

    async def _get(self, kind: Resource, namespace: str, name: str) -> Document | None:
        try:
            return await self._client.get(kind, name, namespace)
        except NotFound:
            return None
        except KubernetesError as error:
            raise ConfigError(str(error)) from error


async def variables_of(
    pod: Document, container: Document, sources: ClusterSources, *, service: Mapping[str, str]
) -> dict[str, str]:
    """The variables that the document sets, in their order.

    `service` holds variables of the cluster (KUBERNETES_SERVICE_HOST …), to which values may refer; they are not part
    of the result. Raises ConfigError for a missing object or key that is not optional.
    """
    found: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        data = await _all_of(source, namespace_of(pod), sources)
        prefix = source.get("prefix") or ""
        found.update({prefix + key: value for key, value in sorted(data.items()) if _is_name(prefix + key)})
    for entry in container.get("env") or ():
        name = entry["name"]
        reference = entry.get("valueFrom")
        if reference:
            value = await _value_from(reference, pod, container, sources)
            if value is not None:
                found[name] = value
        else:
            found[name] = expand(entry.get("value") or "", {**service, **found})
    return found


async def _value_from(reference: Document, pod: Document, container: Document, sources: ClusterSources) -> str | None:
    """The value of one reference; None for a missing one that is optional."""
    if field := reference.get("fieldRef"):
        return field_value(pod, field.get("fieldPath", ""))
    if resource := reference.get("resourceFieldRef"):
        return resource_value(pod, resource, container, sources.allocatable())
    for kind in ("configMap", "secret"):
        if key := reference.get(f"{kind}KeyRef"):
            data = await data_of(kind, namespace_of(pod), key["name"], sources)
            if data is None:
                _missing(key, f'{kind.lower()} "{key["name"]}" not found')
            elif key["key"] not in data:
                shown = f"{kind[0].upper()}{kind[1:]} {namespace_of(pod)}/{key['name']}"
                _missing(key, f"couldn't find key {key['key']} in {shown}")
            else:
                return _text(data[key["key"]])
            return None
    raise ConfigError(f"unsupported source of a variable: {', '.join(reference) or 'none'}")


async def data_of(
    kind: str, namespace: str, name: str, sources: ClusterSources, *, binary: bool = False
) -> dict[str, bytes] | None:
    """The entries of a `configMap` or `secret`; None if it does not exist. `binary`: also those of `binaryData`."""
    found = await (sources.secret if kind == "secret" else sources.config_map)(namespace, name)
    if found is None:
        return None
    if kind == "secret":
        return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
    data = {key: str(value).encode("utf-8", "surrogateescape") for key, value in (found.get("data") or {}).items()}
    more = (found.get("binaryData") or {}) if binary else {}
    return data | {key: base64.b64decode(value) for key, value in more.items()}


async def _all_of(source: Document, namespace: str, sources: ClusterSources) -> dict[str, str]:
    """All entries of one `envFrom` source."""
    for kind in ("configMap", "secret"):
        if reference := source.get(f"{kind}Ref"):
            data = await data_of(kind, namespace, reference["name"], sources)
            if data is None:
                _missing(reference, f'{kind.lower()} "{reference["name"]}" not found')
            return {key: _text(value) for key, value in (data or {}).items()}
    return {}


def _missing(reference: Document, message: str) -> None:
    if not reference.get("optional"):
        raise ConfigError(message)


def _is_name(name: str) -> bool:
    """Whether the operating system takes it as the name of a variable."""
    return bool(name) and "=" not in name and "\0" not in name


def _text(value: bytes) -> str:
    """A value as it reaches a process: bytes that are no UTF-8 survive as surrogates."""
    return value.decode("utf-8", "surrogateescape")
