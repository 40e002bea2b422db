# SPDX-License-Identifier: Apache-2.0
"""One version of a CRD, compiled: what the server does to a document of this kind before it is stored."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver.schema.checks import compile_checks, problems_of
from trainwright.controller.local.apiserver.schema.correlation import Correlation, is_excused
from trainwright.controller.local.apiserver.schema.defaulting import compile_default
from trainwright.controller.local.apiserver.schema.embedded import coerce, compile_walk
from trainwright.controller.local.apiserver.schema.embedded import validate as validate_embedded
from trainwright.controller.local.apiserver.schema.errors import BLOCKING, NOWHERE
from trainwright.controller.local.apiserver.schema.lists import Found, compile_list_check
from trainwright.controller.local.apiserver.schema.metadata import decode_metadata
from trainwright.controller.local.apiserver.schema.problems import SchemaProblem, path_text
from trainwright.controller.local.apiserver.schema.pruning import compile_prune
from trainwright.controller.local.apiserver.schema.rules import UNCHECKED, compile_rules

Document = dict[str, Any]


class Schema:
    """The compiled schema of one version of a CRD.

    A write goes through `prune`, `default` and, after admission, `validate`. Documents hold what a JSON decoder makes.

    Args:
        schema: `openAPIV3Schema` of a version; structural, as the validation of the CRD has made sure.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self._prune = compile_prune(schema, root=True)
        self._default = compile_default(schema)
        self._lists = compile_list_check(schema)
        self._embedded = compile_walk(schema)
        self._rules = compile_rules(schema)

    @cached_property
    def _checks(self) -> Any:
        return compile_checks(self.schema)

    @cached_property
    def _status_checks(self) -> Any:
        return compile_checks(self.schema.get("properties", {}).get("status", {}))

    def decode(self, document: Document) -> list[str]:
        """What the server does to the body of a request: metadata, `prune` and `default`, in place.

        Returns:
            The paths of unknown fields, in the order of the server's warnings.

        Raises:
            DecodeError: metadata, or kind or version of an embedded object, are of the wrong type.
        """
        dropped: list[str] = []
        if "metadata" in document:
            document["metadata"], unknown = decode_metadata(document["metadata"])
            dropped += [f"metadata.{path}" for path in unknown]
        dropped += self.prune(document)
        self.default(document)
        return dropped

    def prune(self, document: Document) -> list[str]:
        """Drop unknown fields, and nulls of fields that have no default and are not nullable; in place.

        Returns:
            The paths of the unknown fields. `unknown_field` makes the texts of warnings and strict errors.

        Raises:
            DecodeError: an embedded object has kind, version or metadata of the wrong type.
        """
        dropped = sorted(path_text(reversed(way)) for way in self._prune(document) or ())
        if self._embedded is not None:
            dropped += coerce(self._embedded, document)
        return dropped

    def default(self, document: Document) -> None:
        """Fill in the defaults, in place."""
        if self._default is not None:
            self._default(document)

    def validate(
        self,
        new: Document,
        old: Document | None = None,
        *,
        known: Sequence[DocumentError] = (),
        excused: list[DocumentError] | None = None,
    ) -> list[DocumentError]:
        """The errors of a create or, with the stored object, of an update. Unchanged values are excused.

        Args:
            new: the object as it would be stored.
            old: the stored object.
            known: errors of its metadata; they come first, and after some of them no rule is evaluated.
            excused: gets the errors of rules that are forgiven, because the value has not changed.
        """
        root = Correlation(self.schema, new, old) if old is not None else None
        found = [*known, *(one.located() for one in _unexcused(problems_of(self._checks, new), root))]
        if self._embedded is not None:
            found += validate_embedded(self._embedded, new)
        found += self._list_errors(new, old)
        return found + self._rule_errors(new, old, found, root, excused)

    def validate_status(
        self,
        new: Document,
        old: Document,
        *,
        known: Sequence[DocumentError] = (),
        excused: list[DocumentError] | None = None,
    ) -> list[DocumentError]:
        """The errors of a write to the endpoint `status`; both are whole objects."""
        found = list(known)
        root = Correlation(self.schema, new, old)
        if "status" in new:
            problems = _unexcused(problems_of(self._status_checks, new["status"]), root.at("status"))
            found += [problem.located("status") for problem in problems]
        found += self._list_errors(new, old)
        return found + self._rule_errors(new, old, found, root, excused)

    def _list_errors(self, new: Document, old: Document | None) -> list[DocumentError]:
        if self._lists is None:
            return []
        errors = [_placed(one) for one in self._lists(new)]
        # An object that had such errors before may have others now.
        return [] if errors and old is not None and self._lists(old) else errors

    def _rule_errors(
        self,
        new: Document,
        old: Document | None,
        found: list[DocumentError],
        root: Correlation | None,
        excused: list[DocumentError] | None,
    ) -> list[DocumentError]:
        if self._rules is None:
            return []
        if any(one.reason in BLOCKING for one in found):
            return [UNCHECKED]
        return self._rules.errors(new, old, "", root, None, excused)


def _unexcused(problems: list[SchemaProblem], root: Correlation | None) -> list[SchemaProblem]:
    if root is None or not problems:
        return problems
    return [one for one in problems if not is_excused(root, reversed(one.steps[one.fixed :]))]


def _placed(found: Found) -> DocumentError:
    steps, make = found
    return make(path_text(reversed(steps)) or NOWHERE)


def unknown_field(path: str) -> str:
    """The text of a warning about a dropped field, and of one part of a strict decoding error."""
    return f'unknown field "{path}"'


def compile_schema(schema: Mapping[str, Any]) -> Schema:
    """Compile a structural schema."""
    return Schema(schema)
