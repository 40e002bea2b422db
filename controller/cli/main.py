# SPDX-License-Identifier: Apache-2.0
"""Entry point of the `trainwright` command: parses the command line and hands over to one module per sub-command.

Exit codes: 0 success, 1 the command ran and failed, 2 wrong use of the command line.
"""

import argparse
import sys
from collections.abc import Sequence

import trainwright


def build_parser() -> argparse.ArgumentParser:
    """The whole command line, for `main` and for the tests of the help texts."""
    parser = argparse.ArgumentParser(
        prog="trainwright",
        description="Distributed training on Kubernetes: the manager of TrainJobs and the tools around it.",
    )
    parser.add_argument("--version", action="version", version=f"trainwright {trainwright.__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = build_parser()
    parser.parse_args(argv)
    parser.print_help(sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
