# SPDX-License-Identifier: Apache-2.0
"""NamespaceLifecycle: nothing is created where no namespace is, or where one is ending.

That some namespaces cannot be deleted is a rule of their strategy.
"""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.builtin.write import Context, Write
from trainwright.controller.local.apiserver.kinds.parts import part

_REVIEWS = ("localsubjectaccessreviews",)


def check(document: Document, write: Write, context: Context) -> None:
    """Raises StatusError if the namespace is not there, or is being deleted and the object is new."""
    if not write.namespace or write.operation == "DELETE" or write.plural in _REVIEWS:
        return
    namespace = context.get("", "namespaces", "", write.namespace)
    if namespace is None:
        raise errors.not_found("", "namespaces", write.namespace)
    if write.operation == "CREATE" and part(namespace, "status").get("phase") == "Terminating":
        why = f"unable to create new content in namespace {write.namespace} because it is being terminated"
        refusal = write.forbidden(document, why)
        message = f"namespace {write.namespace} is being terminated"
        cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
        refusal.details = {**(refusal.details or {}), "causes": [cause]}
        raise refusal
