# SPDX-License-Identifier: Apache-2.0
"""`trainwright local outputs`: list what jobs have left, and delete it."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from trainwright.api.errors import UserError
from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.cli.local import outputs
from trainwright.controller.cli.local.local_jobs import in_use_of
from trainwright.controller.cli.local.options import LocalOptions, options_of
from trainwright.controller.cli.local.outputs import KeptOutput
from trainwright.controller.local.node.files import remove_tree

_SUCCESS, _FAILURE = 0, 1


def run(arguments: argparse.Namespace) -> int:
    if arguments.everything and arguments.outputs:
        raise WrongUseError("name outputs, or use --all")
    if arguments.delete and not arguments.everything and not arguments.outputs:
        raise WrongUseError("name the outputs to delete, or use --all")
    options = options_of(arguments)
    known = outputs.kept_in(options.runs)
    chosen = {one.folder: one for name in arguments.outputs for one in outputs.named(known, name)}
    missing = [name for name in arguments.outputs if not outputs.named(known, name)]
    if missing:
        raise UserError(f"there is no output {', '.join(missing)} in {options.runs}")
    shown = list(chosen.values()) if arguments.outputs else known
    if not shown:
        print(f"no outputs in {options.runs}")
    elif arguments.delete:
        return _delete(options, shown, is_sure=arguments.yes)
    elif arguments.outputs:
        for one in shown:
            print(one.folder, *outputs.table(outputs.files_of(one.folder)), sep="\n")
    else:
        print(*outputs.overview(shown), sep="\n")
        print(f"in {options.runs}")
    return _SUCCESS


def _delete(options: LocalOptions, chosen: Sequence[KeptOutput], *, is_sure: bool) -> int:
    in_use = asyncio.run(in_use_of(chosen))
    for path, why in in_use.items():
        _fail(f"{path} is not deleted: {why}")
    going = [one for one in chosen if one.folder not in in_use]
    code = _FAILURE if in_use else _SUCCESS
    if not going:
        return code
    print("this deletes for good:")
    for one in going:
        print(f"  {one.folder}  ({one.summary()})")
    if not is_sure:
        if not sys.stdin.isatty():
            raise WrongUseError("nothing is deleted: there is no terminal to ask; add --yes")
        if input("delete? [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing is deleted")
            return _FAILURE
    for one in going:
        try:
            remove_tree(one.folder)
            print(f"{one.folder}: deleted", flush=True)
        except OSError as error:
            code = _fail(f"{error.filename or one.folder}: {error.strerror or error}")
    outputs.point_to_latest(options.runs)
    return code


def _fail(error: object) -> int:
    print(f"error: {error}", file=sys.stderr)
    return _FAILURE
