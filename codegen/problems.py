# SPDX-License-Identifier: Apache-2.0
"""Collects the problems of the authored schemas, so that one run reports all of them.

Every check adds to one `Problems`. No file is written if there is a problem.
"""

import sys
from dataclasses import dataclass, field


@dataclass(frozen=True, order=True)
class SchemaMistake:
    file: str
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else f"{self.file}: "
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


class CompileError(Exception):
    """The schemas cannot be compiled. It has all problems, in the order of the files."""

    def __init__(self, problems: list[SchemaMistake]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))

    def report(self, program: str) -> None:
        print(f"{self}\n{program}: {len(self.problems)} problem(s); nothing was written", file=sys.stderr)


@dataclass
class Problems:
    found: list[SchemaMistake] = field(default_factory=list)

    def add(self, file: str, line: int, path: str, message: str) -> None:
        """Add one problem, unless it was added before."""
        problem = SchemaMistake(file, line, path, message)
        if problem not in self.found:
            self.found.append(problem)

    def stop_if_any(self) -> None:
        """Raise `CompileError` with everything found so far."""
        if self.found:
            raise CompileError(sorted(self.found))
