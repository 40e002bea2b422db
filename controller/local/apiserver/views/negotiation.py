# SPDX-License-Identifier: Apache-2.0
"""What a client accepts: the header `Accept`, with the parameters that ask for another form of an object.

https://kubernetes.io/docs/reference/using-api/api-concepts/#alternate-representations-of-resources. Protobuf is not
offered: clients that prefer it accept JSON as well.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from trainwright.controller.local.apiserver import errors

JSON, YAML = "application/json", "application/yaml"
OFFERED = (JSON, YAML)

Form = tuple[str, str, str]
"""Group, version and kind of the form that is asked for, such as `meta.k8s.io`, `v1` and `Table`."""
RESOURCE_FORMS: Collection[Form] = frozenset(
    ("meta.k8s.io", version, kind)
    for version in ("v1", "v1beta1")
    for kind in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
)
"""The forms that endpoints of resources offer."""


@dataclass(frozen=True, slots=True)
class MediaTypeOptions:
    """What is answered."""

    yaml: bool = False
    version: str = "v1"
    """Of the form."""
    kind: str = ""
    """Of the form; empty for the object as it is."""

    @property
    def form(self) -> Literal["object", "table", "metadata"]:
        """Of the answer of a resource."""
        return "object" if not self.kind else "table" if self.kind == "Table" else "metadata"

    @property
    def as_list(self) -> bool:
        """Whether the metadata of a list was asked for, and not that of an object."""
        return self.kind.endswith("List")


def negotiate(header: str, forms: Collection[Form] = ()) -> MediaTypeOptions:
    """The first thing that a client accepts and that is offered: the object, or a form of it. Raises StatusError."""
    clauses = sorted(map(_clause, header.split(",")), key=lambda clause: clause[0]) if header.strip() else ()
    for _, media, parameters in clauses:
        offered = _offered(media)
        if offered is None or parameters.get("stream") not in (None, "", "watch"):
            continue
        group, version, kind = (parameters.get(key, "") for key in ("g", "v", "as"))
        if not {"g", "v", "as"} & parameters.keys():
            return MediaTypeOptions(offered == YAML)
        if (group, version, kind) in forms:
            return MediaTypeOptions(offered == YAML, version, kind)
    if clauses:
        raise errors.form_not_acceptable(f"only the following media types are accepted: {', '.join(OFFERED)}")
    return MediaTypeOptions()


def any_offered(header: str) -> bool:
    """Whether a client accepts a media type that is offered, in whatever form."""
    return any(_offered(_clause(text)[1]) is not None for text in header.split(","))


def _offered(media: str) -> str | None:
    return next((one for one in OFFERED if media in ("*/*", "application/*", one)), None)


def _clause(text: str) -> tuple[tuple[float, int], str, dict[str, str]]:
    """How much a clause is preferred, the least number first; its media type; its parameters."""
    media, *rest = (piece.strip() for piece in text.split(";"))
    parameters = dict(piece.split("=", 1) for piece in rest if "=" in piece)
    try:
        quality = float(parameters.pop("q", "1"))
    except ValueError:
        quality = 1.0
    return (-quality, media.count("*")), "*/*" if media == "*" else media, parameters
