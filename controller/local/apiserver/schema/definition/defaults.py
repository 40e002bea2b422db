# SPDX-License-Identifier: Apache-2.0
"""Whether the defaults in a schema fit it: nothing unknown, valid values, good metadata in embedded objects.

Source: `apiextensions-apiserver/pkg/apiserver/schema/defaulting`.
"""

import copy
from collections.abc import Mapping
from typing import Any

from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver.schema.checks import compile_checks, problems_of
from trainwright.controller.local.apiserver.schema.embedded import coerce, compile_walk
from trainwright.controller.local.apiserver.schema.embedded import validate as validate_embedded
from trainwright.controller.local.apiserver.schema.errors import NOWHERE, DocumentDecodeError, invalid
from trainwright.controller.local.apiserver.schema.problems import join
from trainwright.controller.local.apiserver.schema.pruning import compile_prune
from trainwright.controller.local.apiserver.schema.rules import compile_rules

Schema = Mapping[str, Any]


def default_errors(schema: Schema, path: str) -> list[DocumentError]:
    """The errors of all defaults in a structural schema. Defaults in maps are refused elsewhere."""
    found: list[DocumentError] = []
    if schema.get("default") is not None:
        found += _errors(schema, schema["default"], f"{path}.default")
    if isinstance(schema.get("items"), Mapping):
        found += default_errors(schema["items"], f"{path}.items")
    for name, inner in (schema.get("properties") or {}).items():
        found += default_errors(inner, f"{path}.properties[{name}]")
    return found


def _errors(schema: Schema, default: Any, path: str) -> list[DocumentError]:
    found: list[DocumentError] = []
    pruned = copy.deepcopy(default)
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    if isinstance(pruned, (dict, list)) and compile_prune(schema, root=embedded)(pruned):
        found.append(invalid(path, default, "must not have unknown fields"))
    return found + _value_errors(schema, copy.deepcopy(default), path)


def _value_errors(schema: Schema, default: Any, path: str) -> list[DocumentError]:
    walk = compile_walk(schema)
    if walk is not None and isinstance(default, dict):
        try:
            coerce(walk, default)
        except DocumentDecodeError as error:
            # The text begins with the field inside the default.
            return [DocumentError("FieldValueInvalid", path, str(error))]
        wrong = [one._replace(field=join(path, one.field)) for one in validate_embedded(walk, default)]
        if wrong:
            return wrong
    problems = problems_of(compile_checks(schema, strict=False), default)
    if problems:
        return [_placed(problem.located(), path) for problem in problems]
    rules = compile_rules(schema)
    if rules is None:
        return []
    return rules.errors(default, default, path, None, None) or rules.errors(default, None, path, None, None)


def _placed(error: DocumentError, path: str) -> DocumentError:
    return error._replace(field=path if error.field == NOWHERE else join(path, error.field))
