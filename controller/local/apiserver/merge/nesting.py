# SPDX-License-Identifier: Apache-2.0
"""How deeply documents nest.

kube-apiserver takes ten thousand levels. Most of what looks at a document here calls itself for each level, which
Python ends after some hundred. So documents are limited where they are read, as YAML is, and not where they are used:
an object that was stored could otherwise end what follows all objects of its kind.
"""

from typing import Any

from trainwright.api.manifest import DEEPEST

TOO_DEEP = f"exceeded max depth of {DEEPEST} levels"


def is_too_deep(value: Any, levels: int = DEEPEST) -> bool:
    """Whether a document is nested more deeply than is supported."""
    if type(value) is dict:
        value = value.values()
    elif type(value) is not list:
        return False
    if levels == 0:
        return True
    return any(is_too_deep(inner, levels - 1) for inner in value if type(inner) is dict or type(inner) is list)
