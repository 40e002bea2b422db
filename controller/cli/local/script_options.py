# SPDX-License-Identifier: Apache-2.0
"""The options of `trainwright local run` that say what runs, where, with which Python and variables."""

import argparse
import re
from pathlib import Path


def add_to(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    what = parser.add_argument_group("what to run")
    what.add_argument("--file", "-f", type=Path, metavar="FILE", help="manifest with a TrainJob and what it needs")
    what.add_argument("script", nargs="?", metavar="SCRIPT", help="a Python script, instead of a manifest")
    what.add_argument("arguments", nargs="*", metavar="ARGS", help="arguments of the script; put its options behind --")
    what.add_argument(
        "--module", "-m", metavar="MODULE", help="run this module, such as pkg.main, instead of a script; as python -m"
    )
    what.add_argument("--runtime", metavar="NAME", help="runtime of the script (default: torch-distributed)")
    what.add_argument(
        "--nodes", type=_nodes, metavar="N", help="number of nodes of the script (default: the runtime's)"
    )
    what.add_argument(
        "--job-name",
        type=_job_name,
        metavar="NAME",
        help="name of the TrainJob of the script; a job of that name that has ended is replaced (default: a new name, "
        "made from that of the script)",
    )
    parser.set_defaults(passed_on=[], advice="what the script is given goes behind --")

    where = parser.add_argument_group("where")
    where.add_argument(
        "--workdir",
        metavar="FOLDER",
        help="the folder that the script starts in, on all nodes (default: the current one); `pod`: a folder for each "
        "pod, which is kept in the output",
    )
    where.add_argument(
        "--output",
        type=lambda text: _path(text).absolute(),
        metavar="FOLDER",
        help="the folder that the job finds in TRAINWRIGHT_OUTPUT_DIR, for models and checkpoints; it is never emptied "
        "(default: a new one, see `trainwright local outputs`)",
    )

    environment = parser.add_argument_group("environment of the script")
    environment.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="set a variable; without a value, to that of this shell. May be given several times",
    )
    environment.add_argument(
        "--env-file",
        action="append",
        type=_path,
        default=[],
        metavar="FILE",
        help="set the variables of a file with lines NAME=VALUE; --env takes precedence. May be given several times",
    )
    environment.add_argument(
        "--python",
        metavar="PATH",
        help="run with this interpreter, or that of this virtual or conda environment (default: of the active one, "
        "else the one that Trainwright is installed in)",
    )
    environment.add_argument(
        "--requirements",
        "-r",
        action="append",
        type=_path,
        default=[],
        metavar="FILE",
        help="run in an environment with these packages; it is made once and kept for the next job with the same file. "
        "May be given several times",
    )


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _nodes(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes: use 1 or more")
    return int(text)


def _job_name(text: str) -> str:
    # The longest pod name of a job is 15 longer, as in NAME-node-0-0-abcde, and may have 63.
    if len(text) > 48 or not re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a name for a TrainJob: use lower case letters, digits and dashes, "
            "a letter first, no dash last, at most 48"
        )
    return text
