# SPDX-License-Identifier: Apache-2.0
"""Notices code that reaches time, chance, threads or sockets outside the seams: it makes two runs of a seed differ.

It sees functions that are called through their modules, such as `time.time()`. What it cannot replace, such as
`datetime.now` and functions that were imported by name, a look at the source finds: tests/unit/house/test_seams.py.
"""

import os
import random
import secrets
import socket
import sys
import sysconfig
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

SOURCES: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (time, ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep")),
    (random, ("random", "uniform", "randint", "randrange", "choice", "choices", "sample", "shuffle", "getrandbits")),
    (uuid, ("uuid1", "uuid4")),
    (secrets, ("choice", "randbelow", "randbits", "token_bytes", "token_hex", "token_urlsafe")),
    (os, ("urandom", "getpid")),
    (threading.Thread, ("start",)),
    (ThreadPoolExecutor, ("submit",)),
    (socket, ("gethostname", "getfqdn", "getaddrinfo", "create_connection", "create_server")),
    (socket.socket, ("__init__",)),
)
"""What takes something from outside."""
_SEAMS = (
    "trainwright.api.surroundings",
    "trainwright.controller.local.testing.simulation.",
    "trainwright.controller.runtime.lag",  # measures the real loop, and is off in a world
)
_LIBRARIES = ("<frozen", *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))
"""Code of others, such as a log that stamps its lines."""


@contextmanager
def guarded(tell: Callable[[str], None]) -> Iterator[None]:
    """Tell of each place that calls one of SOURCES, once, for the length of the block.

    Places in this package and in the operator count, and those in libraries do not.

    Args:
        tell: takes a sentence.
    """
    known: set[tuple[str, int]] = set()

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - who calls
            module: str = frame.f_globals.get("__name__", "")
            place = (frame.f_code.co_filename, frame.f_lineno)
            counts = module.startswith("trainwright.") or not place[0].startswith(_LIBRARIES)
            if counts and not module.startswith(_SEAMS) and place not in known:
                known.add(place)
                tell(f"{place[0]}:{place[1]} calls {name}; take it from trainwright.api.surroundings")
            return function(*args, **kwargs)

        return call

    with ExitStack() as stack:
        for owner, names in SOURCES:
            for name in names:
                whole = f"{getattr(owner, '__module__', None) or owner.__name__}.{name}"
                stack.enter_context(mock.patch.object(owner, name, watched(whole, getattr(owner, name))))
        yield
