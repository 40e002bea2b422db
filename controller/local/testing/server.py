# SPDX-License-Identifier: Apache-2.0
"""`python -m trainwright.controller.local.testing.server`: the local API server until SIGTERM."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from trainwright.controller.local.apiserver.store.disk import StateFileError
from trainwright.controller.local.cluster import api_server
from trainwright.controller.local.testing.late import late_if_wanted
from trainwright.controller.runtime import ConfigurationError


def main(argv: Sequence[str] | None = None) -> int:
    """Serve; on a failure print one message and return 1."""
    parser = argparse.ArgumentParser(prog="python -m trainwright.controller.local.testing.server")
    parser.add_argument("--folder", type=Path, required=True, help="state folder; secrets are read from `pki` in it")
    parser.add_argument("--port", type=int, required=True, help="port on 127.0.0.1")
    parser.add_argument("--request-log", type=Path, help="file for a line about each request")
    parser.add_argument("--rbac", action="store_true", help="authorize by roles and bindings")
    arguments = parser.parse_args(argv)
    late_if_wanted()
    try:
        asyncio.run(_serve(arguments.folder, arguments.port, arguments.request_log, rbac=arguments.rbac))
    except (ConfigurationError, StateFileError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


async def _serve(folder: Path, port: int, request_log: Path | None, *, rbac: bool) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with api_server(folder, port=port, rbac=rbac, request_log=request_log):
        await stopped.wait()


if __name__ == "__main__":
    raise SystemExit(main())
