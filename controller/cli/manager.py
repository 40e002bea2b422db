# SPDX-License-Identifier: Apache-2.0
"""`trainwright manager`: runs the controllers until SIGTERM or SIGINT."""

import argparse
import asyncio
import logging
from pathlib import Path
from typing import Literal, NamedTuple

from prometheus_client import disable_created_metrics

from trainwright.api.config.v1alpha1 import Configuration, Logging
from trainwright.controller.cli.arguments.general import ZAP_WITHOUT_EFFECT
from trainwright.controller.cli.commands import refused
from trainwright.controller.cli.configuration import load_configuration, load_settings
from trainwright.controller.runtime import ConfigurationError, Manager, configure_logging, load_config
from trainwright.controller.runtime import run as run_manager
from trainwright.controller.runtime.client.config import is_in_cluster
from trainwright.controller.runtime.manager.logs import change_logging
from trainwright.controller.runtime.manager.supervisor import Group
from trainwright.controller.trainer.assembly.manager import make_manager

USER_AGENT = "trainwright"
SECONDS = 10.0
"""Between two looks at the Configuration. A kubelet brings a change of a ConfigMap within about a minute."""


def run(arguments: argparse.Namespace) -> int:
    try:
        # Read first, so that a file with mistakes is named also where there is no cluster.
        configuration = load_configuration(arguments.config)
        cluster = load_config(arguments.kubeconfig)
        settings = load_settings(arguments.config, arguments.feature_gates, in_cluster=is_in_cluster(cluster))
    except ConfigurationError as error:
        return refused(str(error).splitlines())
    log = logging.getLogger(__name__)
    # Without this, the library adds a second series to each counter.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    flags = LogFlags(*_flags(arguments), inside=is_in_cluster(cluster))
    configure_logging(*flags.resolved(configuration))
    for flag in ZAP_WITHOUT_EFFECT:
        if getattr(arguments, flag.replace("-", "_")) is not None:
            log.info("--%s has no effect: times and tracebacks are always written", flag)

    async def make() -> Manager:
        manager = await make_manager(
            cluster, settings, user_agent=USER_AGENT, namespace=arguments.namespace, webhook_url=arguments.webhook_url
        )
        if arguments.config is not None:
            manager.add(ConfigurationFollower(arguments.config, flags, configuration), Group.OTHERS, "configuration")
        return manager

    return run_manager(make)


def _flags(arguments: argparse.Namespace) -> tuple[str | None, str | None]:
    """The level and the format that the command line asks for."""
    return ("debug", "text") if arguments.zap_devel == "true" else (arguments.log_level, arguments.log_format)


class LogFlags(NamedTuple):
    """How to log, as far as the command line says, which takes precedence over the Configuration."""

    level: str | None
    format: str | None
    inside: bool
    """Whether the process is a pod of the cluster."""

    def resolved(self, configuration: Configuration) -> tuple[str, Literal["text", "json"]]:
        """Level and format of the log."""
        section = configuration.logging or Logging()
        level, style = self.level or section.level or "info", self.format or section.format or "auto"
        return level.upper(), "json" if style == "json" or (style == "auto" and self.inside) else "text"


class ConfigurationFollower:
    """Takes the section `logging` of the file again when it changes. All else needs a restart, and the log says so."""

    def __init__(self, file: Path, flags: LogFlags, read: Configuration, every: float = SECONDS) -> None:
        self._file = file
        self._flags = flags
        self._read = read
        self._every = every
        self._version = self._looked()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            if (version := self._looked()) != self._version:
                self._version = version
                self._take()

    def _looked(self) -> tuple[int, int] | None:
        """What differs after a change, also where the file is a link to that of the new version, as in a volume."""
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def _take(self) -> None:
        log = logging.getLogger(__name__)
        try:
            found = load_configuration(self._file)
        except ConfigurationError as error:
            log.warning("the Configuration has changed and cannot be used; the one before stays: %s", error)
            return
        before, self._read.logging = self._read.logging, found.logging
        if found != self._read:
            log.warning("the Configuration has changed; what is not in its section logging needs a restart")
        if found.logging != before:
            log.warning("the section logging of the Configuration has changed and takes effect")
            change_logging(*self._flags.resolved(found))
