# SPDX-License-Identifier: Apache-2.0
"""In which form a client wants an object or a list."""

from dataclasses import dataclass
from typing import Literal

from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.request.call import RequestInfo
from trainwright.controller.local.apiserver.views.negotiation import (
    OFFERED,
    YAML,
    NotAcceptableError,
    any_offered,
    metadata_or_table,
    negotiate,
)


@dataclass(frozen=True, slots=True)
class WantedAnswer:
    """What to answer."""

    form: Literal["object", "table", "metadata"] = "object"
    version: str = "v1"
    """Of meta.k8s.io, for tables and metadata."""
    yaml: bool = False
    as_list: bool = False
    """Whether the metadata of a list was asked for, and not that of an object."""


def wanted(call: RequestInfo) -> WantedAnswer:
    """What the header `Accept` asks for first, of what is offered. Raises StatusError where that is nothing."""
    try:
        accepted = negotiate(call.request.headers.get("accept", ""), metadata_or_table)
    except NotAcceptableError as error:
        if not call.served.type.custom and not any_offered(call.request.headers.get("accept", "")):
            raise errors.not_acceptable(OFFERED) from error
        raise errors.StatusError(error.code, error.reason, str(error)) from error
    yaml = accepted.media_type == YAML
    if accepted.form is None:
        return WantedAnswer(yaml=yaml)
    _, version, kind = accepted.form
    return WantedAnswer("table" if kind == "Table" else "metadata", version, yaml, kind.endswith("List"))
