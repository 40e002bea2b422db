# SPDX-License-Identifier: Apache-2.0
"""Reconciles the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt` of each namespace."""

from trainwright.api.base import Resource
from trainwright.api.objects import Document, Key, annotations_of, deletion_timestamp_of, name_of, namespace_of
from trainwright.api.rights import WATCH, Rule
from trainwright.controller.local.workloads.kinds import ACCOUNT, CONFIG_MAP, NAMESPACE
from trainwright.controller.runtime import AlreadyExists, Event, Manager, NotFound, Result

NAME = "accounts"
DEFAULT_ACCOUNT = "default"
ROOT_CA = "kube-root-ca.crt"
_KEY = "ca.crt"
_DESCRIPTION = {
    "kubernetes.io/description": (
        "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the"
        " internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of"
        " Kubernetes clusters."
    )
}
"""Annotation that kube-controller-manager sets; tools recognise the ConfigMap by it."""


class AccountController:
    """Reconciles namespaces. The constructor declares its watches on the manager."""

    RULES = (
        Rule.on(NAMESPACE, *WATCH),
        Rule.on(ACCOUNT, *WATCH, "create"),
        Rule.on(CONFIG_MAP, *WATCH, "create"),
        Rule.on(CONFIG_MAP, "patch", names=[ROOT_CA]),
    )

    def __init__(self, manager: Manager, authority: str) -> None:
        """Declare everything; `manager.run` starts it.

        Args:
            manager: of the process.
            authority: PEM of the authority that signed the API server's certificate.
        """
        self._client, self._cache, self._authority = manager.client, manager.cache, authority
        manager.controller(NAME).for_(NAMESPACE).watches(
            ACCOUNT, _namespace_of, predicates=[lambda event: name_of(event.obj) == DEFAULT_ACCOUNT]
        ).watches(CONFIG_MAP, _namespace_of, predicates=[_is_root_ca]).reconcile(self.reconcile)

    async def reconcile(self, key: Key) -> Result:
        """Reconcile one namespace."""
        namespace = self._cache.get(NAMESPACE, key.name)
        if namespace is None or deletion_timestamp_of(namespace) is not None:
            return None
        try:
            if self._cache.get(ACCOUNT, DEFAULT_ACCOUNT, key.name) is None:
                await self._create(ACCOUNT, {"metadata": {"name": DEFAULT_ACCOUNT, "namespace": key.name}})
            await self._publish_authority(key.name)
        except NotFound:
            return None  # the namespace is gone
        return None

    async def _publish_authority(self, namespace: str) -> None:
        wanted: Document = {"metadata": {"annotations": _DESCRIPTION}, "data": {_KEY: self._authority}}
        current = self._cache.get(CONFIG_MAP, ROOT_CA, namespace)
        if current is None:
            metadata = {"name": ROOT_CA, "namespace": namespace, "annotations": _DESCRIPTION}
            await self._create(CONFIG_MAP, {**wanted, "metadata": metadata})
        elif current.get("data") != wanted["data"] or not _DESCRIPTION.items() <= annotations_of(current).items():
            others = {name: None for name in current.get("data") or {} if name != _KEY}
            patch = {**wanted, "data": {**others, _KEY: self._authority}}
            await self._client.patch(CONFIG_MAP, ROOT_CA, namespace, patch)

    async def _create(self, kind: Resource, document: Document) -> None:
        try:
            await self._client.create(document, kind=kind)
        except AlreadyExists:
            return


def _namespace_of(obj: Document) -> list[Key]:
    return [Key("", namespace_of(obj))]


def _is_root_ca(event: Event[Document]) -> bool:
    return name_of(event.obj) == ROOT_CA
