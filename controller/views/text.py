# SPDX-License-Identifier: Apache-2.0
"""Views as text: bars, durations, sparklines, and the lines for where there is no terminal.

Nothing is told by colour alone. Names and values come from training code: what could steer a terminal is replaced.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from unicodedata import combining, east_asian_width

from trainwright.api.messages import counted
from trainwright.api.objects import Key
from trainwright.controller.trainer.progress.curve import COUNTERS
from trainwright.controller.views.job import JobView, JobViews, means_of

NONE = "-"
AT_END = "the rank that reports is done"
"""Instead of 100 % and a time to go while the job runs on."""
_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = "_.-~=+*#"
SPARK = 24
"""Characters of a sparkline."""


def printable(text: str) -> str:
    """The text without control characters, which could steer a terminal."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def cells(text: str) -> int:
    """The width of the text on a terminal: characters of East Asian scripts take two places, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def filled(text: str, width: int) -> str:
    return text + " " * (width - cells(text))


def duration(seconds: float) -> str:
    """Two units at most: `42s`, `13m`, `1h05m`, `2d03h`."""
    whole = int(seconds)
    if whole < 100:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 60:
        return f"{minutes}m"
    if minutes < 24 * 60:
        return f"{minutes // 60}h{minutes % 60:02}m"
    return f"{minutes // (24 * 60)}d{minutes // 60 % 24:02}h"


def percent(view: JobView) -> str:
    return f"{view.percentage}%" if view.percentage is not None else NONE


def bar(view: JobView, width: int, *, ascii_only: bool = False) -> str:
    if view.percentage is None:
        return " " * width
    done = view.percentage * width // 100
    full, rest = ("#", "-") if ascii_only else ("█", "░")
    return full * done + rest * (width - done)


def state(view: JobView) -> str:
    """The state, and its reason if that says more."""
    says_enough = view.is_over or view.state == "Suspended" or not view.reason
    return str(view.state) if says_enough else f"{view.state} ({printable(view.reason)})"


def attempt(view: JobView) -> str:
    """The number of the present attempt, or of the last one."""
    return str(view.attempt) if view.attempt is not None else NONE


def why(view: JobView) -> str:
    """What is wrong, without the advice: the exception of a job that failed, and which rank; else the begin of the
    sentence that `trainwright explain` gives. Empty: nothing.
    """
    if view.failure:
        said, how = view.failure
        return printable(f"{said} ({how})" if how else said)
    return "" if view.state in ("Complete", "Suspended") else printable(view.message.partition("; ")[0])


def remaining(view: JobView) -> str:
    """The time to go; `~` if it comes from the slope of the percentage."""
    left = view.remaining
    if left is None:
        return NONE
    if left.late:
        return "late"
    if left.seconds < 1:
        return "soon"
    return ("" if left.reported else "~") + duration(left.seconds)


def reported(view: JobView) -> str:
    return f"{duration(view.age)} ago" if view.age is not None else NONE


def loss(view: JobView) -> str:
    return number(view.metrics[view.loss]) if view.loss is not None else NONE


def number(text: str) -> str:
    """A number with four digits; other text as it is."""
    try:
        value = float(text)
    except ValueError:
        return printable(text)
    return text if text.lstrip("-").isdigit() else f"{value:.4g}"


def sparkline(values: Sequence[float], *, width: int = SPARK, ascii_only: bool = False) -> str:
    """The course of the values; empty for fewer than two. Each character is the mean of its part."""
    if len(values) < 2:
        return ""
    means = means_of(values, width)
    blocks = _ASCII_BLOCKS if ascii_only else _BLOCKS
    low, high = min(means), max(means)
    # Halves, since the difference of two large numbers may not be finite.
    span = high / 2 - low / 2
    places = [0.0 if not span else (mean / 2 - low / 2) / span for mean in means]
    return "".join(blocks[min(len(blocks) - 1, int(place * len(blocks)))] for place in places)


def steps(view: JobView) -> str:
    found = []
    for what in ("step", "epoch"):
        here, total = view.metrics.get(f"current_{what}"), view.metrics.get(f"total_{what}s")
        if here is not None:
            found.append(f"{what} {number(here)}" + (f" of {number(total)}" if total is not None else ""))
    return ", ".join(found)


def line(view: JobView, *, namespace: bool) -> str:
    name = printable(f"{view.namespace}/{view.name}" if namespace else view.name)
    parts = [
        f"{name}: {state(view)}",
        percent(view),
        f"ETA {remaining(view)}",
        f"reported {reported(view)}",
        steps(view),
        f"attempt {view.attempt}" if (view.attempt or 1) > 1 else "",
        why(view),
    ]
    if view.loss is not None:
        parts.append(f"{printable(view.loss)} {loss(view)}")
    return ", ".join(part for part in parts if part)


def table(views: Sequence[JobView], *, namespaces: bool) -> list[str]:
    columns: dict[str, Callable[[JobView], str]] = {"NAMESPACE": lambda view: view.namespace} if namespaces else {}
    columns |= {"JOB": lambda view: printable(view.name), "STATE": state, "PROGRESS": percent, "ETA": remaining}
    columns |= {"REPORTED": reported, "LOSS": loss}
    if any((view.attempt or 1) > 1 for view in views):
        columns["ATTEMPT"] = attempt
    if any(map(why, views)):
        columns["WHY"] = why
    return aligned([list(columns), *([cell(view) for cell in columns.values()] for view in views)])


def searches(shown: JobViews) -> list[str]:
    """A line for each search that has trials among the jobs: how many are in which state, and whether it is stopped."""
    found: dict[Key, list[str]] = {}
    for view in shown.views:
        if view.search:
            found.setdefault(Key(view.namespace, view.search), []).append(str(view.state))
    return [
        f"search {printable(key.name)}{' (stopped)' if key in shown.stopped else ''}: {counted(len(states), 'trial')}, "
        + ", ".join(f"{states.count(one)} {one}" for one in dict.fromkeys(states))
        for key, states in found.items()
    ]


def aligned(rows: Sequence[Sequence[str]], *, gap: int = 3) -> list[str]:
    """The rows as lines whose columns begin below each other; all rows are of one length."""
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    return [(" " * gap).join(map(filled, row, widths)).rstrip() for row in rows]


def details(view: JobView, now: datetime, *, ascii_only: bool = False, width: int = 30) -> list[tuple[str, str]]:
    """One job: names and texts, in the order in which they are shown."""
    which = f", attempt {view.attempt}" if view.attempt is not None else ""
    shown = [("state", f"{state(view)}{which}")]
    if view.message and view.state not in ("Complete", "Suspended"):
        shown.append(("why", printable(view.message)))
    if view.percentage is not None:
        progress = f"[{bar(view, width, ascii_only=ascii_only)}] {percent(view)}"
        end = AT_END if view.at_end else ""
        shown.append(("progress", ", ".join(filter(None, (progress, steps(view), end)))))
    elif steps(view):
        shown.append(("progress", steps(view)))
    left = view.remaining
    if left is not None:
        source = "reported" if left.reported else "from the last minutes"
        over = (
            "later than was reported"
            if left.late
            else f"{source}, until {now + timedelta(seconds=left.seconds):%H:%M} UTC"
        )
        shown.append(("ETA", f"{remaining(view)} ({over})"))
    told = f" ({view.reported:%Y-%m-%d %H:%M:%S} UTC)" if view.reported is not None else ""
    shown.append(("reported", reported(view) + told if told else "never"))
    for name, value in view.metrics.items():
        if name not in COUNTERS:
            spark = sparkline(view.history.curve(name), ascii_only=ascii_only)
            shown.append((printable(name), f"{number(value)}  {spark}".rstrip()))
    return shown


def detail_lines(view: JobView, now: datetime) -> list[str]:
    return titled(view, details(view, now, ascii_only=True))


def titled(view: JobView, shown: Sequence[tuple[str, str]]) -> list[str]:
    """The job's name, and below it names and texts in two columns."""
    width = max(cells(name) for name, _ in shown)
    return [printable(f"{view.namespace}/{view.name}"), *(f"  {filled(name, width)}  {text}" for name, text in shown)]
