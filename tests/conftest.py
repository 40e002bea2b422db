# SPDX-License-Identifier: Apache-2.0
"""The ladder: what each step of the tests may use, and what none may leave behind.

- `tests/unit`: pure code; no control plane, no network beyond a loopback socket of its own, seconds in all.
- `tests/integration`: an API server (`control_plane`, `namespace`), or processes of its own.
- `tests/e2e`: the whole chain (`chain`, `cluster`), or whole commands as a user would give them.
- `tests/node`: a real kubelet with real containers (`node`); run by `make test CLUSTER=node`.
- `tests/bench`: prints figures, asserts none; run by `make bench`, never by `make test`.

The step of a test is marked from its folder (`-m integration` selects one), and from what it uses whether it runs on a
control plane, local or compiled: see `rungs.py`. Use the lowest step on which the test can
fail for the right reason.
"""

import asyncio
import functools
import gc
import inspect
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import assertions, rungs, skips
from tests.jobset_definition import _jobset_definition as _jobset_definition  # noqa: PLC0414 - fixtures of this file
from tests.jobset_definition import with_jobsets as with_jobsets  # noqa: PLC0414
from tests.jobset_definition import without_jobsets as without_jobsets  # noqa: PLC0414
from tests.rungs import jobset_crd as jobset_crd  # noqa: PLC0414
from tests.rungs import local_jobset_crd as local_jobset_crd  # noqa: PLC0414
from tests.rungs import new_control_plane as new_control_plane  # noqa: PLC0414

TESTS = Path(__file__).parent
# No time limits: they would fail on a busy machine. In CI every change is tested with the same examples; elsewhere
# Hypothesis looks for new ones.
_UNTIMED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", derandomize=True, **_UNTIMED)
settings.register_profile("local", **_UNTIMED)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# API servers take two fifths of the CPU time of a run. Where they collect their garbage less often, starting one takes
# a sixth less.
os.environ.setdefault("GOGC", "400")

STEPS = ("unit", "simulation", "integration", "e2e", "node")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers of the ladder."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell without job control starts what runs in the background so, and what the tests start would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # What is collected stays to the end. The collector would look at it again and again, a sixth of a run's CPU time.
    gc.disable()
    for step in STEPS:
        config.addinivalue_line("markers", f"{step}: set from the folder tests/{step}")
    config.pluginmanager.register(assertions)
    skips.register(config)
    rungs.register(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with its step; a test outside of the ladder is an error. Nothing is skipped: see `skips.py`."""
    for item in items:
        if _step(item) not in STEPS:
            raise pytest.UsageError(f"{item.path} is not on the ladder: tests live in {', '.join(STEPS)}")
        item.add_marker(_step(item))
        rungs.mark(item)
    if "PYTEST_XDIST_WORKER" in os.environ:
        # The long ones first, so that no worker is left with one of them when the others have nothing more to do: files
        # with a test that may take longer than usual, then simulated worlds, of which one file takes minutes of CPU
        # time, then the steps from the top.
        longest: dict[Path, float] = {}
        for item in items:
            longest[item.path] = max(longest.get(item.path, 0.0), _time_limit(item))

        def length(item: pytest.Item) -> tuple[float, bool, int]:
            step = _step(item)
            return longest[item.path], step == "simulation", STEPS.index(step)

        items.sort(key=length, reverse=True)


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over modules and collected tests from now on."""
    gc.freeze()
    gc.enable()


def _time_limit(item: pytest.Item) -> float:
    """How long the test may take, in seconds, if that is not the usual time."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker is not None and marker.args else 0.0


def _step(item: pytest.Item) -> str:
    return _step_of(item.path)


@functools.cache
def _step_of(path: Path) -> str:
    return path.relative_to(TESTS).parts[0]


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaks a task, a socket or a process.

    What wider fixtures own exists before this one begins, and does not count. Sockets and processes are seen through
    /proc, so on other systems only tasks are.
    """
    if inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
        request.getfixturevalue("leaves_no_task")
    # pytest-asyncio makes the loop of a module as late as its first test needs it: it is no socket of that test.
    for name in request.node.fixturenames:
        if name.endswith("_scoped_runner") and not name.startswith("_function"):
            request.getfixturevalue(name)
    sockets, children = _sockets(), _children()
    yield
    left = _sockets() - sockets
    if left:
        # Dropped, not leaked: what nothing refers to any more is closed when it is collected.
        gc.collect()
        left &= _sockets()
    leaked = [f"socket {name}" for name in sorted(left)]
    leaked += [f"process {command}" for pid in _children() - children if (command := _command(pid))]
    if leaked:
        pytest.fail(f"the test left behind: {', '.join(leaked)}", pytrace=False)


@pytest.fixture
async def leaves_no_task() -> AsyncIterator[None]:
    """Fail an async test that ends while a task that it started still runs."""
    before = asyncio.all_tasks()
    yield
    # Tasks that are cancelled already get one turn of the loop to end.
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    leaked = [task.get_name() for task in left if not task.done()]
    if leaked:
        pytest.fail(f"the test left tasks running: {', '.join(sorted(leaked))}", pytrace=False)


# Both run around each of thousands of tests, so they make no paths.


def _sockets() -> set[str]:
    found = set[str]()
    for descriptor in _names("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
        except FileNotFoundError:
            continue  # the descriptor of this very listing
        if target.startswith("socket:"):
            found.add(target)
    return found


def _children() -> set[int]:
    found = set[int]()
    for thread in _names("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/children", encoding="ascii") as listing:  # noqa: PTH123
                found.update(map(int, listing.read().split()))
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread that ended meanwhile
    return found


def _names(folder: str) -> list[str]:
    """What is in a folder of /proc; nothing on other systems."""
    try:
        return os.listdir(folder)  # noqa: PTH208
    except FileNotFoundError:
        return []


def _command(pid: int) -> str:
    """What a child runs, for a message; empty if it has ended meanwhile."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except FileNotFoundError:
        return ""
    return f"{pid} ({command.strip() or 'no command line yet, or none any more'})"
