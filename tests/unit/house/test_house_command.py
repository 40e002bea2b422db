# SPDX-License-Identifier: Apache-2.0
"""The `trainwright` command as a shell sees it."""

import io
import sys

import pytest

import trainwright
from trainwright.controller.cli.main import main


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["--version"])
    assert exit_info.value.code == 0
    assert capsys.readouterr().out == f"trainwright {trainwright.__version__}\n"


def test_no_command_is_wrong_use_and_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: trainwright" in capsys.readouterr().err


def test_letters_that_the_encoding_of_the_output_lacks_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    assert main([]) == 2
    print("größe ▁ 3", flush=True)
    assert written.getvalue() == b"gr\xf6\xdfe \\u2581 3\n"
