# SPDX-License-Identifier: Apache-2.0
"""The arguments of `trainwright local run`: what runs, where, with which Python and variables, and how."""

import argparse
import re
from pathlib import Path

from trainwright.controller.cli.arguments.general import add_flag, add_list, seconds, whole
from trainwright.controller.cli.arguments.local import LocalParser, add_node, add_place

_MOST_RETRIES = 100
"""As `api.trainer.v1alpha1.recovery` says; the help is printed without loading that."""

REFUSED = 125
"""Exit code for a wrong command line and a refused job: 2 would be taken for that of a container."""


def run(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Submit a TrainJob, show the lines of its ranks, and end as it ends. Uses the cluster that runs, "
        "or one of its own for as long as the job. Exit code: 0 if the job is Complete; else that of the container "
        "that failed first, 128 if its program does not exist, or 1 if the job failed without one; 123 after "
        "--stall-stop, 124 if it did not start or end in time, 125 for a wrong command line or a refused job, 130 "
        "after Ctrl-C, 143 after SIGTERM."
    )
    assert isinstance(parser, LocalParser)
    parser.wrong_use = REFUSED
    parser.set_defaults(wrong_use=REFUSED, passed_on=[], advice="what the script is given goes behind --")
    add_place(parser)
    add_node(parser)
    _add_what(parser)
    _add_where(parser)
    _add_how(parser)


def _add_what(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what to run")
    what.add_argument("--file", "-f", type=Path, metavar="FILE", help="manifest with a TrainJob and what it needs")
    what.add_argument("script", nargs="?", metavar="SCRIPT", help="a Python script, instead of a manifest")
    what.add_argument("arguments", nargs="*", metavar="ARGS", help="arguments of the script; put its options behind --")
    what.add_argument(
        "--module", "-m", metavar="MODULE", help="run this module, such as pkg.main, instead of a script; as python -m"
    )
    what.add_argument("--runtime", metavar="NAME", help="runtime of the script (default: torch-distributed)")
    what.add_argument(
        "--nodes",
        type=whole("a number of nodes: use 1 or more", 1),
        metavar="N",
        help="number of nodes of the script (default: the runtime's)",
    )
    what.add_argument(
        "--job-name",
        type=_job_name,
        metavar="NAME",
        help="name of the TrainJob of the script; a job of that name that has ended is replaced (default: a new name, "
        "made from that of the script)",
    )


def _add_where(parser: argparse.ArgumentParser) -> None:
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
    add_list(
        environment,
        "--env",
        metavar="NAME[=VALUE]",
        help="set a variable; without a value, to that of this shell. May be given several times",
    )
    add_list(
        environment,
        "--env-file",
        type=_path,
        metavar="FILE",
        help="set the variables of a file with lines NAME=VALUE; --env takes precedence. May be given several times",
    )
    environment.add_argument(
        "--python",
        metavar="PATH",
        help="run with this interpreter, or that of this virtual or conda environment (default: of the active one, "
        "else the one that Trainwright is installed in)",
    )
    add_list(
        environment,
        "--requirements",
        "-r",
        type=_path,
        metavar="FILE",
        help="run in an environment with these packages; it is made once and kept for the next job with the same file. "
        "May be given several times",
    )


def _add_how(parser: argparse.ArgumentParser) -> None:
    how = parser.add_argument_group("how")
    add_flag(how, "--dry-run", help="print the TrainJob of the script, run nothing")
    add_flag(how, "--detach", help="submit it and return; needs a cluster that runs")
    add_flag(how, "--keep", help="let the job go on if this command ends before it, by Ctrl-C or --timeout")
    add_flag(how, "--rm", help="delete the job with its lines when it has ended")
    how.add_argument(
        "--restarts",
        choices=("none", "as-cluster"),
        default="none",
        help="what to do when a container of the trainer fails: end the job at once, or restart it as a cluster does "
        "(default: %(default)s)",
    )
    how.add_argument(
        "--retries",
        type=whole(f"a number of retries: use 0 to {_MOST_RETRIES}", 0, _MOST_RETRIES),
        metavar="N",
        help="restart all ranks together when one fails, for so many failures in a row without progress, whatever "
        "the cause, 0 to 100 (default: a failure ends the job)",
    )
    how.add_argument(
        "--resume-from",
        metavar="CHECKPOINT",
        help="the path or address that the first attempt gets from trainwright.progress.latest_checkpoint",
    )
    how.add_argument(
        "--start-timeout",
        type=seconds,
        default="60s",
        metavar="TIME",
        help="how long to wait for the first container (default: %(default)s)",
    )
    how.add_argument(
        "--timeout",
        type=seconds,
        metavar="TIME",
        help="end the job, with exit code 124, if it has not finished after this time, such as 2h (default: never)",
    )
    how.add_argument(
        "--stall-after",
        type=_limit,
        default="10m",
        metavar="TIME",
        help="warn when a rank has ended or fallen silent for so long while the job goes on: 30s, 10m, 2h or never "
        "(default: 10m)",
    )
    add_flag(
        how,
        "--stall-stop",
        help="stop the job then, with exit code 123; with --keep, suspend it; with --retries, restart its ranks",
    )


def _limit(text: str) -> float | None:
    if text == "never":
        return None
    try:
        return seconds(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or never") from error


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _job_name(text: str) -> str:
    # The longest pod name of a job is 15 longer, as in NAME-node-0-0-abcde, and may have 63.
    if len(text) > 48 or not re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a name for a TrainJob: use lower case letters, digits and dashes, "
            "a letter first, no dash last, at most 48"
        )
    return text
