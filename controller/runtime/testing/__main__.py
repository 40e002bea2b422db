# SPDX-License-Identifier: Apache-2.0
"""`python -m trainwright.controller.runtime.testing`: provides the programs of the test control plane."""

import argparse
import contextlib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from trainwright.controller.runtime.testing.build import ASSETS_VARIABLE, provide
from trainwright.controller.runtime.testing.tools import ON_DEMAND, TOOLS, ControlPlaneError, cache_root


def main(argv: Sequence[str] | None = None) -> int:
    """Provide the tools and print their paths; on a failure print one message and return 1."""
    parser = argparse.ArgumentParser(
        prog="python -m trainwright.controller.runtime.testing",
        description="Provide the programs of the test control plane: from a given folder, the cache, or a Go build.",
        epilog=f"The cache is {cache_root()}; delete it to build everything again.",
    )
    parser.add_argument(
        "tools",
        nargs="*",
        metavar="TOOL",
        help=f"what to provide (default: all of {', '.join(TOOLS)}); only by its name: {', '.join(ON_DEMAND)}",
    )
    parser.add_argument("--also", action="append", default=[], choices=ON_DEMAND, help="provide this one too")
    parser.add_argument("--assets", type=Path, help=f"folder of ready-made binaries (default: ${ASSETS_VARIABLE})")
    arguments = parser.parse_args(argv)
    known = (*TOOLS, *ON_DEMAND)
    unknown = [tool for tool in arguments.tools if tool not in known]
    if unknown:
        parser.error(f"unknown tool {', '.join(unknown)}; the tools are {', '.join(known)}")
    try:
        with contextlib.ExitStack() as handlers:
            # A build that is told to stop removes its unfinished files.
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                    before = signal.signal(number, lambda number, _: sys.exit(128 + number))
                    handlers.callback(signal.signal, number, before)
            found = provide([*(arguments.tools or TOOLS), *arguments.also], assets=arguments.assets)
    except ControlPlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; finished programs stay in the cache", file=sys.stderr)
        return 130
    for name, path in found.paths.items():
        print(f"{name:<24} {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
