# SPDX-License-Identifier: Apache-2.0
"""Pieces of generated Python: names, the head of a file, docstrings, literals."""

import keyword
import re
import textwrap

from trainwright.codegen.output import MARK

API = "trainwright.api"
"""Where the types of Kubernetes are, for every project."""
BANNER = f"# SPDX-License-Identifier: Apache-2.0\n# {MARK} Edit those, not this file.\n"

_WIDTH = 120
_RESERVED = frozenset(
    {"deepcopy", "set_defaults", "self", "mro"}
    | {"bool", "bytes", "dict", "field", "float", "int", "list", "set", "str", "tuple"}
)
"""Methods of every struct, and names that its annotations use."""

_BOUNDARY = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])"  # host|IP, num|Nodes
    r"|(?<=[A-Z])(?=[A-Z][a-rt-z0-9])"  # XML|Http: the last capital of a run begins the next word ...
    r"|(?<=[A-Z])(?=[A-Z]s[a-z])"  # ... also when that word begins with an s
)


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
    text = repr(value)
    return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in text else text


def attribute(wire: str) -> str:
    """The attribute for a field, in snake_case with acronyms kept whole.

    `hostIP` is `host_ip`, `podCIDRs` is `pod_cidrs`, `from` is `from_`.
    """
    words = _BOUNDARY.sub("_", wire)
    name = re.sub(r"\W+", "_", words).strip("_").lower()
    if not name or name[0].isdigit():
        name = f"field_{name}"
    return f"{name}_" if keyword.iskeyword(name) or name in _RESERVED else name
