# SPDX-License-Identifier: Apache-2.0
"""The plugins that kube-apiserver runs by default and that matter here, in its order. Begin at `BuiltInPlugins`.

https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
"""

import asyncio
import copy
from collections.abc import Iterator
from typing import Literal

from trainwright.api.amounts import Amounts, of_containers, read
from trainwright.api.objects import Document, generated_name
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.request import AdmissionRequest
from trainwright.controller.local.apiserver.kinds.metadata import entries, part
from trainwright.controller.local.apiserver.kinds.podspecs import set_account
from trainwright.controller.local.apiserver.store import ObjectStore

_ACCOUNT_TRIES = 10
_ACCOUNT_SECONDS = 0.15
"""Between two tries. Kubernetes tries as often, 0.1 to 0.2 s apart."""
_DEFAULT_ACCOUNT = "default"
"""The account of pods that name none. A controller makes it in each namespace."""
_VOLUME_PREFIX = "kube-api-access-"
_MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 60 * 60 + 7
"""An hour, and a little more by which the API server recognises its own tokens."""
_TOKEN_SOURCES = (
    {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
    {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
    {
        "downwardAPI": {
            "items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}]
        }
    },
)
_SCHEDULING = "scheduling.k8s.io"
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATED_SECONDS = 300
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class BuiltInPlugins:
    """All of them; `mutate` and `validate` are plugins of the chain.

    Args:
        store: of all objects, which plugins look up.
        service_accounts: whether pods get an account, its token and its pull secrets. Without a controller that
            creates the accounts, every pod would be refused.
    """

    def __init__(self, store: ObjectStore, *, service_accounts: bool) -> None:
        self._store = store
        self._service_accounts = service_accounts

    async def mutate(self, request: AdmissionRequest) -> None:
        """Fill in what an object gets from other objects. Raises StatusError where it is refused."""
        if request.new is None or request.operation == "CONNECT":
            return
        if request.operation == "UPDATE" and request.is_of("", "pods"):
            request.new = {**request.new, "spec": dict(request.new["spec"])}
        new, creates_pod = request.new, request.creates("", "pods")
        if creates_pod and self._service_accounts and _account_name(new) == _DEFAULT_ACCOUNT:
            await self._wait_for_account(request)
        self._check_namespace(request)
        if creates_pod:
            for limit_range in self._store.documents("limitranges", request.call.namespace):
                _apply_limits(limit_range, new)
            if self._service_accounts:
                self._give_account(request, new)
        if request.is_of("", "pods"):
            self._set_priority(request, new)
            _tolerate_lost_nodes(new["spec"])
        if creates_pod:
            self._check_runtime_class(request, new["spec"])
        if request.creates("", "persistentvolumeclaims"):
            self._set_storage_class(new)

    async def validate(self, request: AdmissionRequest) -> None:
        """Check again what webhooks could have changed. Raises StatusError where an object is refused."""
        if request.new is None or request.operation == "CONNECT":
            return
        if request.creates("", "pods"):
            self._check_limits(request, request.new)
        if request.is_of(_SCHEDULING, "priorityclasses"):
            self._check_default_priority(request, request.new)

    # ------------------------------------------------------------------ NamespaceLifecycle

    def _check_namespace(self, request: AdmissionRequest) -> None:
        """Nothing is created where no namespace is, or where one is ending. Some cannot be deleted: see strategies."""
        namespace = request.call.namespace
        if not namespace or request.call.plural == "localsubjectaccessreviews":
            return
        stored = self._store.document("namespaces", namespace)
        if stored is None:
            raise errors.not_found("", "namespaces", namespace)
        if request.operation == "CREATE" and part(stored, "status").get("phase") == "Terminating":
            ends = f"namespace {namespace} is being terminated"
            refusal = request.forbidden(
                f"unable to create new content in namespace {namespace} because it is being terminated"
            )
            cause = {"reason": "NamespaceTerminating", "message": ends, "field": "metadata.namespace"}
            refusal.details = {**(refusal.details or {}), "causes": [cause]}
            raise refusal

    # ------------------------------------------------------------------ ServiceAccount

    async def _wait_for_account(self, request: AdmissionRequest) -> None:
        """A namespace gets its account a moment after it was made, and whoever made it may be faster."""
        for _ in range(_ACCOUNT_TRIES - 1):
            if self._store.document("serviceaccounts", _DEFAULT_ACCOUNT, request.call.namespace) is not None:
                return
            # Raises where no account comes any more.
            self._check_namespace(request)
            await asyncio.sleep(_ACCOUNT_SECONDS)

    def _give_account(self, request: AdmissionRequest, pod: Document) -> None:
        """Each pod runs as an account of its namespace, finds its token in a volume, and has its pull secrets."""
        spec, namespace, name = pod["spec"], request.call.namespace, _account_name(pod)
        set_account(spec, name)
        account = self._store.document("serviceaccounts", name, namespace)
        if account is None:
            missing = f'serviceaccount "{name}" not found'
            raise request.forbidden(f"error looking up service account {namespace}/{name}: {missing}")
        wishes = (holder.get("automountServiceAccountToken") for holder in (spec, account))
        if next((wish for wish in wishes if wish is not None), True):
            _mount_token(spec)
        secrets = [{"name": secret.get("name")} for secret in entries(account, "imagePullSecrets")]
        if secrets and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = secrets

    # ------------------------------------------------------------------ Priority

    def _set_priority(self, request: AdmissionRequest, pod: Document) -> None:
        """Pods get the number and the preemption policy of their class."""
        spec = pod["spec"]
        if request.operation == "UPDATE":
            before = part(request.old or {}, "spec")
            for field in ("priority", "preemptionPolicy"):
                if spec.get(field) is None and before.get(field) is not None:
                    spec[field] = before[field]
            return
        found = self._priority_class(request, spec)
        if found.get("metadata"):
            spec["priorityClassName"] = found["metadata"]["name"]
        for field, spoken, value in (
            ("priority", "integer value of priority", found.get("value") or 0),
            ("preemptionPolicy", "string value of PreemptionPolicy", found.get("preemptionPolicy")),
        ):
            if value is not None and spec.get(field) not in (None, value):
                raise request.forbidden(
                    f"the {spoken} ({spec[field]}) must not be provided in pod spec; priority admission controller "
                    f"computed {value} from the given PriorityClass name"
                )
            if value is not None:
                spec[field] = value

    def _priority_class(self, request: AdmissionRequest, spec: Document) -> Document:
        name = spec.get("priorityClassName")
        if not name:
            return self._default_priority() or {"value": 0, "preemptionPolicy": "PreemptLowerPriority"}
        found = self._store.document(f"priorityclasses.{_SCHEDULING}", name)
        if found is None:
            raise request.forbidden(f"no PriorityClass with name {name} was found")
        return found

    def _default_priority(self) -> Document | None:
        """The default class; that of the lowest priority if several say so."""
        candidates = [
            one for one in self._store.documents(f"priorityclasses.{_SCHEDULING}") if one.get("globalDefault")
        ]
        return min(candidates, key=lambda one: one.get("value") or 0, default=None)

    def _check_default_priority(self, request: AdmissionRequest, new: Document) -> None:
        """One class at most is the default."""
        default = self._default_priority() if new.get("globalDefault") else None
        if default is None:
            return
        name = default["metadata"]["name"]
        if request.operation == "CREATE" or name != new["metadata"].get("name"):
            raise request.forbidden(f"PriorityClass {name} is already marked as default. Only one default can exist")

    # ------------------------------------------------------------------ RuntimeClass

    def _check_runtime_class(self, request: AdmissionRequest, spec: Document) -> None:
        """The class of a pod is there. Its overhead and its nodes do not matter here."""
        name = spec.get("runtimeClassName")
        if name is not None and self._store.document("runtimeclasses.node.k8s.io", name) is None:
            raise request.forbidden(f'pod rejected: RuntimeClass "{name}" not found')

    # ------------------------------------------------------------------ DefaultStorageClass

    def _set_storage_class(self, claim: Document) -> None:
        """A claim without a class gets the default one, of several the newest."""
        spec: Document = claim.setdefault("spec", {})
        if spec.get("storageClassName") is not None:
            return
        listed = sorted(
            self._store.documents("storageclasses.storage.k8s.io"), key=lambda one: str(one["metadata"]["name"])
        )
        defaults = [one for one in listed if part(part(one, "metadata"), "annotations").get(_DEFAULT_CLASS) == "true"]
        if defaults:
            newest = max(defaults, key=lambda one: str(one["metadata"].get("creationTimestamp") or ""))
            spec["storageClassName"] = newest["metadata"]["name"]

    # ------------------------------------------------------------------ LimitRanger

    def _check_limits(self, request: AdmissionRequest, new: Document) -> None:
        """Refuse pods beyond the bounds of a LimitRange."""
        for limit_range in self._store.documents("limitranges", request.call.namespace):
            items = entries(part(limit_range, "spec"), "limits")
            found = list(dict.fromkeys(problem for item in items for problem in _pod_problems(new, item)))
            if found:
                raise request.forbidden(found[0] if len(found) == 1 else f"[{', '.join(found)}]")


def _account_name(pod: Document) -> str:
    return pod["spec"].get("serviceAccountName") or _DEFAULT_ACCOUNT


def _mount_token(spec: Document) -> None:
    taken = [volume["name"] for volume in entries(spec, "volumes") if volume.get("name", "").startswith(_VOLUME_PREFIX)]
    name = taken[0] if taken else generated_name(_VOLUME_PREFIX)
    mount = {"name": name, "readOnly": True, "mountPath": _MOUNT_PATH}
    mounted = False
    for field in ("initContainers", "containers"):
        for container in entries(spec, field):
            mounts = entries(container, "volumeMounts")
            if all(one.get("mountPath") != _MOUNT_PATH for one in mounts):
                container["volumeMounts"] = [*mounts, dict(mount)]
                mounted = True
    if mounted and not taken:
        volume = {"name": name, "projected": {"defaultMode": 0o644, "sources": copy.deepcopy(list(_TOKEN_SOURCES))}}
        spec["volumes"] = [*entries(spec, "volumes"), volume]


def _tolerate_lost_nodes(spec: Document) -> None:
    """DefaultTolerationSeconds: a pod stays five minutes on a node that is not ready or cannot be reached."""
    given = entries(spec, "tolerations")
    added = [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_SECONDS}
        for taint in _TAINTS
        if not any(
            (one.get("key") or taint) == taint and (one.get("effect") or "NoExecute") == "NoExecute" for one in given
        )
    ]
    if added:
        spec["tolerations"] = [*given, *added]


def _pod_problems(pod: Document, item: Document) -> Iterator[str]:
    needs: list[tuple[Amounts, Amounts]] = []
    if item.get("type") == "Container":
        for field in ("containers", "initContainers"):
            resources = [part(container, "resources") for container in entries(pod["spec"], field)]
            needs += [(read(one.get("requests")), read(one.get("limits"))) for one in resources]
    elif item.get("type") == "Pod":
        needs.append((of_containers(pod["spec"], "requests"), of_containers(pod["spec"], "limits")))
    for requests, limits in needs:
        yield from _beyond(item, "min", ("request", requests), ("limit", limits))
        yield from _beyond(item, "max", ("limit", limits), ("request", requests))


def _beyond(item: Document, field: Literal["min", "max"], *given: tuple[str, Amounts]) -> Iterator[str]:
    """What is beyond a bound. The first of what is given has to name each resource that is bounded."""
    word, required = given[0]
    for name, bound in sorted(read(item.get(field)).items()):
        text = f"{field}imum {name} usage per {item['type']} is {bound}"
        if name not in required:
            yield f"{text}.  No {word} is specified"
            continue
        for said, amounts in given:
            amount = amounts.get(name)
            if amount is not None and (amount < bound if field == "min" else amount > bound):
                yield f"{text}, but {said} is {amount}"
                break


def _apply_limits(limit_range: Document, pod: Document) -> None:
    """Give containers the default requests and limits, and note it in an annotation."""
    requests: Document = {}
    limits: Document = {}
    for item in entries(part(limit_range, "spec"), "limits"):
        if item.get("type") == "Container":
            requests.update(part(item, "defaultRequest"))
            limits.update(part(item, "default"))
    notes: list[str] = []
    for field, spoken in (("containers", "container"), ("initContainers", "init container")):
        for container in entries(pod["spec"], field):
            for name, defaults in (("requests", requests), ("limits", limits)):
                added = _fill(container, name, defaults)
                if added:
                    notes.append(f"{', '.join(sorted(added))} {name[:-1]} for {spoken} {container.get('name')}")
    if notes:
        metadata = pod.setdefault("metadata", {})
        annotations = metadata["annotations"] = dict(part(metadata, "annotations"))
        annotations["kubernetes.io/limit-ranger"] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _fill(container: Document, field: str, defaults: Document) -> list[str]:
    resources = container["resources"] = dict(part(container, "resources"))
    given = part(resources, field)
    added = [name for name in defaults if name not in given]
    if added:
        resources[field] = {**defaults, **given}
    return added
