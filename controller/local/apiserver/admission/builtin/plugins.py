# SPDX-License-Identifier: Apache-2.0
"""The built-in plugins as a part of the admission chain, with the stored objects as what they look up."""

import asyncio
from collections.abc import Sequence

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.admission import builtin as builtin_admission
from trainwright.controller.local.apiserver.admission.builtin import accounts, namespaces
from trainwright.controller.local.apiserver.admission.builtin.write import Write
from trainwright.controller.local.apiserver.request.call import Operation, RequestInfo
from trainwright.controller.local.apiserver.request.info import WriteQuery
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore

_ACCOUNT_TRIES = 10
_ACCOUNT_SECONDS = 0.15
"""Between two tries. Kubernetes tries as often, 0.1 to 0.2 s apart."""


class Plugins:
    """All built-in plugins; an `Admission`.

    Args:
        store: of all objects.
        service_accounts: whether pods get an account, its token and its pull secrets. Without a controller that
            creates the accounts, every pod would be refused.
    """

    def __init__(self, store: ObjectStore, *, service_accounts: bool) -> None:
        self._objects = _StoredObjects(store)
        self._service_accounts = service_accounts

    async def mutate(
        self,
        call: RequestInfo,
        operation: Operation,
        new: Document | None,
        old: Document | None,
        options: WriteQuery,  # noqa: ARG002 - as in every part of the chain
    ) -> Document | None:
        """See Admission. Updates get a new document, because parts of `new` may belong to `old`."""
        write = _write(call, operation, old)
        if write is None or new is None:
            return new
        if operation == "UPDATE" and write.is_of("", "pods"):
            new = {**new, "spec": dict(new["spec"])}
        if self._service_accounts:
            await self._wait_for_account(new, write)
        builtin_admission.mutate(new, write, self._objects, service_accounts=self._service_accounts)
        return new

    async def validate(
        self,
        call: RequestInfo,
        operation: Operation,
        new: Document | None,
        old: Document | None,
        options: WriteQuery,  # noqa: ARG002 - as in every part of the chain
    ) -> None:
        """See Admission."""
        write = _write(call, operation, old)
        if write is not None and new is not None:
            builtin_admission.validate(new, write, self._objects, service_accounts=self._service_accounts)

    async def _wait_for_account(self, new: Document, write: Write) -> None:
        """A namespace gets its account a moment after it was made, and whoever made it may be faster."""
        for _ in range(_ACCOUNT_TRIES - 1):
            if not accounts.is_awaited(new, write, self._objects):
                return
            # Raises where no account comes any more.
            namespaces.check(new, write, self._objects)
            await asyncio.sleep(_ACCOUNT_SECONDS)


def _write(call: RequestInfo, operation: Operation, old: Document | None) -> Write | None:
    """What plugins are told of a call; None for those that no plugin is about."""
    if operation == "CONNECT" or operation == "DELETE":  # noqa: PLR1714 - mypy narrows by these alone
        return None
    return Write(operation, call.group, call.plural, call.namespace, call.subresource, old)


class _StoredObjects:
    """A `Context`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def get(self, group: str, plural: str, namespace: str, name: str) -> Document | None:
        """One object."""
        found = self._store.get(_collection(group, plural), ObjectName(namespace, name))
        return None if found is None else found.document()

    def listed(self, group: str, plural: str, namespace: str) -> Sequence[Document]:
        """The objects of a namespace, or of a kind without namespace."""
        return [one.document() for one in self._store.collection(_collection(group, plural)).listed(namespace)]


def _collection(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural
