# SPDX-License-Identifier: Apache-2.0
"""`pytest --leaks`: pins what a test leaves behind on that test.

What is dropped without being closed warns when it is collected: in whichever test the collector happens to run, or in
none. Here it runs after each test, and the warning says where the object was made. A process that a test has changed,
such as its environment, is seen by the tests after it: that fails, too.
"""

import gc
import logging
import os
import signal
import sys
import threading
import tracemalloc
from collections.abc import Generator, Iterator

import pytest

FRAMES = 12
"""Of the place where an object was made."""


def pytest_collection_finish() -> None:
    """Leave modules and tests alone: each collection would pass over them."""
    gc.collect()
    gc.freeze()
    tracemalloc.start(FRAMES)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """Collect before pytest asks which warnings there were."""
    try:
        return (yield)
    finally:
        gc.collect()


@pytest.fixture(autouse=True)
def leaves_the_process_as_it_was() -> Iterator[None]:
    """Fail a test that changes its process. Wider fixtures may: they exist before this one begins."""
    before = _process()
    yield
    after = _process()
    names = [name for name in before | after if before.get(name) != after.get(name)]
    changed = [f"{name} was {before.get(name)!r} and is {after.get(name)!r}" for name in names]
    if changed:
        pytest.fail(f"the test changed its process: {'; '.join(changed)}", pytrace=False)


def _process() -> dict[str, object]:
    found: dict[str, object] = {f"${name}": text for name, text in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    found |= {number.name: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)}
    threads = sorted(one.name for one in threading.enumerate() if not one.daemon)
    path = os.getcwd()  # noqa: PTH109 - as it is
    return found | {"folder": path, "threads": threads, "sys.path": [*sys.path], "log level": logging.root.level}
