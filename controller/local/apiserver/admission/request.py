# SPDX-License-Identifier: Apache-2.0
"""What admission is told of a request, and the chain of those who may change an object or refuse it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.apiserver.kinds.registry import Resource
from trainwright.controller.local.apiserver.request.info import Operation, RequestInfo, WriteQuery, user_info

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


@dataclass(slots=True)
class AdmissionRequest:
    """A write or a connection, between the decoded object and the store."""

    call: RequestInfo
    operation: Operation
    new: Document | None
    """The object; None where it is deleted. Who changes it sets it: parts of it may belong to `old`."""
    old: Document | None
    options: WriteQuery

    def is_of(self, group: str, plural: str) -> bool:
        """Whether this is for an object of a kind, at its main endpoint."""
        return (self.call.group, self.call.plural, self.call.subresource) == (group, plural, "")

    def creates(self, group: str, plural: str) -> bool:
        """Whether this creates an object of a kind."""
        return self.operation == "CREATE" and self.is_of(group, plural)

    @property
    def name(self) -> str:
        """The name of the object, or what it is generated from; empty for collections."""
        metadata = (self.new or {}).get("metadata") or {}
        return self.call.asked_name or str(metadata.get("name") or metadata.get("generateName") or "")

    def forbidden(self, why: str) -> StatusError:
        """The answer of a plugin that refuses the object."""
        metadata = (self.new or {}).get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or "Unknown"
        return errors.forbidden(self.call.group, self.call.plural, name, why)

    @property
    def body_kind(self) -> tuple[str, str, str]:
        """Group, version and kind of the object: those of the subresource, if it has its own."""
        call = self.call
        sub = call.resource.subresources.get(call.subresource)
        if sub is None:
            return call.group, call.resource.version, call.kind
        return (sub.group if sub.version else call.group), sub.version or call.resource.version, sub.kind

    @property
    def has_own_object(self) -> bool:
        """Whether the body is no object of the resource: a Binding, an Eviction, the options of a connection."""
        return self.body_kind[2] != self.call.kind

    def review(self, served: Resource) -> Document:
        """The `request` of an AdmissionReview in a version of the resource; expressions see it too."""
        call, group = self.call, self.call.group

        def resource(version: str) -> Document:
            return {"group": group, "version": version, "resource": call.plural}

        def kind(version: str) -> Document:
            """The kind of the object, in a version of the resource if it is of its group."""
            of_body = self.body_kind
            return {"group": of_body[0], "version": version if of_body[0] == group else of_body[1], "kind": of_body[2]}

        made: Document = {
            "kind": kind(served.version),
            "resource": resource(served.version),
            "requestKind": kind(call.resource.version),
            "requestResource": resource(call.resource.version),
            "operation": self.operation,
            "userInfo": user_info(call.user),
            "dryRun": self.options.dry_run,
            "name": call.asked_name,
            "namespace": call.name if (group, call.plural) == ("", "namespaces") else call.namespace,
            "subResource": call.subresource,
            "requestSubResource": call.subresource,
        }
        if self.operation in _OPTIONS:
            made["options"] = self.options.document(_OPTIONS[self.operation])
        return {field: value for field, value in made.items() if value != ""}

    def decoded(self, changed: Document) -> Document:
        """A changed object in the version of the request, with defaults. Raises DocumentDecodeError."""
        made = self.call.resource.named(changed)
        self.call.resource.decode(made)
        self.call.resource.strategy.default(made)
        return made


Plugin: TypeAlias = Callable[[AdmissionRequest], Awaitable[None]]
"""Changes the object of a request, or raises StatusError where it is refused."""


class Chain:
    """Plugins, one after the other: those that may change the object, then those that may refuse it.

    `again` completes objects, and does so again where one after it has changed the object.
    """

    def __init__(
        self, mutating: Sequence[Plugin] = (), validating: Sequence[Plugin] = (), *, again: Plugin | None = None
    ) -> None:
        self._mutating, self._validating, self._again = mutating, validating, again

    async def mutate(self, request: AdmissionRequest) -> None:
        """Let each change what the one before it made. Raises StatusError."""
        completed = request.new
        for plugin in self._mutating:
            await plugin(request)
            if plugin == self._again:
                completed = request.new
        if self._again is not None and request.new != completed:
            await self._again(request)

    async def validate(self, request: AdmissionRequest) -> None:
        """Raises StatusError where the object is refused."""
        for plugin in self._validating:
            await plugin(request)
