# SPDX-License-Identifier: Apache-2.0
"""`trainwright manager`: runs the controllers until SIGTERM or SIGINT."""

import argparse
import logging
import sys
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

USER_AGENT = "trainwright"
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("auto", "json", "text")

_VERBOSE = 5
"""From this verbosity on Kubeflow Trainer logs each reconcile, which is `debug` here."""
_ZAP_WITHOUT_EFFECT = ("zap-stacktrace-level", "zap-time-encoding")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the sub-command."""
    parser = subparsers.add_parser(
        "manager",
        help="run the TrainJob controller",
        description="Run the TrainJob controller until SIGTERM or SIGINT. Exit code 0 after a normal end, 1 after a "
        "failure, 2 for a wrong command line.",
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        help="kubeconfig of the cluster (default: $KUBECONFIG, the cluster that this runs in, or ~/.kube/config)",
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="file with the Configuration of the manager (default: an empty one)"
    )
    parser.add_argument(
        "--feature-gates",
        type=_feature_gates,
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
        "--log-level", choices=LEVELS, default="info", help="lowest level that is logged (default: %(default)s)"
    )
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        default="auto",
        help="format of the log; auto is json in a cluster and text elsewhere (default: %(default)s)",
    )
    _add_kubeflow_flags(parser)
    parser.set_defaults(run=run, takes_signals=True)


def _add_kubeflow_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that installations of Kubeflow Trainer pass. They work, and the help does not list them."""
    parser.add_argument("--zap-log-level", type=_zap_level, dest="log_level", help=argparse.SUPPRESS)
    parser.add_argument("--zap-encoder", type=_zap_encoder, dest="log_format", help=argparse.SUPPRESS)
    parser.add_argument("--zap-devel", nargs="?", const="true", help=argparse.SUPPRESS)
    for flag in _ZAP_WITHOUT_EFFECT:
        parser.add_argument(f"--{flag}", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Run the manager; returns the exit code."""
    # Imported here: the help and the other sub-commands do not need it.
    from trainwright.controller.runtime import tune_collector  # noqa: PLC0415

    tune_collector()  # before the other imports: garbage collection took a sixth of their time
    from prometheus_client import disable_created_metrics  # noqa: PLC0415

    from trainwright.controller.cli.configuration import load_settings  # noqa: PLC0415
    from trainwright.controller.runtime import (  # noqa: PLC0415
        ConfigurationError,
        configure_logging,
        is_in_cluster,
        load_config,
    )
    from trainwright.controller.runtime import run as run_manager  # noqa: PLC0415
    from trainwright.controller.trainer.assembly.manager import make_manager  # noqa: PLC0415

    try:
        settings = load_settings(arguments.config, arguments.feature_gates)
        cluster = load_config(arguments.kubeconfig)
    except ConfigurationError as error:
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        return 1
    log = logging.getLogger(__name__)
    # Without this, the library adds a second series to each counter.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    level, style = _logging(arguments, inside=is_in_cluster(cluster))
    configure_logging(level, style)
    for flag in _ZAP_WITHOUT_EFFECT:
        if getattr(arguments, flag.replace("-", "_")) is not None:
            log.info("--%s has no effect: times and tracebacks are always written", flag)
    return run_manager(
        lambda: make_manager(
            cluster,
            settings,
            user_agent=USER_AGENT,
            namespace=arguments.namespace,
            webhook_url=arguments.webhook_url,
        )
    )


def _logging(arguments: argparse.Namespace, *, inside: bool) -> tuple[str, Literal["text", "json"]]:
    """Level and format of the log."""
    level, style = arguments.log_level, arguments.log_format
    if arguments.zap_devel == "true":
        level, style = "debug", "text"
    json = style == "json" or (style == "auto" and inside)
    return level.upper(), "json" if json else "text"


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


def _feature_gates(text: str) -> dict[str, bool]:
    from trainwright.controller.trainer.assembly.features import parse_gates  # noqa: PLC0415 - the help needs none of it

    try:
        return parse_gates(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _zap_level(text: str) -> str:
    """A level by zap's name or verbosity."""
    if text.isdigit():
        return "debug" if int(text) >= _VERBOSE else "info"
    if text == "panic":
        return "error"
    if text not in LEVELS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a level; use debug, info, error, panic or a verbosity such as 2"
        )
    return text


def _zap_encoder(text: str) -> str:
    formats = {"json": "json", "console": "text"}
    if text not in formats:
        raise argparse.ArgumentTypeError(f"{text!r} is not an encoder; use json or console")
    return formats[text]
