# SPDX-License-Identifier: Apache-2.0
"""`trainwright manager`: runs the controllers until SIGTERM or SIGINT."""

import argparse
import logging
from typing import Literal

from prometheus_client import disable_created_metrics

from trainwright.controller.cli.arguments.general import ZAP_WITHOUT_EFFECT
from trainwright.controller.cli.commands import refused
from trainwright.controller.cli.configuration import load_configuration, load_settings
from trainwright.controller.runtime import ConfigurationError, configure_logging, load_config
from trainwright.controller.runtime import run as run_manager
from trainwright.controller.runtime.client.config import is_in_cluster
from trainwright.controller.trainer.assembly.manager import make_manager

USER_AGENT = "trainwright"


def run(arguments: argparse.Namespace) -> int:
    try:
        # Read first, so that a file with mistakes is named also where there is no cluster.
        load_configuration(arguments.config)
        cluster = load_config(arguments.kubeconfig)
        settings = load_settings(arguments.config, arguments.feature_gates, in_cluster=is_in_cluster(cluster))
    except ConfigurationError as error:
        return refused(str(error).splitlines())
    log = logging.getLogger(__name__)
    # Without this, the library adds a second series to each counter.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    level, style = _logging(arguments, inside=is_in_cluster(cluster))
    configure_logging(level, style)
    for flag in ZAP_WITHOUT_EFFECT:
        if getattr(arguments, flag.replace("-", "_")) is not None:
            log.info("--%s has no effect: times and tracebacks are always written", flag)
    return run_manager(
        lambda: make_manager(
            cluster, settings, user_agent=USER_AGENT, namespace=arguments.namespace, webhook_url=arguments.webhook_url
        )
    )


def _logging(arguments: argparse.Namespace, *, inside: bool) -> tuple[str, Literal["text", "json"]]:
    level, style = arguments.log_level, arguments.log_format
    if arguments.zap_devel == "true":
        level, style = "debug", "text"
    json = style == "json" or (style == "auto" and inside)
    return level.upper(), "json" if json else "text"
