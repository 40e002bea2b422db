# SPDX-License-Identifier: Apache-2.0
"""`trainwright manager`: runs the controllers until SIGTERM or SIGINT."""

import argparse
import logging
import sys
from pathlib import Path
from urllib.parse import urlsplit

USER_AGENT = "trainwright"


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
        "--webhook-url",
        type=_webhook_url,
        metavar="URL",
        help="outside of a cluster: https://HOST:PORT under which the API server reaches this process; the webhooks "
        "are registered there, and removed at the end (default: no webhooks)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the manager; returns the exit code."""
    # Loaded here: the other sub-commands need no client, and the help none of it.
    from trainwright.controller.cli.configuration import load_configuration  # noqa: PLC0415
    from trainwright.controller.runtime import load_config  # noqa: PLC0415
    from trainwright.controller.runtime import run as run_manager  # noqa: PLC0415
    from trainwright.controller.runtime.errors import ConfigurationError  # noqa: PLC0415
    from trainwright.controller.trainer.manager import make_manager  # noqa: PLC0415

    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    try:
        configuration = load_configuration(arguments.config)
        cluster = load_config(arguments.kubeconfig)
    except ConfigurationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1

    return run_manager(
        lambda: make_manager(cluster, configuration, user_agent=USER_AGENT, webhook_url=arguments.webhook_url)
    )


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
