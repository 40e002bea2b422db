# SPDX-License-Identifier: Apache-2.0
"""The `trainwright` command as a shell sees it."""

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
