# SPDX-License-Identifier: Apache-2.0
"""Fails a test that executed no assertion: one that loops over nothing or asserts a constant would pass forever.

What counts: an `assert` that passed, in a test or in a module of `tests/`, `pytest.raises`, `pytest.warns`, the waits
of the test kit, and what is `counted`. Code that only must not raise is in a block `with does_not_raise():`.
"""

import ast
import contextlib
import functools
import linecache
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite

from trainwright.controller.runtime.testing import waiting

# pytest caches what it rewrote under a name that does not depend on `enable_assertion_pass_hook`.
rewrite.PYC_TAIL = f"-passed{rewrite.PYC_TAIL}"
_OURS = {f"tests.{path.stem}" for path in Path(__file__).parent.iterdir()}
pytest.register_assert_rewrite(*(_OURS - sys.modules.keys()))  # this module is one, as are plugins that -p names

_executed = True  # outside of tests, where fixtures assert, nothing is asked


def _note() -> None:
    global _executed  # noqa: PLW0603
    _executed = True


@contextlib.contextmanager
def does_not_raise() -> Iterator[None]:
    """The assertion of a test that has no other: this block does not raise."""
    yield
    _note()


def counted(check: Callable[..., Any]) -> Callable[..., Any]:
    """The check, whose calls count as assertions: if it does not hold, it fails the test."""

    @functools.wraps(check)
    def call(*args: Any, **options: Any) -> Any:
        _note()
        return check(*args, **options)

    return call


for _module, _names in ((pytest, ("raises", "warns")), (waiting, ("eventually", "eventually_sync"))):
    for _name in _names:
        setattr(_module, _name, counted(getattr(_module, _name)))


def _passed() -> bool:
    """Called where an assertion has passed, which counts unless it is that of a constant.

    False: no hook is called. It would cost the text of all values, and `locals()` on the way keeps them alive.
    """
    if not _executed:
        frame = sys._getframe(1)
        try:
            ast.literal_eval(
                linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip().removeprefix("assert ")
            )
        except (ValueError, SyntaxError):
            _note()
    return False


rewrite._check_if_assertion_pass_impl = _passed


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Fail a test that has ended without an assertion."""
    global _executed  # noqa: PLW0603
    _executed = False
    try:
        result = yield
        if not _executed:
            pytest.fail("the test executed no assertion: see tests/assertions.py", pytrace=False)
    finally:
        _executed = True
    return result
