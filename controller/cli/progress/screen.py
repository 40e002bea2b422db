# SPDX-License-Identifier: Apache-2.0
"""Views on a terminal, drawn by rich, which the extra `progress` brings."""

from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from trainwright.controller.cli.progress import text
from trainwright.controller.cli.progress.view import View
from trainwright.controller.trainer.job.state import State

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_STYLES = {State.RUNNING: "green", State.FAILED: "red", State.BLOCKED: "red", State.PENDING: "yellow"}
_AROUND = 4
"""Lines beside those of the jobs: head, rule, note, prompt."""


def is_available() -> bool:
    """Whether rich is installed, and standard output is a terminal that can move its cursor."""
    try:
        from rich.console import Console  # noqa: PLC0415 - optional
    except ImportError:
        return False
    console = Console()
    return console.is_terminal and not console.is_dumb_terminal


def overview(views: Sequence[View], console: "Console", *, namespaces: bool, note: str = "") -> "RenderableType":
    """The table of all jobs, as far as it fits the height of the terminal."""
    from rich.console import Group  # noqa: PLC0415 - optional, and 50 ms
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    ascii_only = console.options.ascii_only
    wide = console.width >= 100
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in (*(["NAMESPACE"] if namespaces else []), "JOB"):
        table.add_column(head, overflow="ellipsis", no_wrap=True, min_width=8)
    for head in ("STATE", "PROGRESS", "ETA", "REPORTED", "LOSS"):
        table.add_column(head, overflow="ellipsis", no_wrap=True)
    room = max(1, console.height - _AROUND)
    for view in views[:room]:
        drawn = text.bar(view, 20 if wide else 8, ascii_only=ascii_only)
        spark = _spark(view, 16 if wide else 6, ascii_only=ascii_only)
        style = _STYLES.get(view.state, "")
        # Text, not str: rich reads square brackets in a str as markup.
        cells = [
            *([Text(view.namespace)] if namespaces else []),
            Text(text.printable(view.name)),
            Text(text.state(view), style),
            Text.assemble((drawn, style), f" {text.percent(view):>4}"),
            Text(text.remaining(view), "yellow" if view.remaining is not None and view.remaining.late else ""),
            Text(text.reported(view)),
            Text(f"{text.loss(view)}  {spark}".rstrip()),
        ]
        table.add_row(*cells)
    hidden = len(views) - room
    notes = [f"{hidden} more jobs do not fit; name a namespace or a job" if hidden > 0 else "", note]
    if not views:
        notes.insert(0, "no TrainJobs")
    return Group(table, *(Text(text.printable(one), "italic") for one in notes if one))


def _spark(view: View, width: int, *, ascii_only: bool) -> str:
    if view.loss is None:
        return ""
    return text.sparkline(view.history.curve(view.loss), width=width, ascii_only=ascii_only)


def one_job(view: View, console: "Console", now: datetime, *, note: str = "") -> "RenderableType":
    """All about one job."""
    from rich.console import Group  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="ellipsis", no_wrap=True)
    width = max(8, min(40, console.width - 60))
    rows = text.details(view, now, ascii_only=console.options.ascii_only, width=width)
    room = max(4, console.height - _AROUND)
    for name, shown in rows[:room]:
        table.add_row(Text(name), Text(shown, _STYLES.get(view.state, "") if name in {"state", "progress"} else ""))
    hidden = len(rows) - room
    notes = [f"{hidden} more metrics do not fit" if hidden > 0 else "", note]
    title = Text(text.printable(f"{view.namespace}/{view.name}"), "bold")
    return Group(title, table, *(Text(text.printable(one), "italic") for one in notes if one))


class Screen:
    """A part of the terminal that is drawn again and again. Leaving it shows the cursor and keeps the last drawing."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415
        from rich.live import Live  # noqa: PLC0415

        self.console = Console()
        self._live = Live(console=self.console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def draw(self, what: "RenderableType") -> None:
        """Draw in place of what was drawn before."""
        self._live.update(what, refresh=True)
