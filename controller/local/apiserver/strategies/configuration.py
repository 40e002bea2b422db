# SPDX-License-Identifier: Apache-2.0
"""ConfigMaps, Secrets and ServiceAccounts."""

import base64

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.strategies.parts import entries, part
from trainwright.controller.local.apiserver.strategies.strategy import Strategy

_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"


class ConfigMapStrategy(Strategy):
    """ConfigMaps."""


class SecretStrategy(Strategy):
    """Secrets. What a client writes to `stringData` is stored in `data`."""

    def default(self, document: Document) -> None:
        given = document.pop("stringData", None)
        if given:
            data = document["data"] = dict(part(document, "data"))
            for key, text in given.items():
                data[key] = base64.b64encode((text or "").encode()).decode()
        if not document.get("type"):
            document["type"] = "Opaque"

    def selectable(self, document: Document) -> dict[str, str]:
        return {**super().selectable(document), "type": document.get("type") or ""}


class ServiceAccountStrategy(Strategy):
    """ServiceAccounts."""

    def prepare_create(self, document: Document) -> None:
        _names_only(document)

    def prepare_update(self, new: Document, old: Document, subresource: str) -> None:  # noqa: ARG002
        _names_only(new)

    def warnings(self, new: Document, old: Document | None) -> list[str]:
        if _mountable(old) or not _mountable(new):
            return []
        advice = "prefer separate namespaces to isolate access to mounted secrets"
        return [f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; {advice}"]


def _names_only(account: Document) -> None:
    """Secrets are named; other fields of the references mean nothing."""
    if account.get("secrets"):
        kept = [{"name": secret["name"]} if secret.get("name") else {} for secret in entries(account, "secrets")]
        account["secrets"] = kept


def _mountable(account: Document | None) -> bool:
    return account is not None and _MOUNTABLE in part(part(account, "metadata"), "annotations")
