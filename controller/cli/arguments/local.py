# SPDX-License-Identifier: Apache-2.0
"""The arguments of the commands of a local cluster, but for `run`."""

import argparse
import sys
from pathlib import Path
from typing import Any, NoReturn

from trainwright.api.quantity import Quantity
from trainwright.controller.cli import state
from trainwright.controller.cli.arguments.general import add_flag, add_list, add_output, number, seconds, whole

ISOLATION = ("auto", "namespaces", "rewrite")
NETWORK = ("shared", "isolated")
_JOB = "name of a TrainJob, `latest` for the newest, or the name of a script without .py for its newest job"


class LocalParser(argparse.ArgumentParser):
    """Of one command; `wrong_use` is its exit code for a wrong command line."""

    wrong_use = 2

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(self.wrong_use, f"{self.prog}: error: {message}\n")


def local(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "A Kubernetes cluster in one process on this machine: an API server, controllers and a node whose "
        "pods are processes. For learning, for trying jobs, for tests of operators; not for other users."
    )


def up(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Start a cluster in the background and return when it is ready. If it runs already, it "
        "goes on. Exit code 0, or 1 if it could not be started."
    )
    add_place(parser)
    add_node(parser)
    add_flag(parser, "--foreground", help="run it in this terminal until Ctrl-C")
    parser.add_argument(
        "--only",
        choices=("apiserver",),
        default="",
        help="start the API server alone, without controllers, node and manager: a server to test operators on",
    )
    add_flag(parser, "--memory", help="keep the objects in memory only")
    add_flag(
        parser,
        "--new-token",
        help="give the dashboard a new address; the old one, and pages that are open with it, stop working",
    )
    add_flag(
        parser,
        "--merge-kubeconfig",
        help="add the cluster to your own kubeconfig and keep a copy of the file; `down` removes it again",
    )
    add_flag(parser, "--use-context", help="with --merge-kubeconfig: make it the current context")


def down(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "End the pods with their grace period, then the cluster; Ctrl-C kills the pods. "
        "The objects stay for the next `up`."
    )
    add_place(parser)
    add_flag(
        parser,
        "--delete",
        help="delete its files too: all objects, logs and volumes; what others put into its folder stays",
    )


def status(parser: argparse.ArgumentParser) -> None:
    parser.description = "Exit code 0 if it runs, 1 if it does not."
    add_place(parser)
    add_flag(parser, "--limits", help="say what a local cluster is not, of any cluster")


def jobs(parser: argparse.ArgumentParser) -> None:
    _add_namespaces(parser)
    add_output(parser, "text", "json", "yaml")


def show(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show a job: its state and why, what it reported, and its ranks. `--output` prints the "
        "TrainJob as the cluster holds it."
    )
    _add_job(parser)
    add_output(parser, "text", "json", "yaml")


def compare(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show jobs beside each other: the parameters that differ (arguments, environment, image, nodes, "
        "git commit), and the last and the best value of each metric. Best is the lowest loss or error, "
        "and the highest accuracy or score; of other metrics both are shown. Secrets are hidden."
    )
    several(parser)
    add_output(parser, "text", "json", "csv")


def logs(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show the lines of a job's ranks, also of pods that are gone. If the logs are gone too, show the "
        "lines that the record of failures holds. With --follow, the exit code is that of `run`."
    )
    _add_job(parser)
    add_flag(parser, "--follow", "-f", help="follow the log until the job ends")
    add_list(
        parser,
        "--rank",
        metavar="N",
        help="only rank N, or the step of that name; may be given several times",
    )
    parser.add_argument("--since", type=seconds, metavar="TIME", help="only lines of the last 30s, 10m, 2h or 1d")
    parser.add_argument("--tail", type=number, metavar="N", help="only the last N lines of each container")
    parser.add_argument(
        "--attempt", type=number, metavar="N", help="the lines of this attempt, from 1 on (default: the latest)"
    )


def stop(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Suspend jobs and wait until their pods have ended. `resume` starts them again, from their "
        "checkpoints if they write any."
    )
    several(parser)


def delete(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Delete jobs and wait until their pods have ended. Their logs, curves and records go with them; files that "
        "the trainings wrote elsewhere stay."
    )
    several(parser, "*")
    add_flag(parser, "--all", dest="everything", help="all jobs of the namespace")


def clean(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the jobs that have ended, and the size of the lines of their ranks. With --yes, delete them: "
        "the TrainJobs with all objects that they made, their records of failures, their curves and their lines. "
        "What jobs wrote into outputs and other folders stays."
    )
    _add_namespaces(parser)
    parser.add_argument(
        "--keep",
        type=whole("a number above 0", 0),
        default=0,
        metavar="N",
        help="leave the last N (default: %(default)s)",
    )
    add_flag(parser, "--yes", "-y", help="delete them; without it nothing is deleted")


def wait(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Wait until a job has ended, runs or is suspended. Exit code for the end, as of `run`: 0 if the "
        "job is Complete, else that of the container that failed first, or 1. For the others: 0. 1 if the job was "
        "deleted or has ended before, 124 if it took longer than --timeout."
    )
    _add_job(parser)
    parser.add_argument(
        "--for",
        dest="until",
        choices=("end", "running", "suspended"),
        default="end",
        help="what to wait for (default: %(default)s)",
    )
    parser.add_argument("--timeout", type=seconds, metavar="TIME", help="how long, such as 10m (default: no limit)")


def outputs(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the outputs of jobs, which stay when their job or their cluster is deleted, or the files of "
        "outputs that are named. With --delete, list what will be deleted, ask, and delete it. Folders of "
        "`run --output` are not listed and not deleted."
    )
    add_place(parser)
    parser.add_argument(
        "outputs", nargs="*", metavar="OUTPUT", help="name of an output or of its job; `latest` for the newest"
    )
    add_flag(parser, "--delete", help="delete the outputs that are named")
    add_flag(parser, "--all", dest="everything", help="all outputs")
    add_flag(parser, "--yes", "-y", help="delete without a question")


def add_place(parser: argparse.ArgumentParser) -> None:
    """The options that say which cluster is meant."""
    parser.add_argument("--name", type=_name, default=state.DEFAULT, help="name of the cluster (default: %(default)s)")
    parser.add_argument(
        "--dir", type=Path, metavar="FOLDER", help="its folder (default: one below ~/.local/state/trainwright/local)"
    )


def add_node(parser: argparse.ArgumentParser) -> None:
    """The options that say how a cluster runs."""
    parser.add_argument(
        "--port",
        type=whole("a port: use a number from 1 to 65535", 1, 65535),
        default=0,
        help="port of the API server on 127.0.0.1 (default: a free one)",
    )
    parser.add_argument(
        "--isolation",
        choices=ISOLATION,
        default="auto",
        help="how pods get their names and paths: in namespaces of the kernel, or by rewriting what they are given "
        "(default: namespaces where they work)",
    )
    parser.add_argument(
        "--network",
        choices=NETWORK,
        default="shared",
        help="the network of pods: that of this machine, or one for each job that leads nowhere else; "
        "needs namespaces (default: %(default)s)",
    )
    parser.add_argument(
        "--capacity",
        type=_capacity,
        default={},
        metavar="cpu=N,memory=N,…",
        help="what pods may request (default: what this machine has, less 10 %%)",
    )
    add_list(
        parser,
        "--inherit-env",
        metavar="NAME",
        help="a variable of this shell that all pods get; may be given several times",
    )
    add_flag(parser, "--share-gpus", help="leave all GPUs visible to every pod")
    add_flag(
        parser,
        "--rbac",
        help="give users and service accounts only the rights of their roles and bindings, as on a cluster; the "
        "kubeconfig keeps all rights (default: every user with a token may do everything)",
    )
    add_flag(parser, "--verbose", help="log what the controllers do")


def several(parser: argparse.ArgumentParser, how_many: str = "+") -> None:
    add_place(parser)
    parser.add_argument("jobs", nargs=how_many, metavar="JOB", help=_JOB)
    _add_namespace(parser)


def _add_job(parser: argparse.ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument("job", metavar="JOB", help=_JOB)
    _add_namespace(parser)


def _add_namespace(parser: Any) -> None:
    parser.add_argument("--namespace", "-n", default="default", help="namespace of the job (default: %(default)s)")


def _add_namespaces(parser: argparse.ArgumentParser) -> None:
    add_place(parser)
    where = parser.add_mutually_exclusive_group()
    _add_namespace(where)
    add_flag(where, "--all-namespaces", "-A", help="jobs of all namespaces")


def _name(text: str) -> str:
    if not state.NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a name: use lower case letters, digits and dashes, at most 32"
        )
    return text


def _capacity(text: str) -> dict[str, str]:
    made: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        try:
            Quantity.parse(value)
            is_good = bool(name and equals)
        except ValueError:
            is_good = False
        if not is_good:
            raise argparse.ArgumentTypeError(f"{part!r}: write resource=quantity, such as cpu=4 or memory=8Gi")
        made[name] = value
    return made
