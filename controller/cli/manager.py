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
"""From this verbosity on the original logs each reconcile, which is `debug` here."""
_ZAP_WITHOUT_EFFECT = ("zap-stacktrace-level", "zap-time-encoding")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the sub-command."""
    parser = subparsers.add_parser(
        "manager",
        help="run the TrainJob controller",
        description="Run the TrainJob controller until SIGTERM or SIGINT. Exit code 0 after an orderly end, 1 after a "
        "failure, 2 for wrong use.",
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        help="kubeconfig of the cluster (default: $KUBECONFIG, the cluster that this runs in, or ~/.kube/config)",
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="Configuration file (kind Configuration); defaults without it"
    )
    parser.add_argument(
        "--feature-gates",
        type=_feature_gates,
        default={},
        metavar="NAME=BOOL,…",
        help="features to turn on or off; these go before those of the Configuration",
    )
    parser.add_argument(
        "--namespace", default="", help="look after the TrainJobs of this namespace only (default: of all)"
    )
    parser.add_argument(
        "--webhook-url",
        type=_webhook_url,
        metavar="URL",
        help="outside of a cluster: https://HOST:PORT under which the API server reaches this process; the webhooks "
        "are registered there, and removed at the end (default: no webhooks)",
    )
    parser.add_argument(
        "--log-level", choices=LEVELS, default="info", help="least level that is logged (default: %(default)s)"
    )
    parser.add_argument(
        "--log-format", choices=FORMATS, default="auto", help="auto is json in a cluster and text elsewhere"
    )
    _add_original_flags(parser)
    parser.set_defaults(run=run)


def _add_original_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that installations of the original pass: understood, not advertised."""
    parser.add_argument("--zap-log-level", type=_zap_level, dest="log_level", help=argparse.SUPPRESS)
    parser.add_argument("--zap-encoder", type=_zap_encoder, dest="log_format", help=argparse.SUPPRESS)
    parser.add_argument("--zap-devel", nargs="?", const="true", help=argparse.SUPPRESS)
    for flag in _ZAP_WITHOUT_EFFECT:
        parser.add_argument(f"--{flag}", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Run the manager; returns the exit code."""
    # Loaded here: the other sub-commands need no client, and the help none of it.
    from trainwright.controller.runtime.manager import collector  # noqa: PLC0415

    collector.tune()  # before the rest: a sixth of what loading it takes was the garbage collector's
    from prometheus_client import disable_created_metrics  # noqa: PLC0415

    from trainwright.controller.cli.configuration import load_effective  # noqa: PLC0415
    from trainwright.controller.runtime import load_config  # noqa: PLC0415
    from trainwright.controller.runtime import run as run_manager  # noqa: PLC0415
    from trainwright.controller.runtime.client.config import is_inside  # noqa: PLC0415
    from trainwright.controller.runtime.errors import ConfigurationError  # noqa: PLC0415
    from trainwright.controller.runtime.manager import logs  # noqa: PLC0415
    from trainwright.controller.trainer.manager import make_manager  # noqa: PLC0415

    try:
        configuration = load_effective(arguments.config, arguments.feature_gates)
        cluster = load_config(arguments.kubeconfig)
    except ConfigurationError as error:
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        return 1
    log = logging.getLogger(__name__)
    # A second series for each counter, which only this library has.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    level, style = _logging(arguments, inside=is_inside(cluster))
    logs.configure(level, style)
    for flag in _ZAP_WITHOUT_EFFECT:
        if getattr(arguments, flag.replace("-", "_")) is not None:
            log.info("--%s has no effect: times and tracebacks are always written", flag)
    return run_manager(
        lambda: make_manager(
            cluster,
            configuration,
            user_agent=USER_AGENT,
            namespace=arguments.namespace,
            webhook_url=arguments.webhook_url,
        )
    )


def _logging(arguments: argparse.Namespace, *, inside: bool) -> tuple[str, Literal["text", "json"]]:
    """Level and format."""
    level, style = arguments.log_level, arguments.log_format
    if arguments.zap_devel == "true":
        level, style = "debug", "text"
    json = style == "json" or (style == "auto" and inside)
    return level.upper(), "json" if json else "text"


def _webhook_url(text: str) -> str:
    """An https URL of a host and a port, and nothing behind them."""
    url = urlsplit(text)
    try:
        complete = url.scheme == "https" and url.hostname and url.port and url.path in {"", "/"}
    except ValueError:  # a port that is no number
        complete = False
    if not complete:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form https://HOST:PORT")
    return text.rstrip("/")


def _feature_gates(text: str) -> dict[str, bool]:
    from trainwright.controller.trainer.features import parse_gates  # noqa: PLC0415 - the help needs none of it

    try:
        return parse_gates(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _zap_level(text: str) -> str:
    """A name or a verbosity, as zap has them."""
    if text.isdigit():
        return "debug" if int(text) >= _VERBOSE else "info"
    if text == "panic":
        return "error"
    if text not in LEVELS:
        raise argparse.ArgumentTypeError(f"{text!r} is no level: debug, info, error, panic or a verbosity are")
    return text


def _zap_encoder(text: str) -> str:
    formats = {"json": "json", "console": "text"}
    if text not in formats:
        raise argparse.ArgumentTypeError(f"{text!r} is no encoder: json and console are")
    return formats[text]
