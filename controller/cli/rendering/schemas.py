# SPDX-License-Identifier: Apache-2.0
"""What an API server would say to a document, without one: its schema and rules, as the local API server checks them.

The schemas are the JSON Schemas that `make generate` writes for editors. Needs the extra `validate`; nothing of it is
imported before it is used. The API server stays the authority: tests put the same documents to both.
"""

import copy
import functools
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

import trainwright.api
from trainwright.api.base import Struct
from trainwright.api.messages import shortened, value_text
from trainwright.api.names import dns_subdomain
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.custom import Schema
from trainwright.controller.local.apiserver.kinds.validation import validate_metadata
from trainwright.controller.local.apiserver.schema.rules import UNCHECKED
from trainwright.controller.local.types.errors import NOWHERE, WRONG_TYPE, DocumentError, required

_API = Path(next(iter(trainwright.api.__path__)))
_RULES = "x-kubernetes-validations"
_NAMED = re.compile(r'"(\S+)" must (?:validate|be of type)')
_TYPE = re.compile(r'Invalid value: "\w+": (must be of type .*): "\w+"$')
_SHOWN = 60
"""Characters of a value in a message."""
_LONGEST = 250
"""Characters of a message: rules of names are told with their regular expressions."""


class NoSchemaError(ValueError):
    """No schema exists for the document, or it has no apiVersion and kind."""


class ValidationResult(msgspec.Struct, frozen=True, kw_only=True):
    stored: Document
    """The document with defaults and without unknown fields."""
    errors: list[DocumentError]
    """Empty when the document would be accepted."""
    dropped: list[str]
    """Paths of fields that the schema does not know, most often misspelled. The API server warns of them."""


class KindSchema:
    def __init__(self, document: Document) -> None:
        self.document = document
        self._definitions: dict[str, Document] = document["$defs"]
        self._expanded: dict[str, Document] = {}
        resource = document["x-kubernetes-resource"]
        self.is_served: bool = bool(resource["plural"])
        self.has_status: bool = "status" in resource["subresources"]
        self._namespace = "default" if resource["namespaced"] else ""

    @functools.cached_property
    def schema(self) -> Schema:
        root = self.expanded(self.document)
        if self.is_served:  # the server handles metadata itself
            root["properties"]["metadata"] = {"x-kubernetes-preserve-unknown-fields": True}
        return Schema(root)

    @functools.cached_property
    def _metadata(self) -> Schema:
        return Schema({"properties": {"metadata": self.expanded(self.document["properties"]["metadata"])}})

    def expanded(self, schema: Document) -> Document:
        """The schema without references, as in a definition. Keywords beside a reference take precedence."""
        made = {word: value for word, value in schema.items() if word != "$ref"}
        if (reference := schema.get("$ref")) is not None:
            target = self._definition(reference.removeprefix("#/$defs/"))
            rules = [*target.get(_RULES, ()), *schema.get(_RULES, ())]
            return {**target, **made, **({_RULES: rules} if rules else {})}
        if made.get("additionalProperties") is False:
            del made["additionalProperties"]  # for editors: a server drops what it does not know
        if "properties" in made:
            made["properties"] = {name: self.expanded(inner) for name, inner in made["properties"].items()}
        for word in ("items", "additionalProperties"):
            if isinstance(made.get(word), dict):
                made[word] = self.expanded(made[word])
        return made

    def _definition(self, name: str) -> Document:
        if name not in self._expanded:
            self._expanded[name] = self.expanded(self._definitions[name])
        return self._expanded[name]

    def prepared(self, document: Document) -> tuple[Document, list[str]]:
        """A copy of the document as it would be stored, and the paths of the fields that were dropped as unknown."""
        made = copy.deepcopy(document)
        dropped = self.schema.prune(made)
        self.schema.default(made)
        return made, dropped

    def metadata_errors(self, document: Document) -> list[DocumentError]:
        """Errors by the rules that hold for the metadata of every object."""
        metadata = document.get("metadata", {})
        if wrong := self._metadata.validate({"metadata": metadata}):
            return wrong
        name, prefix = metadata.get("name"), metadata.get("generateName")
        if not name and not prefix:
            return [required("metadata.name", "a name is needed")]
        # The namespace is that of the request, and the name is generated before it is checked.
        told = {**metadata, "name": name or f"{prefix}xxxxx", "namespace": self._namespace}
        return validate_metadata(told, namespaced=bool(self._namespace), name_rule=dns_subdomain)


def validate(
    document: Mapping[str, Any] | Struct, *, old: Document | None = None, subresource: str = ""
) -> ValidationResult:
    """Check a create, or with `old`, the stored document, an update. Raises `NoSchemaError`.

    Where the kind has a status subresource, a write to the main resource leaves the status as it was, and a write to
    `subresource="status"` leaves everything else.
    """
    given = msgspec.to_builtins(document)
    if not isinstance(given, dict):
        raise NoSchemaError(f"a document is an object with apiVersion and kind, not {json.dumps(given)}")
    kind = _kind(given)
    stored, dropped = kind.prepared(given)
    before = kind.prepared(old)[0] if old is not None else None
    if kind.has_status:
        stored = _with_status_apart(stored, before or {}, subresource)
    known = kind.metadata_errors(stored) if kind.is_served else []
    found = kind.schema.validate(stored, before, status=before is not None and subresource == "status", known=known)
    errors = _told([one for one in found if one != UNCHECKED], stored)
    return ValidationResult(stored=stored, errors=errors, dropped=dropped)


def _kind(document: Document) -> KindSchema:
    api_version, kind = document.get("apiVersion"), document.get("kind")
    found = schemas().get((str(api_version), str(kind)))
    if found is None:
        known = ", ".join(sorted(f"{kind} of {version}" for version, kind in schemas()))
        raise NoSchemaError(f"no schema for kind {kind!r} of apiVersion {api_version!r}; known are {known}")
    return found


@functools.cache
def schemas() -> dict[tuple[str, str], KindSchema]:
    """Every generated schema by apiVersion and kind."""
    found: dict[tuple[str, str], KindSchema] = {}
    for path in sorted(_API.glob("*/*/*.schema.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        properties = document["properties"]
        found[properties["apiVersion"]["const"], properties["kind"]["const"]] = KindSchema(document)
    return found


def _with_status_apart(stored: Document, before: Document, subresource: str) -> Document:
    if subresource == "status":
        return {**before, **({"status": stored["status"]} if "status" in stored else {})}
    apart = {name: value for name, value in stored.items() if name != "status"}
    return {**apart, **({"status": before["status"]} if "status" in before else {})}


def _told(found: Iterable[DocumentError], document: Document) -> list[DocumentError]:
    """The errors for lines that begin with their fields, sorted by these.

    The server says of one value in up to three ways that its type is wrong, and shows the type in place of the value.
    """
    made: dict[tuple[str, str], DocumentError] = {}
    for reason, field, message in found:
        if field == NOWHERE:
            named = _NAMED.search(message)
            place, kind = (named[1], WRONG_TYPE) if named is not None else ("", reason)
        else:
            place, kind = field, reason
        text = message
        if kind == WRONG_TYPE and (of_type := _TYPE.match(text)) is not None:
            text = f"Invalid value: {value_text(_value_at(document, place), _SHOWN)}: {of_type[1]}"
        made.setdefault((place, kind if kind == WRONG_TYPE else text), DocumentError(kind, place, text))
    told = (DocumentError(reason, field, shortened(text, _LONGEST)) for reason, field, text in made.values())
    return sorted(told, key=lambda one: (one.field, one))


def _value_at(document: Any, field: str) -> Any:
    """The value at a path; None if there is none."""
    try:
        return functools.reduce(lambda value, step: value[step], steps_of(field), document)
    except (KeyError, IndexError, TypeError):
        return None


def steps_of(field: str) -> tuple[str | int, ...]:
    """The path of a field, such as `spec.runtimePatches[0].manager`, in steps."""
    steps: list[str | int] = []
    for part in field.split(".") if field else ():
        name, *indices = part.replace("]", "").split("[")
        steps += [name, *(int(index) if index.isdecimal() else index for index in indices)]
    return tuple(steps)
