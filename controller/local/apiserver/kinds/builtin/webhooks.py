# SPDX-License-Identifier: Apache-2.0
"""Configurations of admission webhooks."""

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries
from trainwright.controller.local.apiserver.kinds.builtin.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.kinds.builtin.webhook_validation import webhook_errors

_TIMEOUT_SECONDS = 10
_HTTPS = 443


class WebhookStrategy(BuiltInStrategy):
    """MutatingWebhookConfigurations and ValidatingWebhookConfigurations.

    Args:
        mutating: which of the two.
    """

    unconditional_update = False

    def __init__(self, *, mutating: bool) -> None:
        self._mutating = mutating
        kind = "Mutating" if mutating else "Validating"
        self.struct = f"admissionregistration/v1.{kind}WebhookConfiguration"

    def validate(self, document: Document) -> list[DocumentError]:
        return webhook_errors(entries(document, "webhooks"))

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:  # noqa: ARG002
        return self.validate(new)

    def prepare_create(self, document: Document) -> None:
        document["metadata"]["generation"] = 1

    def prepare_update(self, new: Document, old: Document, subresource: str) -> None:  # noqa: ARG002
        if (new.get("webhooks") or []) != (old.get("webhooks") or []):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
