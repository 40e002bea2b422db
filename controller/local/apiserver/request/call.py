# SPDX-License-Identifier: Apache-2.0
"""One call of the API: the request together with what it is about."""

import unicodedata
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds.resources import ServedResource
from trainwright.controller.local.apiserver.request.info import ServerRequest, User, WriteQuery
from trainwright.controller.local.apiserver.store import ObjectName

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
_MANAGER_BYTES = 128


@dataclass(slots=True, kw_only=True)
class RequestInfo:
    """A request for one object or one collection of a served resource."""

    request: ServerRequest
    user: User
    served: ServedResource
    namespace: str
    """Empty for kinds without namespace, and for collections over all namespaces."""
    name: str
    """Empty for collections."""
    subresource: str
    now: datetime
    watches: bool = False
    """Whether the path is of the old form that asks for a watch: `/api/v1/watch/...`."""
    warnings: list[str] = field(default_factory=list)
    """What the client is told beside the answer."""

    @property
    def group(self) -> str:
        """API group of the resource."""
        return self.served.type.group

    @property
    def plural(self) -> str:
        """The resource as the URL names it."""
        return self.served.type.plural

    @property
    def kind(self) -> str:
        """Kind of its objects."""
        return self.served.type.kind

    @property
    def key(self) -> ObjectName:
        """Where the object is stored."""
        return ObjectName(self.namespace, self.name)

    def not_found(self) -> errors.StatusError:
        """The error where the object is not there."""
        return errors.not_found(self.group, self.plural, self.name)

    def conflict(self, why: str = errors.LOCK_MESSAGE) -> errors.StatusError:
        """The error where the object is not the expected one."""
        return errors.conflict(self.group, self.plural, self.name, why)

    def manager(self, options: WriteQuery) -> str:
        """Who writes: the field manager of the query, else the first part of the User-Agent."""
        if options.manager:
            return options.manager
        made, length = "", 0
        for character in self.request.headers.get("user-agent", "").partition("/")[0]:
            if not character.isprintable():
                continue
            length += len(character.encode())
            if length > _MANAGER_BYTES:
                break
            made += character
        return made

    def warn(self, text: str) -> None:
        """Tell the client something, once. What cannot be in a header is left out, as the real server does."""
        if any(unicodedata.category(character) == "Cc" for character in text):
            return
        if text not in self.warnings:
            self.warnings.append(text)
