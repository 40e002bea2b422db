# SPDX-License-Identifier: Apache-2.0
"""What pods refer to, read from the API server: ConfigMaps, Secrets, tokens, and the folders of claims."""

from collections.abc import Callable, Mapping

from trainwright.api import times
from trainwright.api.base import Resource
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.kubernetes.core.v1 import ConfigMap, PersistentVolumeClaim, Secret, ServiceAccount
from trainwright.api.objects import Document, labels_of, name_of, namespace_of, spec_of, uid_of
from trainwright.api.times import Now
from trainwright.controller.local.node.document import SourceUnavailableError, Token, VolumeError
from trainwright.controller.runtime import Client, KubernetesError, NotFound

PERSISTENT_VOLUME = Resource(
    group="", version="v1", kind="PersistentVolume", plural="persistentvolumes", namespaced=False
)
RENEW_PART = 0.8
"""A token is renewed when this part of its life is over."""


class ClusterSources:
    """Reads through the client, without a cache: a pod may be bound the moment after its ConfigMap was created.

    Failures of the API server are raised as SourceUnavailableError or VolumeError: pods wait until it answers.
    """

    def __init__(self, client: Client, *, allocatable: Callable[[], Mapping[str, str]], now: Now) -> None:
        self._client = client
        self._allocatable = allocatable
        self._now = now

    async def config_map(self, namespace: str, name: str) -> Document | None:
        """One ConfigMap; None if it does not exist."""
        return await self._get(ConfigMap.RESOURCE, namespace, name)

    async def secret(self, namespace: str, name: str) -> Document | None:
        """One Secret; None if it does not exist."""
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
        """The JobSet that a pod belongs to, by its label; None if there is none."""
        name = labels_of(pod).get(LABEL_JOBSET)
        return await self._get(JobSet.RESOURCE, namespace_of(pod), name) if name else None

    def allocatable(self) -> Mapping[str, str]:
        """What the node has to give to pods."""
        return self._allocatable()

    async def _get(self, kind: Resource, namespace: str, name: str) -> Document | None:
        try:
            return await self._client.get(kind, name, namespace)
        except NotFound:
            return None
        except KubernetesError as error:
            raise SourceUnavailableError(str(error)) from error
