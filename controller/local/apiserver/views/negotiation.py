# SPDX-License-Identifier: Apache-2.0
"""What a client accepts: the header `Accept`, with the parameters that ask for another form of an object.

https://kubernetes.io/docs/reference/using-api/api-concepts/#alternate-representations-of-resources. Answers are JSON:
clients that prefer protobuf or YAML accept that as well.
"""

from collections.abc import Collection

from trainwright.controller.local.apiserver import errors

JSON = "application/json"
RESOURCE_FORMS = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})
"""The forms that endpoints of resources offer, of `v1` of META."""
META = "meta.k8s.io"


def negotiate(header: str, forms: Collection[str], group: str = META, version: str = "v1") -> str:
    """The first form that a client accepts and that is offered; empty for the object as it is. Raises StatusError."""
    clauses = sorted(map(_clause, header.split(",")), key=lambda clause: clause[0]) if header.strip() else ()
    for _, media, parameters in clauses:
        if not _is_offered(media) or parameters.get("stream") not in (None, "", "watch"):
            continue
        if not {"g", "v", "as"} & parameters.keys():
            return ""
        form = parameters.get("as", "")
        if form in forms and (parameters.get("g"), parameters.get("v")) == (group, version):
            return form
    if clauses:
        raise errors.not_acceptable(f"only the following media types are accepted: {JSON}")
    return ""


def any_offered(header: str) -> bool:
    """Whether a client accepts a media type that is offered, in whatever form."""
    return any(_is_offered(_clause(text)[1]) for text in header.split(","))


def _is_offered(media: str) -> bool:
    return media in ("*/*", "application/*", JSON)


def _clause(text: str) -> tuple[tuple[float, int], str, dict[str, str]]:
    """How much a clause is preferred, the least number first; its media type; its parameters."""
    media, *rest = (piece.strip() for piece in text.split(";"))
    parameters = dict(piece.split("=", 1) for piece in rest if "=" in piece)
    try:
        quality = float(parameters.pop("q", "1"))
    except ValueError:
        quality = 1.0
    return (-quality, media.count("*")), "*/*" if media == "*" else media, parameters
