# SPDX-License-Identifier: Apache-2.0
"""The ways to show jobs: on a terminal, as plain lines, as JSON."""

import json
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from trainwright.api.objects import Key
from trainwright.api.times import format_time
from trainwright.controller.cli.progress import text
from trainwright.controller.cli.progress.view import JobViews, as_json

INSTALL = "for a live table, install rich: pip install rich"


class Display(Protocol):
    ages: bool
    """Whether it shows the time that passes, and so is drawn again without a change."""

    def begin(self) -> AbstractContextManager[Any]:
        """Begin to watch; leaving it ends it."""
        return nullcontext()

    def once(self, picture: JobViews) -> None: ...

    def show(self, picture: JobViews) -> None: ...


@dataclass(slots=True)
class PlainDisplay(Display):
    """A table or the details once; while watching, one line for each change."""

    namespaces: bool
    one: bool
    ages: bool = False
    _trouble: str = ""

    def once(self, picture: JobViews) -> None:
        if not picture.views:
            print("no TrainJobs")
        elif self.one:
            print(*text.detail_lines(picture.views[0], picture.now), sep="\n")
        else:
            print(*text.table(picture.views, namespaces=self.namespaces), sep="\n")

    def show(self, picture: JobViews) -> None:
        moment = format_time(picture.now)
        for view in picture.views:
            if Key(view.namespace, view.name) in picture.changed:
                print(f"{moment} {text.line(view, namespace=self.namespaces)}")
        for key in picture.deleted:
            name = f"{key.namespace}/{key.name}" if self.namespaces else key.name
            print(f"{moment} {name}: deleted")
        if picture.trouble != self._trouble:
            self._trouble = picture.trouble
            print(f"{moment} {text.printable(picture.trouble) or 'the API server answers again'}", file=sys.stderr)
        sys.stdout.flush()


@dataclass(slots=True)
class JSONDisplay(Display):
    """One document; while watching, one line of JSON for each change."""

    one: bool
    ages: bool = False

    def once(self, picture: JobViews) -> None:
        found = [as_json(view) for view in picture.views]
        print(json.dumps(found[0] if self.one else {"jobs": found}))

    def show(self, picture: JobViews) -> None:
        for view in picture.views:
            if Key(view.namespace, view.name) in picture.changed:
                print(json.dumps(as_json(view)))
        for key in picture.deleted:
            print(json.dumps({"namespace": key.namespace, "name": key.name, "deleted": True}))
        sys.stdout.flush()


def output_for(form: str, *, watch: bool, one: bool, namespaces: bool) -> Display:
    """The output for the format that is asked for. Without rich, a terminal gets plain text, and a hint."""
    if form == "json":
        return JSONDisplay(one=one)
    with suppress(ImportError):
        from trainwright.controller.cli.progress.screen import TerminalDisplay, is_steerable  # noqa: PLC0415 - optional

        if is_steerable():
            return TerminalDisplay(namespaces=namespaces, one=one)
    if watch and sys.stdout.isatty():
        print(INSTALL, file=sys.stderr)
    return PlainDisplay(namespaces=namespaces, one=one)
