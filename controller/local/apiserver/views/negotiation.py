# SPDX-License-Identifier: Apache-2.0
"""What a client accepts: the header `Accept`, with the parameters that ask for another form of an object.

https://kubernetes.io/docs/reference/using-api/api-concepts/#alternate-representations-of-resources. Protobuf is not
offered: clients that prefer it accept JSON as well.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

JSON, YAML = "application/json", "application/yaml"
OFFERED = (JSON, YAML)

Form = tuple[str, str, str]
"""Group, version and kind of the form that is asked for, such as `meta.k8s.io`, `v1` and `Table`."""
_FORM = ("g", "v", "as")


class NotAcceptableError(ValueError):
    """Nothing that the client accepts is offered: 406, NotAcceptable; the text is the message of the Status."""

    code = 406
    reason = "NotAcceptable"

    def __init__(self, message: str = f"only the following media types are accepted: {', '.join(OFFERED)}") -> None:
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Accepted:
    """What is answered.

    Attributes:
        media_type: `application/json` or `application/yaml`.
        form: the form that is asked for; None for the object as it is.
        parameters: of the media type, such as `stream`, `pretty` and `profile`.
    """

    media_type: str = JSON
    form: Form | None = None
    parameters: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Clause:
    type: str
    subtype: str
    quality: float
    parameters: dict[str, str]


def no_form(_: Form) -> bool:
    """For endpoints that offer no other form."""
    return False


def metadata_or_table(form: Form) -> bool:
    """For endpoints of resources: Table and PartialObjectMetadata."""
    group, version, kind = form
    kinds = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
    return group == "meta.k8s.io" and version in ("v1", "v1beta1") and kind in kinds


def negotiate(header: str, allows: Callable[[Form], bool] = no_form) -> Accepted:
    """The first thing that a client accepts and that is offered.

    Args:
        header: `Accept`; empty accepts everything.
        allows: whether a form is offered.

    Raises:
        NotAcceptableError: there is none.
    """
    if not header.strip():
        return Accepted()
    for clause in sorted(_clauses(header), key=_preference):
        media_type = next((offered for offered in OFFERED if _matches(clause, offered)), None)
        stream = clause.parameters.get("stream")
        if media_type is None or stream not in (None, "", "watch"):
            continue
        form = _form(clause.parameters)
        if form is None or allows(form):
            return Accepted(media_type, form, clause.parameters)
    raise NotAcceptableError


def any_offered(header: str) -> bool:
    """Whether a client accepts a media type that is offered, in whatever form."""
    return any(_matches(clause, offered) for clause in _clauses(header) for offered in OFFERED)


def _clauses(header: str) -> Iterator[_Clause]:
    for part in header.split(","):
        media, *rest = (piece.strip() for piece in part.split(";"))
        type_, _, subtype = media.partition("/")
        parameters = dict(piece.split("=", 1) for piece in rest if "=" in piece)
        if not subtype:
            # `*` stands for `*/*`.
            if type_ != "*":
                continue
            subtype = "*"
        yield _Clause(type_.strip(), subtype.strip(), _quality(parameters.pop("q", "1")), parameters)


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


def _preference(clause: _Clause) -> tuple[float, bool, bool]:
    return -clause.quality, clause.type == "*", clause.subtype == "*"


def _matches(clause: _Clause, offered: str) -> bool:
    type_, _, subtype = offered.partition("/")
    return clause.type in ("*", type_) and clause.subtype in ("*", subtype)


def _form(parameters: dict[str, str]) -> Form | None:
    if not any(key in parameters for key in _FORM):
        return None
    group, version, kind = (parameters.get(key, "") for key in _FORM)
    return group, version, kind
