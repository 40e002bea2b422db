# SPDX-License-Identifier: Apache-2.0
"""Pieces of generated Python: the head of a file, docstrings, literals."""

import textwrap

from trainwright.codegen.output import MARK

API = "trainwright.api"
"""Where the types of Kubernetes are, for every project."""
BANNER = f"# SPDX-License-Identifier: Apache-2.0\n# {MARK} Edit those, not this file.\n"

_WIDTH = 120


def docstring(text: str) -> str:
    """A docstring inside a class, on one line if it fits."""
    safe = " ".join(text.split()).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if safe.endswith('"'):
        safe += " "
    line = f'    """{safe}"""\n'
    if len(line) <= _WIDTH + 1:
        return line
    wrapped = textwrap.wrap(safe, _WIDTH - 4, initial_indent='    """', subsequent_indent="    ")
    return "\n".join(wrapped) + '\n    """\n'


def literal(value: str | float | bool) -> str:
    """A value as Python writes it, text in double quotes."""
    if not isinstance(value, str):
        return repr(value)
    text = repr(value)
    if text[0] == "'" and '"' not in text:
        return f'"{text[1:-1]}"'
    return text
