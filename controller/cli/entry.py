# SPDX-License-Identifier: Apache-2.0
"""Entry point of the installed command."""

from trainwright.controller.cli import early


def main() -> int:
    early.begin()
    from trainwright.controller.cli.main import main as run  # noqa: PLC0415 - after the signals are taken

    return run()
