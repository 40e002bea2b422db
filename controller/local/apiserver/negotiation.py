# SPDX-License-Identifier: Apache-2.0
"""In which form a client wants its answer: the header `Accept`.

Answers are JSON, or YAML where only that is accepted. Clients that prefer protobuf accept JSON too.
https://kubernetes.io/docs/reference/using-api/api-concepts/#alternate-representations-of-resources
"""

from dataclasses import dataclass
from typing import Literal

from trainwright.controller.local.apiserver import errors

Form = Literal["object", "table", "metadata"]
_JSON = ("application/json", "application/*", "*/*")
_YAML = "application/yaml"
_OFFERED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_CONVERTED = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to answer."""

    form: Form = "object"
    version: str = "v1"
    """Of meta.k8s.io, for tables and metadata."""
    yaml: bool = False


def wanted(accept: str, *, a_list: bool) -> Wanted:
    """The first form of an `Accept` header that is offered. Raises StatusError where none is."""
    for clause in accept.split(",") if accept.strip() else ["*/*"]:
        media, *words = (part.strip() for part in clause.split(";"))
        parameters = dict(word.partition("=")[::2] for word in words)
        if media not in (*_JSON, _YAML):
            continue
        target = parameters.get("as", "")
        if not target:
            return Wanted(yaml=media == _YAML)
        if parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in ("v1", "v1beta1"):
            continue
        if target == "Table":
            return Wanted("table", parameters["v"])
        if target == ("PartialObjectMetadataList" if a_list else "PartialObjectMetadata"):
            return Wanted("metadata", parameters["v"])
    raise errors.not_acceptable(_OFFERED)
