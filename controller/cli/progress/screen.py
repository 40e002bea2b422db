# SPDX-License-Identifier: Apache-2.0
"""Views on a terminal, drawn by rich, which the extra `progress` brings: imported only where it is installed."""

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from trainwright.controller.views import text
from trainwright.controller.views.job import JobView, JobViews
from trainwright.plugins.contract import JobState

_STYLES = {
    JobState.RUNNING: "green",
    JobState.FAILED: "red",
    JobState.BLOCKED: "red",
    JobState.STUCK: "red",
    JobState.STALLED: "yellow",
    JobState.RESTARTING: "yellow",
    JobState.WAITING: "yellow",
    JobState.PENDING: "yellow",
}
_AROUND = 4
"""Lines beside those of the jobs: head, two notes, prompt."""
_GAP = 2
_NAME = 24
"""So many characters of a name matter more than curves and bars."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The widths of the columns that vary, in characters; 0: left out."""

    name: int
    bar: int
    spark: int
    reported: bool
    loss: bool
    attempt: bool
    """Whether one of the jobs makes another attempt than its first."""


def layout(views: Sequence[JobView], width: int, *, namespaces: bool) -> Layout:
    """What fits the width. Names keep their first letters; curves, bars, loss and age go first, in this order."""
    longest = max((len(view.name) for view in views), default=0)
    state = max((len(text.state(view)) for view in views), default=0)
    attempt = any((view.attempt or 1) > 1 for view in views)
    fixed = max(len("STATE"), state) + len("100%") + len("12h34m") + 3 * _GAP
    if attempt:
        fixed += len("ATTEMPT") + _GAP
    if namespaces:
        fixed += max((len(view.namespace) for view in views), default=0) + _GAP
    wanted = min(max(longest, len("JOB")), _NAME)
    for bar, spark, reported, loss in (
        (20, 16, True, True),
        (10, 8, True, True),
        (10, 0, True, True),
        (0, 0, True, True),
        (0, 0, True, False),
    ):
        more = (bar and bar + 1) + (spark and spark + _GAP) + (len("59m ago") + _GAP if reported else 0)
        room = width - fixed - more - (len("0.0001234") + _GAP if loss else 0)
        if room >= wanted:
            return Layout(min(room, longest or len("JOB")), bar, spark, reported, loss, attempt)
    return Layout(max(8, width - fixed), 0, 0, reported=False, loss=False, attempt=attempt)


def overview(picture: JobViews, console: Console, *, namespaces: bool) -> RenderableType:
    """The table of all jobs, as far as it fits the terminal."""
    views, searches = picture.views, text.searches(picture)
    room = max(1, console.height - _AROUND - len(searches))
    shown = views[:room]
    fits = layout(shown, console.width, namespaces=namespaces)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    heads = [*(["NAMESPACE"] if namespaces else []), "JOB", "STATE", "PROGRESS" if fits.bar else "DONE", "ETA"]
    heads += ["ATTEMPT"] if fits.attempt else []
    heads += [*(["REPORTED"] if fits.reported else []), *(["LOSS"] if fits.loss else [])]
    heads += [""] if fits.spark else []
    for head in heads:
        table.add_column(head, overflow="ellipsis", no_wrap=True)
    for view in shown:
        # Text, not str: rich reads square brackets in a str as markup.
        table.add_row(*(Text(cell, style) for cell, style in _cells(view, fits, console, namespaces=namespaces)))
    hidden = len(views) - room
    notes = [*searches, f"{hidden} more jobs do not fit; name a namespace or a job" if hidden > 0 else ""]
    notes.append(picture.trouble)
    if not views:
        notes.insert(0, "no TrainJobs")
    return Group(table, *(Text(text.printable(one), "italic") for one in notes if one))


def _style(view: JobView) -> str:
    return _STYLES.get(view.state, "")


def _cells(view: JobView, fits: Layout, console: Console, *, namespaces: bool) -> list[tuple[str, str]]:
    ascii_only, style = console.options.ascii_only, _style(view)
    name = text.printable(view.name)
    cut = "~" if ascii_only else "…"
    cells = [(view.namespace, "")] if namespaces else []
    cells.append((name if len(name) <= fits.name else name[: fits.name - 1] + cut, ""))
    cells.append((text.state(view), style))
    drawn = f"{text.bar(view, fits.bar, ascii_only=ascii_only)} " if fits.bar else ""
    cells.append((f"{drawn}{text.percent(view):>4}", style))
    cells.append((text.remaining(view), "yellow" if view.remaining is not None and view.remaining.late else ""))
    if fits.attempt:
        cells.append((text.attempt(view), ""))
    if fits.reported:
        cells.append((text.reported(view), ""))
    if fits.loss:
        cells.append((text.loss(view), ""))
    if fits.spark:
        curve = view.history.curve(view.loss) if view.loss is not None else ()
        cells.append((text.sparkline(curve, width=fits.spark, ascii_only=ascii_only), style))
    return cells


def one_job(view: JobView, console: Console, now: datetime, *, note: str = "") -> RenderableType:
    width = max(8, min(40, console.width - 60))
    rows = text.details(view, now, ascii_only=console.options.ascii_only, width=width)
    room = max(4, console.height - _AROUND)
    names = min(max(text.cells(name) for name, _ in rows[:room]), max(8, console.width // 3))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column(style="bold", overflow="ellipsis", no_wrap=True, width=names)
    table.add_column(overflow="ellipsis", no_wrap=True, max_width=max(8, console.width - names - _GAP))
    for name, shown in rows[:room]:
        table.add_row(Text(name), Text(shown, _style(view) if name in {"state", "progress"} else ""))
    hidden = len(rows) - room
    notes = [f"{hidden} more metrics do not fit" if hidden > 0 else "", note]
    title = Text(text.printable(f"{view.namespace}/{view.name}"), "bold")
    return Group(title, table, *(Text(text.printable(one), "italic") for one in notes if one))


class Screen:
    """A part of the terminal that is drawn again and again. Leaving it shows the cursor and keeps the last drawing.

    It is entered inside a running event loop, in the main thread.
    """

    def __init__(self) -> None:
        self.console = Console()
        self._live = self._begun("")

    def _begun(self, what: RenderableType) -> Live:
        return Live(what, console=self.console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.start()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTSTP, self._pause)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTSTP)
        self._live.stop()

    def draw(self, what: RenderableType) -> None:
        self._live.update(what, refresh=True)

    def draw_lines(self, lines: Sequence[str]) -> None:
        """Draw lines of text, cut at the edge; the first one is bold."""
        self.draw(Group(*(Text(line, "" if at else "bold", no_wrap=True) for at, line in enumerate(lines))))

    def _pause(self) -> None:
        """Ctrl-Z: the shell needs its cursor. After `fg` the picture is drawn below what the shell wrote."""
        self._live.stop()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._live = self._begun(self._live.get_renderable())
        self._live.start(refresh=True)


def is_steerable() -> bool:
    """Whether standard output is a terminal that can move its cursor."""
    console = Console()
    return console.is_terminal and not console.is_dumb_terminal


@dataclass(slots=True)
class TerminalDisplay:
    """A table, or all about one job, drawn in place."""

    namespaces: bool
    one: bool
    ages: bool = True
    _screen: Screen | None = None

    def begin(self) -> Screen:
        """Hide the cursor; leaving it shows it again."""
        self._screen = Screen()
        return self._screen

    def once(self, picture: JobViews) -> None:
        console = Screen().console
        console.print(self._drawn(picture, console))

    def show(self, picture: JobViews) -> None:
        assert self._screen is not None
        self._screen.draw(self._drawn(picture, self._screen.console))

    def _drawn(self, picture: JobViews, console: Console) -> RenderableType:
        if self.one and picture.views:
            return one_job(picture.views[0], console, picture.now, note=picture.trouble)
        return overview(picture, console, namespaces=self.namespaces)
