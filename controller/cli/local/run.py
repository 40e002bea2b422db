# SPDX-License-Identifier: Apache-2.0
"""`trainwright local run`: what its arguments ask for. `running` does it."""

import argparse
import asyncio
import os
import platform
import sys

from trainwright.api import extras
from trainwright.api.errors import UserError
from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.cli.local.options import disk_errors, options_of


def run(arguments: argparse.Namespace) -> int:
    options = options_of(arguments)
    if arguments.queue is not None:
        arguments.detach = True
        if arguments.retries is None and arguments.restarts == "none":
            arguments.retries = 0  # else one that fails holds its place for minutes
    if arguments.stall_stop and (arguments.detach or arguments.stall_after is None):
        why = "--detach" if arguments.detach else "--stall-after=never"
        raise WrongUseError(f"--stall-stop does not go with {why}: the command watches the job for it")
    if arguments.retries is not None and arguments.restarts != "none":
        raise WrongUseError("--retries does not go with --restarts=as-cluster: all ranks restart together")

    def say(line: str) -> None:
        print(f"| {line}", file=sys.stderr if arguments.dry_run else sys.stdout, flush=True)

    with disk_errors(options):
        check_system()
        # Imported here: they need Linux.
        from trainwright.controller.cli.local import environments, scripts, submission  # noqa: PLC0415
        from trainwright.controller.runtime import ConfigurationError  # noqa: PLC0415

        documents = scripts.documents_of(arguments)
        if arguments.file is None:
            arguments.environment = environments.chosen(arguments, os.environ, say)
        try:
            if arguments.dry_run:
                scripts.show(asyncio.run(submission.prepared(options, documents, arguments)))
                return 0
            return asyncio.run(submission.run(options, documents, arguments))
        except submission.LOST as error:
            if isinstance(error, ConfigurationError):
                raise
            # It was not refused: the cluster was lost.
            print(f"error: {error}", file=sys.stderr)
            return 1


def check_system() -> None:
    """Raises UserError on other systems, which hack/run.py says before it installs anything, and without the extra."""
    if (system := platform.system()) != "Linux":
        raise UserError(
            f"a local cluster runs on Linux only, and this is {'macOS' if system == 'Darwin' else system}: "
            "use a machine or a virtual machine with Linux, such as WSL"
        )
    extras.require("local", "a local cluster")
