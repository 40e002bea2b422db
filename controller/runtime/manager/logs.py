# SPDX-License-Identifier: Apache-2.0
"""Log lines with the reconcile that they belong to, as text or as JSON.

Code logs with the standard library. This module only sets up the root logger of a process that has not done so itself.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from trainwright.controller.runtime.context import ContextFilter

_CONTEXT = {
    "controller": "controller",
    "namespace": "namespace",
    "object_name": "name",
    "reconcile_id": "reconcileID",
    "reasons": "reasons",
}


class TextFormatter(logging.Formatter):
    """Time, level, logger, message, and the fields of the reconcile."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, followed by the traceback if there is one."""
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        context = "".join(f" {name}={value}" for name, value in _context(record).items())
        module = record.name.removeprefix("trainwright.")
        line = f"{moment}Z {record.levelname:<7} {module}: {record.getMessage()}{context}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JSONFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """The JSON object; the field `error` holds a traceback."""
        fields: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
            **_context(record),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


_FORMATTERS: dict[str, type[TextFormatter | JSONFormatter]] = {"text": TextFormatter, "json": JSONFormatter}


class _File(logging.FileHandler):
    """Drops lines for which the disk has no room, instead of writing tracebacks to the terminal."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name of the standard library
        """Report what is not a failure of the disk, as every handler does."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


def _context(record: logging.LogRecord) -> dict[str, str]:
    return {name: value for attribute, name in _CONTEXT.items() if (value := getattr(record, attribute, ""))}


def configure_logging(
    level: str | int = logging.INFO, style: Literal["text", "json"] = "text", *, file: Path | None = None
) -> None:
    """Let the root logger write to standard error or to a new file, unless it has a handler already.

    Raises OSError if the file cannot be written.
    """
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr) if file is None else _File(file, "w", encoding="utf-8")
    handler.setFormatter(_FORMATTERS[style]())
    handler.addFilter(ContextFilter())
    root.addHandler(handler)
    root.setLevel(level)


def change_logging(level: str | int, style: Literal["text", "json"]) -> None:
    """Let what `configure_logging` set up go on in another way."""
    root = logging.getLogger()
    root.setLevel(level)
    for handler in root.handlers:
        if isinstance(handler.formatter, tuple(_FORMATTERS.values())):
            handler.setFormatter(_FORMATTERS[style]())
