# SPDX-License-Identifier: Apache-2.0
"""Objects in expressions of MutatingAdmissionPolicies: `Object.spec{replicas: 1}` and `JSONPatch{op: "add", …}`.

The evaluator knows no such types, so an object becomes the map of its fields.
Source: https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/.
"""

import re

from trainwright.api.validation.cel import TOKEN

_NAME = re.compile(r"[A-Za-z_]\w*|`[^`\n]*`")


def with_maps(expression: str) -> str:
    """The expression with a map in place of each object."""
    found = list(TOKEN.finditer(expression))
    tokens = [one["token"] for one in found]
    made: list[str] = []
    copied, open_objects = 0, [False]
    """Whether what each bracket around the present token opened is an object."""
    for index, token in enumerate(tokens):
        if token in ("(", "[", "{"):
            start = _type_before(tokens, index) if token == "{" else None  # noqa: S105 - a bracket
            if start is not None:
                made.append(expression[copied : found[start].start("token")])
                copied = found[index].start("token")
            open_objects.append(start is not None)
        elif token in (")", "]", "}") and len(open_objects) > 1:
            open_objects.pop()
        elif open_objects[-1] and _is_key(tokens, index):
            name = token.strip("`")
            made += [expression[copied : found[index].start("token")], f'"{name}"']
            copied = found[index].end("token")
    return "".join([*made, expression[copied:]])


def _type_before(tokens: list[str], brace: int) -> int | None:
    """Where the name of a type begins that a brace follows; None if it is the brace of a map."""
    start = brace - 1
    while start >= 2 and tokens[start - 1] == "." and _NAME.fullmatch(tokens[start]):
        start -= 2
    if start < 0 or tokens[start] not in ("Object", "JSONPatch") or tokens[start - 1 : start] == ["."]:
        return None
    return start


def _is_key(tokens: list[str], index: int) -> bool:
    before = tokens[index - 1] if tokens[index - 1] != "?" else tokens[index - 2]
    return tokens[index + 1 : index + 2] == [":"] and before in ("{", ",") and bool(_NAME.fullmatch(tokens[index]))
