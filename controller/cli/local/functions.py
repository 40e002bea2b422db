# SPDX-License-Identifier: Apache-2.0
"""Functions as TrainJobs: their source travels in the command, in the form in which the Kubeflow SDK sends it."""

import ast
import inspect
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from trainwright.api.errors import UserError


class SentFunction(NamedTuple):
    name: str
    program: str
    """Its source, and the call with its parameters."""

    def command(self, starter: Sequence[str]) -> list[str]:
        """What a container runs. `starter`: such as `python` or `torchrun`."""
        program = self.program
        for special in ("\\", "$", "`"):  # which the shell would change
            program = program.replace(special, f"\\{special}")
        file = '"$FOLDER/' + self.name + '.py"'
        script = (
            f"\nread -r -d '' SCRIPT << EOM\n\n{program}\n\nEOM\nFOLDER=$(mktemp -d)\n"
            f'printf "%s" "$SCRIPT" > {file}\n{shlex.join(starter)} {file}'
        )
        # In the field of a container, $(NAME) stands for a variable.
        return ["bash", "-c", script.replace("$(", "$$(")]


def sent(function: Callable[..., Any], parameters: Mapping[str, Any]) -> SentFunction:
    """Take the source of a function. Raises UserError where it cannot run elsewhere."""
    name = getattr(function, "__name__", "")
    if not inspect.isfunction(function) or not name.isidentifier():
        raise UserError(f"{function!r} is not a function that def makes; pass one, or the path of a script")
    if free := function.__code__.co_freevars:
        raise UserError(f"{name} uses {', '.join(free)} of the function around it, which does not travel: pass it")
    try:
        inspect.signature(function).bind(**parameters)
    except TypeError as error:
        raise UserError(f"{name} cannot be called with these parameters: {error}") from error
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise UserError(f"the source of {name} cannot be read: write it into a cell or a file") from error
    if "EOM" in source.splitlines():
        raise UserError(f"{name} has a line that is EOM, which ends the text that it is sent in")
    for key, value in parameters.items():
        try:
            same = ast.literal_eval(repr(value)) == value
        except (ValueError, SyntaxError):
            same = False
        if not same:
            raise UserError(
                f"parameter {key} is of type {type(value).__name__}: pass numbers, texts, and lists of such"
            )
    call = f"{name}(**{dict(parameters)!r})" if parameters else f"{name}()"
    return SentFunction(name, f"{source}\n{call}")
