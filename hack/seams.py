# SPDX-License-Identifier: Apache-2.0
"""Code that runs in a simulated world takes time, chance, threads and sockets through seams, or is listed here.

A source outside the seams makes two runs of a seed differ. Most come from `trainwright.api.surroundings`. The look at
the source finds what was imported by name, too; the guard of the simulation sees what is called in a world.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.repository import ROOT

# What can be in a world. Nodes, commands and test kits cannot.
FOLDERS = (
    *("api", "plugins", "controller/runtime", "controller/trainer"),
    *("controller/local/apiserver", "controller/local/controllers", "controller/local/cluster.py"),
    *("controller/local/credentials.py", "controller/local/reviews.py"),
)
NOT_IN_A_WORLD = ("controller/runtime/testing", "controller/trainer/why/site")
CLOCKS = frozenset({"time", "monotonic", "perf_counter", "process_time", "thread_time", "localtime", "gmtime"})
SOURCES = (
    *(f"time.{name}{suffix}" for name in (*CLOCKS, "sleep") for suffix in ("", "_ns")),
    *(f"datetime.{kind}.{name}" for kind in ("datetime", "date") for name in ("now", "utcnow", "today")),
    *("random.", "secrets.", "uuid.uuid1", "uuid.uuid4", "os.urandom", "os.getpid", "threading.", "socket."),
    # Not `asyncio.to_thread`: the loop of a world does such work at once.
    *("concurrent.futures.ThreadPoolExecutor", "concurrent.futures.ProcessPoolExecutor"),
    *("subprocess.", "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell", "multiprocessing."),
    *("asyncio.open_connection", "asyncio.start_server", "asyncio.open_unix_connection"),
)
# Types and constants, and generators that get a seed.
HARMLESS = frozenset({"random.Random", "threading.Event", "socket.AF_INET", "socket.AF_INET6", "socket.AF_UNSPEC"})

# What each file may take, and why two runs of a seed do not differ for it.
ALLOWED: dict[str, tuple[frozenset[str], str]] = {
    "api/surroundings.py": (
        frozenset(
            {"datetime.datetime.now", "socket.gethostname", "time.perf_counter", "time.time_ns", "uuid.uuid4"},
        ),
        "the seam itself",
    ),
    "controller/local/apiserver/store/store.py": (
        frozenset({"concurrent.futures.ThreadPoolExecutor", "time.time"}),
        "a world's store has no file; its time is a parameter",
    ),
    "controller/local/credentials.py": (frozenset({"secrets.token_hex"}), "a secret"),
    "controller/runtime/client/connections.py": (
        frozenset({"socket.IPPROTO_TCP", "socket.SOCK_STREAM"}),
        "a world has a transport of its own",
    ),
    "controller/runtime/client/external.py": (
        frozenset({"threading.Thread", "time.time"}),
        "a program for credentials, which a world does not start",
    ),
    "controller/runtime/controller/controller.py": (frozenset({"os.urandom"}), "ids of reconciles, in logs only"),
    "controller/runtime/lag.py": (
        frozenset({"threading.Thread", "threading.get_ident", "time.monotonic"}),
        "it measures the real loop, and is off in a world",
    ),
    "controller/runtime/leaderelection/elector.py": (
        frozenset({"threading.Thread"}),
        "a world's candidates are in its loop",
    ),
    "controller/runtime/leaderelection/fence.py": (frozenset({"time.monotonic"}), "a world gives it a clock"),
    "controller/runtime/webhook/reach.py": (
        frozenset({"asyncio.open_connection"}),
        "a world calls webhooks in the process",
    ),
    "controller/runtime/webhook/server.py": (frozenset({"time.perf_counter"}), "metrics of a server on a socket"),
    "controller/trainer/job/events.py": (
        frozenset({"threading.Thread"}),
        "for listeners of other plugins, which may hang",
    ),
    "plugins/registry/calling.py": (
        frozenset({"threading.current_thread", "threading.main_thread"}),
        "ends calls of other plugins that do not return; a world has built-in ones",
    ),
}


def seams() -> Iterator[str]:
    """What files take and are not allowed to, or are and do not."""
    found = {name: taken for name, path in _sources() if (taken := set(uses(path.read_text(encoding="utf-8"))))}
    for name in sorted(found.keys() | ALLOWED.keys()):
        taken, allowed = found.get(name, set()), set(ALLOWED[name][0]) if name in ALLOWED else set()
        if new := taken - allowed:
            yield f"{name} takes {sorted(new)}: ask trainwright.api.surroundings"
        if old := allowed - taken:
            yield f"hack/seams.py: {name} takes {sorted(old)} no more, so delete it from the list"


def _sources() -> Iterator[tuple[str, Path]]:
    for folder in FOLDERS:
        path = ROOT / folder
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            name = file.relative_to(ROOT).as_posix()
            if not name.startswith(NOT_IN_A_WORLD):
                yield name, file


def uses(text: str) -> Iterator[str]:
    """What a module takes from outside, by its whole name. A name that is called or kept counts, an import does not."""
    tree = ast.parse(text)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                names[one.asname or one.name.partition(".")[0]] = one.name if one.asname else one.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update({one.asname or one.name: f"{node.module}.{one.name}" for one in node.names})
    annotations = {
        id(inner)
        for node in ast.walk(tree)
        for note in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if note is not None
        for inner in ast.walk(note)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and id(node) not in annotations:
            whole = _whole(node, names)
            if whole not in HARMLESS and any(
                whole.startswith(one) and whole != one if one.endswith(".") else whole == one for one in SOURCES
            ):
                yield whole
        elif isinstance(node, ast.Call) and _whole(node.func, names) == "random.Random" and not node.args:
            yield "random.Random without a seed"


def _whole(node: ast.expr, names: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute) and (before := _whole(node.value, names)):
        return f"{before}.{node.attr}"
    return ""
