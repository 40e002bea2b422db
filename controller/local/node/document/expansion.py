# SPDX-License-Identifier: Apache-2.0
"""References to variables in values, commands and arguments: `$(NAME)`; `$$` stands for `$`.

https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
"""

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace references to known variables. Unknown ones stay as they are."""

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return variables.get(name, match[0])

    return _REFERENCE.sub(replace, text)
