# SPDX-License-Identifier: Apache-2.0
"""`trainwright local outputs`: list what jobs have left, and delete it."""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.controller.cli import state
from trainwright.controller.cli.local.job_commands import Declare
from trainwright.controller.cli.local.options import Options, add_place, options_of

if TYPE_CHECKING:
    from trainwright.controller.cli.local.outputs import Kept

_SUCCESS, _FAILURE, _WRONG_USE = 0, 1, 2


def add_to(commands: Any, declare: Declare) -> None:
    """Declare the command."""
    parser = declare(
        commands,
        "outputs",
        "list what jobs have left, and delete it",
        _outputs,
        description="List the outputs of jobs, which stay when their job or their cluster is deleted, or the files of "
        "outputs that are named. With --delete, list what will be deleted, ask, and delete it. Folders of "
        "`run --output` are not listed and not deleted.",
    )
    add_place(parser)
    parser.add_argument(
        "outputs",
        nargs="*",
        metavar="OUTPUT",
        help="name of an output or of its job; `latest` for the newest",
    )
    parser.add_argument("--delete", action="store_true", help="delete the outputs that are named")
    parser.add_argument("--all", dest="everything", action="store_true", help="all outputs")
    parser.add_argument("--yes", "-y", action="store_true", help="delete without a question")


def _outputs(arguments: argparse.Namespace) -> int:
    from trainwright.controller.cli.local import outputs  # noqa: PLC0415 - the help needs none of it

    if arguments.everything and arguments.outputs:
        return _fail("name outputs, or use --all", _WRONG_USE)
    if arguments.delete and not arguments.everything and not arguments.outputs:
        return _fail("name the outputs to delete, or use --all", _WRONG_USE)
    options = options_of(arguments)
    known = outputs.kept_in(options.runs)
    chosen = {one.folder: one for name in arguments.outputs for one in outputs.named(known, name)}
    missing = [name for name in arguments.outputs if not outputs.named(known, name)]
    if missing:
        return _fail(f"there is no output {', '.join(missing)} in {options.runs}")
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


def _delete(options: Options, chosen: "Sequence[Kept]", *, is_sure: bool) -> int:
    from trainwright.controller.cli.local import outputs  # noqa: PLC0415 - the help needs none of it
    from trainwright.controller.local.node.files import remove_tree  # noqa: PLC0415 - as above

    in_use = _in_use(chosen)
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
            return _fail("nothing is deleted: there is no terminal to ask; add --yes", _WRONG_USE)
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


def _in_use(chosen: "Sequence[Kept]") -> Mapping[Path, str]:
    """Why outputs cannot be deleted now."""
    found: dict[Path, str] = {}
    clusters = {one.owner.cluster for one in chosen if one.owner.cluster}
    for cluster in map(Path, sorted(clusters)):
        its = [one for one in chosen if one.owner.cluster == str(cluster)]
        if state.running(cluster) is not None:
            going = asyncio.run(_going(cluster))
            found |= {one.folder: f"TrainJob {one.owner.job} has not ended" for one in its if one.owner.uid in going}
        elif state.is_held(cluster):
            found |= {one.folder: f"a `run` uses the cluster {cluster.name}; wait for its end" for one in its}
    return found


async def _going(cluster: Path) -> set[str]:
    """The uids of the jobs that have not ended."""
    from trainwright.controller.cli.local import managing  # noqa: PLC0415 - the help needs none of it

    async with managing.jobs_of(cluster, "") as jobs:
        return {job["metadata"]["uid"] for job in await jobs.all() if not managing.is_over(job)}


def _fail(error: object, code: int = _FAILURE) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code
