# SPDX-License-Identifier: Apache-2.0
"""The arguments of all commands but those of a local cluster, and what these take, too."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
ZAP_WITHOUT_EFFECT = ("zap-stacktrace-level", "zap-time-encoding")
_LEVELS = ("debug", "info", "warning", "error")
_VERBOSE = 5
"""From this verbosity on Kubeflow Trainer logs each reconcile, which is `debug` here."""


_GENERATE = """\
Compile the schemas of your own kinds into typed models with copies and defaults, CustomResourceDefinitions, and JSON
Schemas for editors. A schema is a CustomResourceDefinition whose parts may be references: to definitions in the same
file, or to types of Kubernetes, such as $ref: core/v1/PodSpec. Each group and version has a folder below DIR:

  boats/api/sea/v1/boat.yaml    the schema
  boats/api/sea/v1/             gets models, and a JSON Schema for each kind
  boats/crds/                   gets the CustomResourceDefinitions

exit codes:
  0  done, or nothing to do
  1  --check: a file is not up to date
  2  the schemas are invalid; nothing was written
  3  a file could not be written; no file was changed
"""


def add_kubeconfig(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        help="kubeconfig (default: as for kubectl, and where there is none the local cluster)",
    )
    parser.add_argument("--context", help="context of the kubeconfig (default: the current one)")


def add_config(parser: argparse.ArgumentParser, text: str) -> None:
    """The Configuration of a manager. `text` goes on after "file with the Configuration of the manager"."""
    parser.add_argument("--config", type=Path, metavar="FILE", help=f"file with the Configuration of the manager{text}")


def add_namespaces(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-n", "--namespace", help="namespace (default: the one of the kubeconfig's context)")
    where.add_argument("-A", "--all-namespaces", action="store_true", help="TrainJobs of all namespaces")


def add_output(parser: argparse.ArgumentParser, *forms: str) -> None:
    """The format of what a command prints; the first one is the default."""
    parser.add_argument("-o", "--output", choices=forms, default=forms[0], help="format (default: %(default)s)")


def add_list(parser: Any, *names: str, **more: Any) -> None:
    parser.add_argument(*names, action="append", default=[], **more)


def add_flag(parser: Any, *names: str, **more: Any) -> None:
    parser.add_argument(*names, action="store_true", **more)


def seconds(text: str) -> float:
    """A time, such as `30`, `0.5s` or `10m`."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd]?)", text)
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write a number and s, m, h or d, such as 10m")
    return float(found[1]) * _UNITS[found[2]]


def whole(what: str, least: int, most: int = 10**9 - 1) -> Callable[[str], int]:
    """Reads a whole number. `what` goes on after "is not": what is wanted, and maybe what to write instead."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return int(text)

    return read


number = whole("a number above 0", 1)


def gates(text: str) -> dict[str, bool]:
    """Read `Name=true,Other=false`. Raises ArgumentTypeError."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if value.lower() not in {"true", "false"}:
            raise argparse.ArgumentTypeError(f"{part!r} must have the form NAME=true or NAME=false")
        found[name.strip()] = value.lower() == "true"
    return found


def dashboard(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Serve a page about TrainJobs to the browser of this machine, until Ctrl-C. It listens on "
        "127.0.0.1 only, reads the cluster of the kubeconfig with your own rights, and changes nothing unless you let "
        "it. Exit code 0; 2 for a wrong command line, and if the port or the kubeconfig cannot be used."
    )
    add_namespaces(parser)
    parser.add_argument(
        "--port",
        type=whole("a port: write a number from 0 to 65535", 0, 65535),
        default=0,
        help="port on 127.0.0.1 (default: a free one)",
    )
    add_flag(
        parser, "--allow-changes", help="let the page stop, resume, delete and repeat jobs, where you have the rights"
    )
    add_flag(parser, "--no-browser", help="print the address, and open no browser")
    add_kubeconfig(parser)


def doctor(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Examine an installation: JobSet, definitions, webhooks and their certificates, the leader, the "
        "rights of the manager, each runtime, devices, queues, quotas, clock. Nothing is changed; writes are dry runs. "
        "It needs no manager, and works with Kubeflow Trainer's own installations. Exit code 0 if nothing is wrong, 1 "
        "if something is, 2 if the cluster cannot be examined, 3 if nothing was found and not all could be checked."
    )
    add_kubeconfig(parser)
    parser.add_argument(
        "-n",
        "--namespace",
        help="where objects are tried as dry runs (default: the one that the manager is limited to, or default)",
    )
    add_output(parser, "text", "json")


def explain(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Say in one sentence why a TrainJob does not train, or that it does. Reads the cluster of the "
        "kubeconfig and changes nothing; needs no manager. Exit code 0 if the job runs or is complete, 1 if it "
        "failed or is stuck, 3 if it waits; 2 for a wrong command line, and for a job or cluster that cannot be "
        "read."
    )
    parser.add_argument("job", metavar="JOB", help="name of the TrainJob, or `latest` for the newest")
    parser.add_argument("-n", "--namespace", help="its namespace (default: the one of the kubeconfig's context)")
    add_flag(parser, "--all", help="show all causes that were found, not only the first two")
    add_output(parser, "text", "json")
    add_flag(parser, "--watch", help="go on until the job is over, and show each change (Ctrl-C ends it)")
    add_kubeconfig(parser)


def progress(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show how far TrainJobs are, as their training reports it: a table of all, or all metrics of one. "
        "Reads the cluster of the kubeconfig and changes nothing. Exit code 0; 1 if the job that is named has failed "
        "or is deleted; 2 for a wrong command line, and for a job or cluster that cannot be read."
    )
    parser.add_argument("job", metavar="JOB", nargs="?", help="name of a TrainJob, or `latest` (default: all)")
    add_namespaces(parser)
    add_flag(
        parser,
        "-w",
        "--watch",
        help="go on, and show changes: a live picture on a terminal, else one line for each change. Ends with the job "
        "that is named, or with Ctrl-C",
    )
    add_output(parser, "text", "json")
    add_kubeconfig(parser)


def initialize(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Fetch a model or a data set into a folder, whole or not at all: an interrupted download goes on "
        "where it ended, every file is checked against its hash, and a folder that is complete is not fetched again."
    )
    parser.set_defaults(takes_signals=True)
    kinds = parser.add_subparsers(title="kinds", metavar="KIND", dest="kind", required=True)
    for kind, noun in (("dataset", "data set"), ("model", "model")):
        one = kinds.add_parser(
            kind,
            help=f"fetch a {noun}",
            description=f"Fetch a {noun} from hf://owner/name[@revision], s3://bucket/prefix, "
            "https://host/file#sha256=HEX, file:///path, or from a scheme that a distribution adds. "
            "Options win over variables (STORAGE_URI, OUTPUT_PATH). "
            "ALLOW_PATTERNS and IGNORE_PATTERNS choose files; tokens come in variables only (HF_TOKEN, ACCESS_TOKEN). "
            "Exit code 0 if the files are there, 1 if not, 2 for a wrong command line, 143 after SIGTERM.",
        )
        one.add_argument("--storage-uri", metavar="URI", help="where from (default: the variable STORAGE_URI)")
        one.add_argument(
            "--output", metavar="FOLDER", help=f"where to (default: the variable OUTPUT_PATH, or /workspace/{kind})"
        )
        do = one.add_mutually_exclusive_group()
        add_flag(do, "--dry-run", help="list files, sizes and free space, and write nothing")
        add_flag(do, "--verify", help="hash the files that are there, and say which are damaged; nothing is fetched")


def kubectl(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("arguments", nargs="*", metavar="ARGS", help="arguments and options of kubectl")
    parser.set_defaults(passed_on=None)


def manager(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run the TrainJob controller until SIGTERM or SIGINT. Exit code 0 after a normal end, 1 after a "
        "failure, 2 for a wrong command line."
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        help="kubeconfig of the cluster (default: $KUBECONFIG, the cluster that this runs in, or ~/.kube/config)",
    )
    add_config(parser, " (default: an empty one)")
    parser.add_argument(
        "--feature-gates",
        type=gates,
        default={},
        metavar="NAME=BOOL,…",
        help="features to turn on or off; they take precedence over those of the Configuration",
    )
    parser.add_argument(
        "--namespace", default="", help="manage the TrainJobs of this namespace only (default: all namespaces)"
    )
    parser.add_argument(
        "--webhook-url",
        type=_webhook_url,
        metavar="URL",
        help="for a manager outside of the cluster: the address https://HOST:PORT at which the API server reaches it; "
        "the webhooks are registered with it, and removed at the end (default: no webhooks)",
    )
    parser.add_argument(
        "--log-level", choices=_LEVELS, default="info", help="lowest level that is logged (default: %(default)s)"
    )
    parser.add_argument(
        "--log-format",
        choices=("auto", "json", "text"),
        default="auto",
        help="format of the log; auto is json in a cluster and text elsewhere (default: %(default)s)",
    )
    # Flags that installations of Kubeflow Trainer pass. They work, and the help does not list them.
    parser.add_argument("--zap-log-level", type=_zap_level, dest="log_level", help=argparse.SUPPRESS)
    parser.add_argument("--zap-encoder", type=_zap_encoder, dest="log_format", help=argparse.SUPPRESS)
    parser.add_argument("--zap-devel", nargs="?", const="true", help=argparse.SUPPRESS)
    for flag in ZAP_WITHOUT_EFFECT:
        parser.add_argument(f"--{flag}", help=argparse.SUPPRESS)
    parser.set_defaults(takes_signals=True)


def plugins(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the plugins that the manager loads, in the order in which they run in every phase. Exit code "
        "1 with every reason if they cannot be loaded together."
    )
    add_config(parser, ", whose section plugins is used")
    add_output(parser, "table", "json", "yaml")


def rbac(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print the roles that the manager needs with the plugins that are installed here and enabled in "
        "its Configuration, and the bindings of the roles to its service account. Apply them after you add or remove a "
        "plugin. Exit code 1 if the Configuration or a plugin is invalid."
    )
    add_config(parser, " (default: the shipped one)")
    parser.add_argument(
        "-n", "--namespace", default="kubeflow-system", help="namespace of the manager (default: %(default)s)"
    )
    parser.add_argument(
        "--only-namespace",
        default="",
        metavar="NAMESPACE",
        help="the manager is started with --namespace=NAMESPACE (default: it manages all namespaces)",
    )


def render(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print the objects that TrainJobs become, in the order in which they would be applied. Needs no "
        "cluster. Exit code 0 if all TrainJobs were rendered, 1 if one is invalid, 2 for a wrong command line."
    )
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        required=True,
        metavar="FILE",
        help="file or folder with TrainJobs, which may hold runtimes too; - for standard input; may be repeated",
    )
    add_list(
        parser,
        "--runtime",
        metavar="FILE",
        help="file or folder with runtimes; may be repeated (default: the shipped ones; with --cluster the cluster's)",
    )
    parser.add_argument(
        "-n", "--namespace", default="default", help="namespace of objects without one (default: %(default)s)"
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("yaml", "json", "diff"),
        help="format; diff compares the objects with the runtime's template, or with --cluster with the existing "
        "objects (default: yaml; with --cluster diff)",
    )
    add_flag(
        parser,
        "--cluster",
        help="read runtimes that no file has, and existing objects, from a cluster; nothing in it is changed",
    )
    parser.add_argument("--kubeconfig", type=Path, help="kubeconfig for --cluster (default: as for the manager)")
    parser.add_argument("--context", help="context of the kubeconfig (default: the current one)")
    add_config(parser, ", whose section plugins is used")
    add_flag(parser, "--explain", help="say which plugin or patch set each value, and why")


def _webhook_url(text: str) -> str:
    """An https URL with a host and a port, and without a path."""
    url = urlsplit(text)
    try:
        complete = url.scheme == "https" and url.hostname and url.port and url.path in {"", "/"}
    except ValueError:  # the port is not a number
        complete = False
    if not complete:
        raise argparse.ArgumentTypeError(f"{text!r} must have the form https://HOST:PORT")
    return text.rstrip("/")


def _zap_level(text: str) -> str:
    """A level by zap's name or verbosity."""
    if text.isdecimal():
        return "debug" if int(text) >= _VERBOSE else "info"
    if text == "panic":
        return "error"
    if text not in _LEVELS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a level; use debug, info, error, panic or a verbosity such as 2"
        )
    return text


def _zap_encoder(text: str) -> str:
    formats = {"json": "json", "console": "text"}
    if text not in formats:
        raise argparse.ArgumentTypeError(f"{text!r} is not an encoder; use json or console")
    return formats[text]


def generate(parser: argparse.ArgumentParser) -> None:
    parser.description = _GENERATE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of the schemas")
    parser.add_argument(
        "--package", default="", help="name under which Python imports DIR (default: from the packages around it)"
    )
    parser.add_argument(
        "--crds", type=Path, metavar="FOLDER", help="where the CustomResourceDefinitions go (default: crds beside DIR)"
    )
    parser.add_argument(
        "--import",
        type=Path,
        metavar="FILE",
        dest="imported",
        action="append",
        default=[],
        help="take the CustomResourceDefinitions of another project into DIR first; can be given again",
    )
    add_flag(parser, "--check", help="write nothing; show the files that are not up to date")
