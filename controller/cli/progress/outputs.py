# SPDX-License-Identifier: Apache-2.0
"""The ways to show jobs: on a terminal, as plain lines, as JSON."""

import json
import sys
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from trainwright.api.objects import Key
from trainwright.api.times import format_time
from trainwright.controller.cli.progress import screen, text
from trainwright.controller.cli.progress.view import View, as_json

INSTALL = "for a live table, install rich: pip install rich"


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What there is to show at one moment."""

    views: Sequence[View]
    now: datetime
    changed: Collection[Key] = ()
    """Jobs that have changed since the last picture."""
    deleted: Collection[Key] = ()
    trouble: str = ""
    """Why the picture may be old; empty: it is not."""


class Output(Protocol):
    """A way to show."""

    ages: bool
    """Whether it shows the time that passes, and so is drawn again without a change."""

    def begin(self) -> AbstractContextManager[Any]:
        """Begin to watch; leaving it ends it."""
        ...

    def once(self, picture: Picture) -> None:
        """Show the only picture."""
        ...

    def show(self, picture: Picture) -> None:
        """Show the next picture."""
        ...


@dataclass(slots=True)
class Terminal:
    """A table, or all about one job, drawn in place."""

    namespaces: bool
    one: bool
    ages: bool = True
    _screen: screen.Screen | None = None

    def begin(self) -> AbstractContextManager[Any]:
        """Hide the cursor; leaving it shows it again."""
        self._screen = screen.Screen()
        return self._screen

    def once(self, picture: Picture) -> None:
        """Print it."""
        console = screen.Screen().console
        console.print(self._drawn(picture, console))

    def show(self, picture: Picture) -> None:
        """Draw it in place of the last one."""
        assert self._screen is not None
        self._screen.draw(self._drawn(picture, self._screen.console))

    def _drawn(self, picture: Picture, console: Any) -> Any:
        if self.one and picture.views:
            return screen.one_job(picture.views[0], console, picture.now, note=picture.trouble)
        return screen.overview(picture.views, console, namespaces=self.namespaces, note=picture.trouble)


@dataclass(slots=True)
class Plain:
    """A table or the details once; while watching, one line for each change."""

    namespaces: bool
    one: bool
    ages: bool = False
    _trouble: str = ""

    def begin(self) -> AbstractContextManager[Any]:
        """Nothing is to be done."""
        return nullcontext()

    def once(self, picture: Picture) -> None:
        """Print it."""
        if not picture.views:
            print("no TrainJobs")
        elif self.one:
            print(*text.detail_lines(picture.views[0], picture.now), sep="\n")
        else:
            print(*text.table(picture.views, namespaces=self.namespaces), sep="\n")

    def show(self, picture: Picture) -> None:
        """Print what has changed."""
        moment = format_time(picture.now)
        for view in picture.views:
            if Key(view.namespace, view.name) in picture.changed:
                print(f"{moment} {text.line(view, namespace=self.namespaces)}")
        for key in picture.deleted:
            print(
                f"{moment} {key.namespace}/{key.name}: deleted" if self.namespaces else f"{moment} {key.name}: deleted"
            )
        if picture.trouble != self._trouble:
            self._trouble = picture.trouble
            print(f"{moment} {text.printable(picture.trouble) or 'the API server answers again'}", file=sys.stderr)
        sys.stdout.flush()


@dataclass(slots=True)
class JSON:
    """One document; while watching, one line of JSON for each change."""

    one: bool
    ages: bool = False

    def begin(self) -> AbstractContextManager[Any]:
        """Nothing is to be done."""
        return nullcontext()

    def once(self, picture: Picture) -> None:
        """Print it."""
        found = [as_json(view) for view in picture.views]
        print(json.dumps(found[0] if self.one else {"jobs": found}))

    def show(self, picture: Picture) -> None:
        """Print what has changed."""
        for view in picture.views:
            if Key(view.namespace, view.name) in picture.changed:
                print(json.dumps(as_json(view)))
        for key in picture.deleted:
            print(json.dumps({"namespace": key.namespace, "name": key.name, "deleted": True}))
        sys.stdout.flush()


def output_for(form: str, *, watch: bool, one: bool, namespaces: bool) -> Output:
    """The output for the format that is asked for. Without rich, a terminal gets plain text, and a hint."""
    if form == "json":
        return JSON(one=one)
    if screen.is_available():
        return Terminal(namespaces=namespaces, one=one)
    if watch and sys.stdout.isatty():
        print(INSTALL, file=sys.stderr)
    return Plain(namespaces=namespaces, one=one)
