# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the Secret that replicas share.

A write carries the resourceVersion of the read that it is based on. Of two replicas that decide at the same time, one
gets Conflict and reads what the other has written.
"""

import base64
import binascii
from dataclasses import dataclass

from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.objects import resource_version_of
from trainwright.api.rights import READ, Rule
from trainwright.controller.runtime.certificates.material import NEXT_CA_KEY, CertificateMaterial, decode
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import NotFound


@dataclass(frozen=True, slots=True)
class HeldSecret:
    """The content that was read. `version` is empty if the Secret does not exist."""

    material: CertificateMaterial | str
    version: str


class CertificateVault:
    """One Secret."""

    @staticmethod
    def rules(name: str) -> tuple[Rule, ...]:
        """Rights in the namespace of the Secret, including those of the keeper's watch."""
        return Rule.on(Secret.RESOURCE, "create"), Rule.on(Secret.RESOURCE, *READ, "patch", names=[name])

    def __init__(self, client: Client, name: str, namespace: str) -> None:
        self._client = client
        self.name = name
        self.namespace = namespace

    async def read(self) -> HeldSecret:
        """The content of the Secret, or why it is unusable. Raises KubernetesError."""
        try:
            secret = await self._client.get(Secret, self.name, self.namespace)
        except NotFound:
            return HeldSecret(f"Secret {self.namespace}/{self.name} does not exist", "")
        try:
            data = {name: base64.b64decode(value, validate=True) for name, value in (secret.data or {}).items()}
        except binascii.Error as error:
            return HeldSecret(str(error), resource_version_of(secret))
        return HeldSecret(decode(data), resource_version_of(secret))

    async def write(self, material: CertificateMaterial, held: HeldSecret) -> HeldSecret:
        """Store a state that is based on `held`. Raises Conflict, AlreadyExists, KubernetesError."""
        data = {name: base64.b64encode(value).decode() for name, value in material.encode().items()}
        if not held.version:
            document = {"metadata": {"name": self.name, "namespace": self.namespace}, "type": "Opaque", "data": data}
            created = await self._client.create(document, kind=Secret.RESOURCE)
            return HeldSecret(material, resource_version_of(created))
        patch = {"metadata": {"resourceVersion": held.version}, "data": {NEXT_CA_KEY: None, **data}}
        patched = await self._client.patch(Secret, self.name, self.namespace, patch)
        return HeldSecret(material, resource_version_of(patched))
