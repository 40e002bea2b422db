# SPDX-License-Identifier: Apache-2.0
"""Makes Python names from wire names: snake_case, with acronyms kept whole, valid as attributes of a struct."""

import keyword
import re

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


def attribute(wire: str) -> str:
    """The attribute for a field: `hostIP` is `host_ip`, `podCIDRs` is `pod_cidrs`, `from` is `from_`."""
    words = _BOUNDARY.sub("_", wire)
    name = re.sub(r"\W+", "_", words).strip("_").lower()
    if not name or name[0].isdigit():
        name = f"field_{name}"
    return f"{name}_" if keyword.iskeyword(name) or name in _RESERVED else name
