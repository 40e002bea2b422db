# SPDX-License-Identifier: Apache-2.0
"""Folds what torchrun itself writes when one of its processes fails: lines and tracebacks of its own, and a summary.

Of the lines that a terminal shows, the user's part is then the last. The file of the log has all of them.
"""

import re

from trainwright.api.messages import counted

_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "([^"]*)"')
_RUNNER = re.compile(r"(?:^|/)torchrun$|torch/distributed/(?:run|launcher/\w+|elastic/[\w/]+)\.py$")
"""Where the outermost frame of a traceback of torchrun is; that of a training is in its script."""
_STARTER = re.compile(r"runpy>?(?:\.py)?$")
"""The frames before it, of `python -m`."""
_AGENT = re.compile(r"^(?:[WEI]\d{4} |(?:ERROR|WARNING|INFO):).*torch[./]distributed[./](?:elastic|run|launcher)")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_RULER = re.compile(r"={20,}$")


class Folding:
    """The lines of one run of a container, one after the other."""

    def __init__(self, advice: str) -> None:
        """`advice`: how to see all lines."""
        self._advice = advice
        self._folded = 0
        self._held: list[str] = []
        """The head of a traceback: its first frame says whose it is."""
        self._said = ""
        """How a traceback ends that is folded, unless it is for a process that has said so itself."""
        self._inside = ""
        """What comes: frames of a `traceback`, a `summary`, its rest (`rulers`), the next of a `chain`, or nothing."""

    def take(self, line: str) -> list[str]:
        """The lines to show now."""
        if self._held:
            return self._decided(line)
        if line == _TRACEBACK and self._inside in ("", "chain"):
            self._held = [line]
            return []
        inside = self._part(line)
        return [*self.end(), line] if inside is None else self._fold(inside)

    def _decided(self, line: str) -> list[str]:
        frame, held = _FRAME.match(line), [*self._held, line]
        if (frame is not None and _STARTER.search(frame[1])) or (frame is None and len(held) > 2):
            self._held = held  # the source of a frame may follow it
            return []
        self._held = []
        if frame is not None and _RUNNER.search(frame[1]):
            return self._fold("traceback", len(held))
        return [*self.end(), *held]

    def _part(self, line: str) -> str | None:
        """What follows the line if it is one of torchrun; None: it is none."""
        match self._inside:
            case "traceback":
                if line.startswith(" "):
                    return "traceback"
                is_of_child = "ChildFailedError" in line
                self._said = "" if is_of_child else line
                return "summary" if is_of_child else "chain"
            case "summary":
                return "rulers" if _RULER.match(line) else "summary"
            case "rulers":
                return "" if _RULER.match(line) else "rulers"
        is_between = self._inside == "chain" and (not line.strip() or line.startswith(_CHAINED))
        return self._inside if is_between or _AGENT.search(line) else None

    def end(self) -> list[str]:
        """What stands for the lines that were folded; also at the end of the log."""
        found = [*self._held]
        if self._folded:
            said = f", which end with {self._said}" if self._said else ""
            found.insert(0, f"({counted(self._folded, 'line')} of torchrun{said}: {self._advice})")
        self._held, self._inside, self._said, self._folded = [], "", "", 0
        return found

    def _fold(self, inside: str, lines: int = 1) -> list[str]:
        self._inside, self._folded = inside, self._folded + lines
        return []
