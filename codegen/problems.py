# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the authored schemas, all of it at once.

A compiler that stops at the first error makes its user start it ten times. Every check adds to one `Problems`; nothing
is written while it holds anything.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake and where it stands."""

    file: str
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else f"{self.file}: "
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


class CompileError(Exception):
    """The schemas cannot be compiled. Holds every problem that was found, in the order of the files."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


@dataclass
class Problems:
    """Collects problems until somebody asks whether there were any."""

    found: list[Problem] = field(default_factory=list)

    def add(self, file: str, line: int, path: str, message: str) -> None:
        """Note one problem. The same one, reached by two ways, counts once."""
        problem = Problem(file, line, path, message)
        if problem not in self.found:
            self.found.append(problem)

    def stop_if_any(self) -> None:
        """Raise `CompileError` with everything found so far."""
        if self.found:
            raise CompileError(sorted(self.found))
