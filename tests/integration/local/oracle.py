# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' own field manager, as a program that answers cases (`hack/field-manager`)."""

import json
import subprocess
from types import TracebackType
from typing import Any, Self

from tests.go_programs import program
from tests.repository import ROOT

SOURCES = ROOT / "hack" / "field-manager"

Answer = dict[str, Any]


class Oracle:
    """The running program; a context manager."""

    def __enter__(self) -> Self:
        # It logs what it cannot read; the answers say the same.
        self._process = subprocess.Popen(
            [program(SOURCES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._schemas: dict[str, str] = {}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def ask(self, **request: Any) -> list[Answer]:
        """The distinct answers to one case; `repeat` says how often it is run."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answers: list[Answer] = json.loads(self._process.stdout.readline())
        assert not any("broken" in answer for answer in answers), answers
        return answers

    def define(self, models: dict[str, Any]) -> str:
        """Make models known; the name to use in cases."""
        text = json.dumps(models)
        if text not in self._schemas:
            self._schemas[text] = str(len(self._schemas))
            [answer] = self.ask(op="define", schema=self._schemas[text], models=models)
            assert not answer, answer
        return self._schemas[text]
